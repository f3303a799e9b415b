/**
 * What `dev` sets up for a first look: a queue with its card, an endpoint for a client and one for
 * an agent. It uses the operator API as anybody would, keeps its tokens in dev.json, and replaces
 * nothing that still works.
 */
import { chmodSync, renameSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { type Connection, connect } from '../agent-kit/connection/connection.ts'
import { AgentApiError } from '../agent-kit/errors.ts'
import { type DevFile, readDevFile } from './client.ts'

export const DEMO_QUEUE = 'concierge'

const CARD = {
  name: 'Concierge',
  description: 'Books a table: asks for the day and the number of guests, then confirms.',
  version: '1.0.0',
  skills: [
    {
      id: 'book-table',
      name: 'Book a table',
      description: 'Books a table and gives a confirmation and a calendar entry.',
      tags: ['booking', 'demo'],
      examples: ['A table, please'],
    },
  ],
}

interface Endpoint {
  id: string
  name: string
  revokedAt: string | null
  expiresAt: string | null
}

/** Makes sure that queue, endpoints and dev.json exist; returns the content of dev.json. */
export const setUpDemo = async (
  url: string,
  adminToken: string,
  dataDir: string,
): Promise<DevFile> => {
  const operator = connect({ url: `${url}/operator`, token: adminToken })
  const { queues } = await operator.call<{ queues: { name: string }[] }>('queues.list', {})
  // Only once, so that a card or policy that was changed since stays as it is.
  if (!queues.some(({ name }) => name === DEMO_QUEUE)) {
    await operator.call('queues.put', { name: DEMO_QUEUE, card: CARD })
  }
  const before = readDevFile(devFileIn(dataDir))
  const file: DevFile = {
    url,
    adminToken,
    clientToken: await tokenFor(operator, url, 'demo-client', 'send', before?.clientToken),
    agentToken: await tokenFor(operator, url, 'demo-agent', 'work', before?.agentToken),
  }
  writeDevFile(devFileIn(dataDir), file)
  return file
}

export const devFileIn = (dataDir: string): string => path.join(dataDir, 'dev.json')

/** Writes it whole or not at all, and readable only by its owner from the first byte on. */
const writeDevFile = (file: string, content: DevFile): void => {
  const fresh = `${file}.${process.pid}`
  writeFileSync(fresh, `${JSON.stringify(content, null, 2)}\n`, { mode: 0o600 })
  chmodSync(fresh, 0o600)
  renameSync(fresh, file)
}

const tokenFor = async (
  operator: Connection,
  url: string,
  name: string,
  verb: 'send' | 'work',
  before: string | undefined,
): Promise<string> => {
  if (before !== undefined && (await authenticates(url, before))) return before
  const { endpoints } = await operator.call<{ endpoints: Endpoint[] }>('endpoints.list', {})
  const old = endpoints.find(
    (one) => one.name === name && one.revokedAt === null && one.expiresAt === null,
  )
  const [method, params] = old
    ? ['endpoints.rotate', { id: old.id }]
    : ['endpoints.vend', { name, queues: [DEMO_QUEUE], verbs: [verb] }]
  return (await operator.call<{ token: string }>(method, params)).token
}

/** True where the token is somebody's; a refusal for any other reason comes after that check. */
const authenticates = async (url: string, token: string): Promise<boolean> => {
  try {
    await connect({ url: `${url}/agent`, token }).call('todos.list', { pageSize: 1 })
    return true
  } catch (error) {
    if (error instanceof AgentApiError) return error.status !== 401
    throw error
  }
}
