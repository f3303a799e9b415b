/**
 * Tasks that are costly to read, read from all sides on a node with little memory: it lives, those who ask are
 * answered or refused by name, and others are served meanwhile.
 * Field cases: reads that cost far more than their text; whole tasks in every answer; streams behind a stream.
 */
import { connect, type Socket } from 'node:net'
import { afterEach, expect, test } from 'vitest'
import { startApp } from '../support/app.ts'
import { a2aClient, agentClient, post, textMessage } from '../support/clients/actors.ts'
import { killed } from '../support/process/child.ts'
import { type ServeProcess, serveProcessWith } from '../support/process/serve-process.ts'
import { metric } from '../support/steps.ts'
import { scaled } from '../support/timeouts.ts'
import { until } from '../support/until.ts'

const MEGABYTE = 1024 * 1024
const app = await startApp()
const { client, agent } = await app.queue('desk', { contexts: 'parallel' })
const good = await app.queue('good', { contexts: 'parallel' })
const a2a = a2aClient(app.url, 'desk', client.token)
const worker = agentClient(app.url, agent.token)

const sockets = new Set<Socket>()
let node: ServeProcess
const startNode = async (): Promise<void> => {
  node = await serveProcessWith(
    { NODE_OPTIONS: '--max-old-space-size=384', LOG_LEVEL: 'error' },
    app.databaseUrl,
  )
}
afterEach(async () => {
  for (const socket of sockets) socket.destroy()
  sockets.clear()
  await killed(node.child)
})

const times = <T>(count: number, make: (n: number) => T): T[] =>
  Array.from({ length: count }, (_, n) => make(n))
const call = (method: string, params: unknown) =>
  JSON.stringify({ jsonrpc: '2.0', id: 1, method, params })
const ask = (method: string, params: unknown) =>
  post(`${node.url}/a2a/desk`, call(method, params), {
    token: client.token,
    headers: { 'A2A-Version': '1.0' },
  })

/** A task that its agent holds, with as many documents as fit into it. */
const fill = async (part: object, kind: 'messages' | 'artifacts', most: number) => {
  const { id } = await a2a.submit('first')
  const { held } = await worker.claim({ leaseSeconds: 3600 })
  for (let n = 0; n < most; n += 1) {
    const refused =
      kind === 'messages'
        ? (
            await a2a.call('SendMessage', {
              message: { messageId: `${id} ${n}`, role: 'ROLE_USER', taskId: id, parts: [part] },
              configuration: { returnImmediately: true, historyLength: 0 },
            })
          ).error
        : await worker
            .call('todos.artifact', {
              ...held,
              artifact: { artifactId: 'a', parts: [part] },
              append: n > 0,
            })
            .then(
              () => undefined,
              (error: unknown) => error,
            )
    if (refused) break
  }
  return { id, held }
}

/** What somebody else and their agent do meanwhile, who must be served in time. */
const serveGood = async (): Promise<void> => {
  const signal = () => AbortSignal.timeout(scaled(20_000))
  expect((await fetch(`${node.url}/healthz`, { signal: signal() })).status).toBe(200)
  const sender = a2aClient(node.url, 'good', good.client.token)
  const taker = agentClient(node.url, good.agent.token)
  const task = await sender.submit('hello')
  const todo = await taker.claim()
  await taker.call('todos.complete', todo.held, { signal: signal() })
  expect((await sender.get(task.id)).status.state).toBe('TASK_STATE_COMPLETED')
}

