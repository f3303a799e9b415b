/**
 * Seen by the chaos run (test/chaos): the database has committed, or the server has done what it was
 * asked, and the answer is lost on its way. Whoever asked cannot know; nothing may be done twice.
 */
import net from 'node:net'
import { afterAll, expect, test } from 'vitest'
import { type Agent, createAgent } from '../../src/agent-kit/agent.ts'
import type { Handler } from '../../src/agent-kit/attempt.ts'
import { startApp, startNode } from '../support/app.ts'
import { a2aClient, post } from '../support/clients/actors.ts'
import { openLink } from '../support/network/link.ts'
import { until } from '../support/until.ts'

const app = await startApp({ reapMs: 200, pollMs: 250 })
const target = new URL(app.databaseUrl)
const host = decodeURIComponent(target.hostname)
const port = Number(target.port || 5432)
const database = await openLink(() =>
  host.startsWith('/') ? net.connect(`${host}/.s.PGSQL.${port}`) : net.connect(port, host),
)
const through = new URL(app.databaseUrl)
through.hostname = '127.0.0.1'
through.port = String(database.port)
/** Its answers from the database can be lost; those to its callers, too. */
const node = await startNode(through.href, { pollMs: 250 })
const front = await openLink(() => net.connect(Number(new URL(node.url).port), '127.0.0.1'))
const url = `http://127.0.0.1:${front.port}`

const agents: Agent[] = []
afterAll(async () => {
  await Promise.all(agents.map((agent) => agent.stop({ graceMs: 0 })))
  await front.close()
  await node.stop()
  await database.close()
})

const quiet = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }

/** An agent of that queue which comes through the front. */
const work = (token: string, queue: string, handler: Handler): void => {
  const options = { url, token, queues: [queue], leaseSeconds: 60, log: quiet }
  const agent = createAgent(options, handler)
  agents.push(agent)
  agent.start()
}

const backoff = { initialSeconds: 1, factor: 1, maxSeconds: 1, jitter: 0 }
const line = (name: string) => app.queue(name, { backoff })
const ended = (queue: string, token: string, id: string) =>
  until(
    async () => {
      const task = await a2aClient(app.url, queue, token).get(id)
      return task.status.state === 'TASK_STATE_COMPLETED' && task
    },
    { what: 'the task is complete' },
  )
const isCommit = (answer: Buffer): boolean => answer.includes('COMMIT\0')

test('a chunk whose commit was not answered is not appended a second time', async () => {
  const { client, agent } = await line('chunks')
  work(agent.token, 'chunks', async (ctx) => {
    const artifactId = `of-${ctx.todo.attempt}`
    await ctx.artifact({ artifactId, parts: [{ text: '0' }] })
    if (ctx.todo.attempt === 1) database.loseAnswers(1, isCommit)
    await ctx.artifact({ artifactId, append: true, parts: [{ text: '1' }] })
    await ctx.artifact({ artifactId, append: true, parts: [{ text: '2' }] })
  })
  const { id } = await a2aClient(app.url, 'chunks', client.token).submit('x')
  const { artifacts } = await ended('chunks', client.token, id)
  const parts = Object.fromEntries(
    artifacts.map((artifact: { artifactId: string; parts: { text: string }[] }) => [
      artifact.artifactId,
      artifact.parts.map(({ text }) => text).join(' '),
    ]),
  )
  // It was written; the kit asked again, was told so, and the handler went on.
  expect(parts).toEqual({ 'of-1': '0 1 2' })
})

test('children whose commit was not answered are not forked a second time', async () => {
  const { client } = await line('parents')
  const { token } = await app.vend(['work', 'send'], ['parents'])
  work(token, 'parents', async (ctx) => {
    if (ctx.todo.parentId !== undefined || ctx.todo.children.length > 0) return
    database.loseAnswers(1, isCommit)
    await ctx.fork([{ queue: 'parents', message: 'x' }])
  })
  const { id } = await a2aClient(app.url, 'parents', client.token).submit('x')
  await until(async () => {
    const rows = await app.sql(
      `select count(*)::int as n from todos where id = $1 and state = 'done'`,
      [id],
    )
    return rows[0]?.n === 1
  })
  const rows = await app.sql('select count(*)::int as n from todos where parent_id = $1', [id])
  expect(rows).toEqual([{ n: 1 }])
  // The kit asked again, and the handler went on with the children of its first call.
  expect(await app.sql('select attempt from todos where id = $1', [id])).toEqual([{ attempt: 1 }])
})

test('what was said, and not answered, is said: the handler goes on', async () => {
  const { client, agent } = await line('sayings')
  work(agent.token, 'sayings', async (ctx) => {
    if (ctx.todo.attempt === 1) front.loseAnswers(1, (answer) => answer.includes('"seq"'))
    await ctx.say('once')
  })
  const { id } = await a2aClient(app.url, 'sayings', client.token).submit('x')
  await ended('sayings', client.token, id)
  const verbs = await app.sql<{ verb: string }>(
    'select verb from events where todo_id = $1 order by seq',
    [id],
  )
  expect(verbs.map(({ verb }) => verb)).toEqual(['send', 'claim', 'say', 'complete'])
})

test('todos whose claim was committed and not answered are handed back, not left to their lease', async () => {
  const { client, agent } = await line('claims')
  const { id } = await a2aClient(app.url, 'claims', client.token).submit('x')
  // The claim's row comes back under its names, and is lost on the way to the node.
  database.loseAnswers(1, (answer) => answer.includes(id) && answer.includes(agent.endpoint.id))
  work(agent.token, 'claims', async () => {})
  await ended('claims', client.token, id)
  expect(database.lost()).toBeGreaterThan(0)
})

test('an answer says where nobody knows what became of the call, and only there', async () => {
  const { client } = await line('unknown')
  const sends = async (contextId: string) => {
    const message = { messageId: 'm', contextId, role: 'ROLE_USER', parts: [{ text: 'x' }] }
    const params = { message, configuration: { returnImmediately: true } }
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'SendMessage', params })
    const options = { token: client.token, headers: { 'A2A-Version': '1.0' } }
    const { status, body: answer } = await post(`${node.url}/a2a/unknown/`, body, options)
    return { status, details: JSON.stringify(answer.error?.data) }
  }
  // The other node may have to hear of the queue first.
  await until(async () => (await sends('the first')).status === 200)
  database.loseAnswers(1, (answer) => answer.includes('the second'))
  const { status, details } = await sends('the second')
  expect(status).toBe(503)
  expect(details).toContain('"metadata":{"outcome":"unknown"}')
  // It was done, as it happens.
  const rows = await app.sql('select context_id from todos where queue = $1 order by 1', [
    'unknown',
  ])
  expect(rows).toEqual([{ context_id: 'the first' }, { context_id: 'the second' }])

  // Of what was only to be read, and of what never got there, nothing is unknown.
  database.loseAnswers(1, (answer) => answer.includes('the second'))
  const read = await a2aClient(node.url, 'unknown', client.token).call('ListTasks', {})
  expect(read.error.code).toBe(-32603)
  expect(JSON.stringify(read)).not.toContain('outcome')
})
