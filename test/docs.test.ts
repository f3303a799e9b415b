/** The examples of README and docs that a reader may paste, as they stand there, against the demo's agent. */
import { execFile } from 'node:child_process'
import fs from 'node:fs'
import path from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startApp } from './support/app.ts'
import type { Answer } from './support/clients/actors.ts'
import { type AgentProcess, startAgentProcess } from './support/process/agent-process.ts'

const run = promisify(execFile)
// Webhooks of the examples lead to names that are nobody's: they need not be looked for.
const app = await startApp({ push: { resolve: async () => [] } })
const { client, agent } = await app.queue('concierge')
let concierge: AgentProcess

beforeAll(async () => {
  concierge = await startAgentProcess('concierge.ts', { url: app.url, token: agent.token })
})
afterAll(() => concierge.stop())

const DOCS = fs
  .readdirSync('docs', { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.md'))
  .map((name) => path.join('docs', name))

/** Fenced blocks, without those that leave something out. */
const blocksOf = (file: string): string[] =>
  [...fs.readFileSync(file, 'utf8').matchAll(/^```\w*\n(.*?)^```$/gms)].map(([, text]) => text!)

/** Where an example stands, and what is to be pasted. */
type Example = [place: string, text: string]

const examplesIn = (files: readonly string[], find: (block: string) => string[]): Example[] =>
  files.flatMap((file) =>
    blocksOf(file)
      .flatMap(find)
      .filter((text) => !text.includes('…'))
      .map((text, index): Example => [`${file} ${index + 1}`, text]),
  )

/** Calls of A2A that begin with `$ curl`, with the lines that belong to them. */
const curls = examplesIn(['README.md', ...DOCS], (block) =>
  [...block.matchAll(/^\$ (curl (?:\\\n|'[^']*'|[^\n'])*)$/gm)]
    .map(([, command]) => command!)
    .filter((command) => command.includes('/a2a/')),
)

/** Requests as they are printed: a path and headers, or the body alone. */
const requests = examplesIn(DOCS, (block) => {
  const [request] =
    /^(POST \/a2a\/|\{"jsonrpc":"2\.0","id":\d+,"method").*?\}\}(?=\n\n|\n?$)/s.exec(block) ?? [
      undefined,
    ]
  return request === undefined ? [] : [request]
})

test('there are examples to be tried', () => {
  expect(curls.length).toBeGreaterThanOrEqual(3)
  expect(requests.length).toBeGreaterThanOrEqual(4)
})

const succeeds = (text: string): void => {
  const answer: Answer = JSON.parse(text)
  expect(answer.error).toBeUndefined()
  expect(answer.result ?? answer.tasks).toBeTruthy()
}

test.each(curls)('%s is answered', async (_, command) => {
  const { stdout } = await run('sh', ['-c', command.replaceAll('http://127.0.0.1:4100', app.url)], {
    env: { PATH: process.env.PATH, CLIENT_TOKEN: client.token },
  })
  succeeds(stdout)
})

test.each(requests)('%s is answered', async (_, text) => {
  const [head, body = ''] = text.startsWith('POST')
    ? text.split(/\n\n?(?=\{)/)
    : ['POST /a2a/concierge/\nA2A-Version: 1.0', text]
  const [target, ...headers] = head!.split('\n')
  const response = await fetch(app.url + target!.replace('POST ', ''), {
    method: 'POST',
    headers: {
      Authorization: `Bearer ${client.token}`,
      'Content-Type': 'application/json',
      ...Object.fromEntries(headers.map((header) => header.split(': '))),
    },
    body,
  })
  succeeds(await response.text())
})

test.each(['README.md', 'CHANGELOG.md', ...DOCS])('%s says nothing twice', (file) => {
  const paragraphs = fs
    .readFileSync(file, 'utf8')
    .split(/\n\s*\n/)
    .filter((text) => text.length > 80)
  expect(paragraphs.filter((text, index) => paragraphs.indexOf(text) !== index)).toEqual([])
})
