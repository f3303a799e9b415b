/**
 * The bounds on bytes where requests meet them: on a node of its own, over sockets that do not read or do
 * not send on.
 * Field cases: answers that nobody reads; bodies that stall; one token takes all.
 */
import { connect, type Socket } from 'node:net'
import { afterEach, expect, test } from 'vitest'
import { startApp, testConfig } from '../support/app.ts'
import { a2aClient, agentClient, post } from '../support/clients/actors.ts'
import { until } from '../support/until.ts'

/** Bodies and unread answers may have 16 MiB each. */
const app = await startApp({ config: testConfig({ inFlightMegabytes: 32 }) })
const { client, agent } = await app.queue('desk', { contexts: 'parallel' })
const other = await app.queue('other', { contexts: 'parallel' })
const a2a = a2aClient(app.url, 'desk', client.token)
/** Too large to be taken by the system's buffers. */
const large = await a2a.submit('x'.repeat(3_900_000))
const worker = agentClient(app.url, agent.token)
const { held } = await worker.claim()
for (const artifactId of ['a', 'b']) {
  const artifact = { artifactId, parts: [{ text: 'z'.repeat(3_900_000) }] }
  await worker.call('todos.artifact', { ...held, artifact })
}
const { hostname, port } = new URL(app.url)

const sockets: Socket[] = []
const timers: NodeJS.Timeout[] = []
afterEach(() => {
  for (const timer of timers.splice(0)) clearInterval(timer)
  for (const socket of sockets.splice(0)) socket.destroy()
})

const rpc = (method: string, params: object) =>
  JSON.stringify({ jsonrpc: '2.0', id: 1, method, params })
const headOf = (...more: string[]) =>
  [
    'POST /a2a/desk/ HTTP/1.1',
    'Host: x',
    'Content-Type: application/json',
    'A2A-Version: 1.0',
    `Authorization: Bearer ${client.token}`,
    ...more,
    '\r\n',
  ].join('\r\n')
const open = (text: string): Socket => {
  const socket = connect(Number(port), hostname)
  socket.on('error', () => {})
  sockets.push(socket)
  socket.write(text)
  return socket
}

const list = (queue: string, token: string) =>
  post(`${app.url}/a2a/${queue}/`, rpc('ListTasks', { contextId: 'none' }), {
    token,
    headers: { 'A2A-Version': '1.0' },
  })
const statusOf = async () => (await list('desk', client.token)).status

test.each([
  ['answers', 'GetTask'],
  ['streams', 'SubscribeToTask'],
])(
  '%s that nobody reads are counted: their owner is refused, and others are not',
  async (...how) => {
    const body = rpc(how[1], { id: large.id })
    open(`${headOf(`Content-Length: ${body.length}`)}${body}`).pause()
    const refused = await until(
      async () => {
        const answer = await list('desk', client.token)
        return answer.status === 429 ? answer : null
      },
      { what: 'a refusal' },
    )
    const { message, data } = refused.body.error
    expect(message).toContain('wait to be read')
    expect(data[0]).toMatchObject({
      reason: 'RATE_LIMITED',
      metadata: { limit: String(8 * 1024 * 1024) },
    })
    expect(refused.headers.get('retry-after')).toBe('1')
    expect((await list('other', other.client.token)).status).toBe(200)
    for (const socket of sockets) socket.destroy()
    await until(async () => (await statusOf()) === 200)
  },
)

/** Says that a large body comes, and sends hardly any of it, but goes on. */
const begin = (head: string, piece: string): Promise<string> => {
  const socket = open(head + piece)
  timers.push(setInterval(() => socket.write(head.includes('chunked') ? '1\r\n \r\n' : ' '), 200))
  let answer = ''
  return new Promise((resolve) => {
    socket.on('data', (chunk: Buffer) => {
      answer += chunk
      if (answer.includes('\r\n\r\n')) resolve(answer)
    })
  })
}

test.each([
  ['that say their length', headOf('Content-Length: 4000000'), ' '],
  [
    'that do not',
    headOf('Transfer-Encoding: chunked'),
    `${(100_000).toString(16)}\r\n${' '.repeat(100_000)}\r\n`,
  ],
])(
  'large bodies %s wait for room, and their owner is refused what it has no room for',
  async (...how) => {
    const [, head, piece] = how
    const answers = [begin(head, piece), begin(head, piece)]
    // One of them has all the room of its owner; small ones need none of it.
    const refused = await Promise.race(answers)
    expect(refused).toMatch(/^HTTP\/1\.1 429 [\s\S]*Retry-After: 1/)
    expect(await statusOf()).toBe(200)
    const message = {
      messageId: 'm',
      role: 'ROLE_USER',
      parts: [{ text: 'y'.repeat(3_900_000) }],
    }
    const theirs = await post(
      `${app.url}/a2a/other/`,
      rpc('SendMessage', { message, configuration: { returnImmediately: true } }),
      { token: other.client.token, headers: { 'A2A-Version': '1.0' } },
    )
    expect(theirs.status).toBe(200)
  },
)