/** How calls ended: answered, refused by this code, or broken off since too much was unread. */
const survives = async (calls: ReturnType<typeof ask>[]): Promise<Record<string, number>> => {
  let over = false
  const ended = Promise.allSettled(calls).finally(() => {
    over = true
  })
  while (!over) await serveGood()
  await serveGood()
  const counts: Record<string, number> = {}
  for (const each of await ended) {
    const how =
      each.status === 'fulfilled'
        ? (each.value.body.error?.data?.[0]?.reason ?? 'answered')
        : 'broken off'
    counts[how] = (counts[how] ?? 0) + 1
  }
  if (process.env.TEST_LOG === '1') process.stdout.write(`${JSON.stringify(counts)}\n`)
  expect([node.child.exitCode, node.child.signalCode], node.log.join('\n')).toEqual([null, null])
  const named = ['answered', 'broken off', 'RATE_LIMITED', 'LIMIT_REACHED', 'UNAVAILABLE']
  expect(Object.keys(counts).filter((how) => !named.includes(how))).toEqual([])
  return counts
}

const TINY = { data: Array(199_000).fill({}) }
/** One character of two bytes makes two of each. */
const WIDE = { text: `ж${'x'.repeat(3.9 * MEGABYTE)}` }
const PLAIN = { text: 'x'.repeat(3 * MEGABYTE) }

test.each([
  ['messages of tiny values', TINY, 'messages'],
  ['artifacts of tiny values', TINY, 'artifacts'],
  ['artifacts of wide characters', WIDE, 'artifacts'],
] as const)('%s, read thirty times at once', async (_, part, kind) => {
  const { id } = await fill(part, kind, 60)
  await startNode()
  const ended = await survives(times(30, () => ask('GetTask', { id })))
  expect(ended.answered).toBeGreaterThan(0)
})

test('sends to a large task, each answered with the whole of it', async () => {
  const { id } = await fill(PLAIN, 'artifacts', 8)
  await startNode()
  const send = (n: number) =>
    ask('SendMessage', {
      message: textMessage(`more ${n}`, { taskId: id }),
      configuration: { returnImmediately: true },
    })
  const ended = await survives(times(60, send))
  expect(ended.answered).toBeGreaterThan(0)
  const [{ kept }] = (await app.sql(
    `select count(*)::int as kept from messages where todo_id = $1 and message::text like '%more %'`,
    [id],
  )) as [{ kept: number }]
  expect(kept).toBe(60)
})

test('blocking sends that wait for large tasks', async () => {
  await startNode()
  const waits = times(8, () => ask('SendMessage', { message: textMessage('go') }))
  const held: object[] = []
  for (const _ of waits) {
    const todo = await worker.claim({ leaseSeconds: 3600 })
    for (let n = 0; n < 8; n += 1) {
      const artifact = { artifactId: 'a', parts: [PLAIN] }
      await worker.call('todos.artifact', { ...todo.held, artifact, append: n > 0 })
    }
    held.push(todo.held)
  }
  const ending = Promise.all(held.map((each) => worker.call('todos.complete', each)))
  const ended = await survives(waits)
  await ending
  expect(ended.answered).toBeGreaterThan(0)
})

test('streams of a large task behind a quiet one on the same connection', async () => {
  const quiet = await a2a.submit('quiet')
  const { id } = await fill(WIDE, 'messages', 2)
  await startNode()
  const { hostname, port } = new URL(node.url)
  const subscribe = (of: string): string => {
    const body = call('SubscribeToTask', { id: of })
    return (
      `POST /a2a/desk HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nA2A-Version: 1.0\r\n` +
      `Authorization: Bearer ${client.token}\r\nContent-Length: ${body.length}\r\n\r\n${body}`
    )
  }
  for (let n = 0; n < 10; n += 1) {
    const socket = connect(Number(port), hostname)
    sockets.add(socket)
    socket.on('error', () => {})
    socket.resume()
    socket.write(subscribe(quiet.id) + subscribe(id).repeat(50))
  }
  const open = () => metric(node, 'switchboard_streams_open{kind="a2a"}')
  await until(async () => (await open()) > 0)
  await survives([])
  // Each is read, refused or cut off, and leaves nothing.
  await until(async () => (await open()) === 0, { timeoutMs: 90_000, what: 'no stream is open' })
  await serveGood()
})
