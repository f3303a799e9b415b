/**
 * What `dev` prints once everything runs: where things are, the demo's tokens, and commands to
 * paste into a new terminal, whatever its directory.
 */
import { existsSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import type { DevFile } from './client.ts'
import { DEMO_QUEUE } from './demo.ts'
import { style } from './output.ts'

export const banner = (dev: DevFile, boardLink: string, dataDir: string): string => {
  const command = commandPrefix(dataDir)
  const fact = (name: string, value: string): string => `  ${name.padEnd(13)} ${value}`
  return [
    '',
    style('bold', 'switchboard is running'),
    '',
    fact('Board', `${boardLink}   (logs in, once)`),
    fact('Agent card', `${dev.url}/a2a/${DEMO_QUEUE}/.well-known/agent-card.json`),
    fact('Client token', dev.clientToken),
    fact('Agent token', dev.agentToken),
    '',
    'In a new terminal: send a task, answer its questions, watch the board',
    '',
    `  ${command} send ${DEMO_QUEUE} 'A table, please'`,
    `  ${command} answer latest 'tomorrow'`,
    `  ${command} watch`,
    '',
    'Ctrl-C stops everything; tasks are kept.',
    '',
  ].join('\n')
}

/** The command that runs this very program from anywhere, with this data directory's dev.json. */
const commandPrefix = (dataDir: string): string => {
  const main = fileURLToPath(import.meta.resolve('./main.js'))
  const built = fileURLToPath(import.meta.url).endsWith('.js')
  const root = path.resolve(path.dirname(main), built ? '../../..' : '../..')
  const ownDir = path.join(root, '.switchboard')
  const env = dataDir === ownDir ? '' : `SWITCHBOARD_DATA_DIR=${quoted(dataDir)} `
  // In its own clone, npx runs the clone's bin without asking a registry.
  const clone = built && existsSync(path.join(root, '.git'))
  if (clone) return `cd ${quoted(root)} && ${env}npx switchboard`
  if (built) return `${env}node ${quoted(main)}`
  return `cd ${quoted(root)} && ${env}npx tsx src/cli/main.ts`
}

const quoted = (text: string): string =>
  /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`
