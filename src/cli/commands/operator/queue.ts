/** `queue`: the lines of work, each with its card and its policy. */
import { readFileSync } from 'node:fs'
import type { Command } from 'commander'
import { CliError, EXIT } from '../../exit.ts'
import { oneLine, print, printJson, printTable } from '../../output.ts'
import { clientCommand, openSession, type SharedOptions } from '../../program.ts'

interface Queue {
  name: string
  card: { name: string; description: string; version: string }
  policy: { maxAttempts: number; contexts: string; retentionDays?: number }
}

interface PutOptions extends SharedOptions {
  card?: object
  policy?: object
}

export const addQueue = (program: Command): void => {
  const queue = program.command('queue').description('make, list and remove queues')

  clientCommand(queue, 'put <name>', 'make a queue, or change its card and policy')
    .option('--card <json>', 'its agent card: JSON, or @file', jsonObject)
    .option('--policy <json>', 'its policy: JSON, or @file', jsonObject)
    .action(async (name: string, options: PutOptions) => {
      const { client, json } = openSession(options)
      const put = await client.call<Queue>('queues.put', {
        name,
        ...(options.card === undefined ? {} : { card: options.card }),
        ...(options.policy === undefined ? {} : { policy: options.policy }),
      })
      if (json) printJson(put)
      else print(`queue ${put.name} is there`)
    })

  clientCommand(queue, 'list', 'list the queues').action(async (options: SharedOptions) => {
    const { client, json } = openSession(options)
    const found = await client.call<{ queues: Queue[] }>('queues.list')
    if (json) return printJson(found)
    printTable(['NAME', 'CONTEXTS', 'ATTEMPTS', 'KEPT', 'DESCRIPTION'], found.queues.map(row))
  })

  clientCommand(queue, 'remove <name>', 'remove a queue that has no live tasks').action(
    async (name: string, options: SharedOptions) => {
      const { client, json } = openSession(options)
      await client.call('queues.remove', { name })
      if (json) printJson({ name, removed: true })
      else print(`queue ${name} is removed`)
    },
  )
}

const row = ({ name, card, policy }: Queue): string[] => [
  name,
  policy.contexts,
  String(policy.maxAttempts),
  policy.retentionDays ? `${policy.retentionDays} d` : 'for ever',
  oneLine(card.description),
]

/** JSON as typed, or that of a file after `@`. Throws CliError. */
const jsonObject = (text: string): object => {
  try {
    const value: unknown = JSON.parse(
      text.startsWith('@') ? readFileSync(text.slice(1), 'utf8') : text,
    )
    if (typeof value === 'object' && value !== null) return value
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error)
    throw new CliError(EXIT.usage, `Not JSON: ${oneLine(text)} (${why})`)
  }
  throw new CliError(EXIT.usage, `Not a JSON object: ${oneLine(text)}`)
}
