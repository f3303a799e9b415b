/**
 * Idle connections of a node that stops, and how long they are kept before.
 * Field case: idle connections outlive the balancer's.
 */
import { once } from 'node:events'
import { connect } from 'node:net'
import { expect, test } from 'vitest'
import { startApp, startNode, testConfig } from '../support/app.ts'
import { until } from '../support/until.ts'

const app = await startApp()
const { client } = await app.queue('desk')

/** A connection that is kept alive, and one request after the other over it. */
const keepAlive = (url: string) => {
  const { hostname, port } = new URL(url)
  const socket = connect(Number(port), hostname)
  let text = ''
  let failed: Error | null = null
  socket.on('data', (chunk: Buffer) => {
    text += chunk
  })
  socket.on('error', (error) => {
    failed = error
  })
  const closed = once(socket, 'close')
  return {
    closed,
    failed: () => failed,
    /** The next answer's head. */
    ask: async (path: string, body = '') => {
      text = ''
      const method = body === '' ? 'GET' : 'POST'
      socket.write(
        `${method} ${path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${client.token}\r\nContent-Length: ${body.length}\r\n\r\n`,
      )
      socket.write(body)
      await until(() => text.includes('\r\n\r\n'))
      return text.slice(0, text.indexOf('\r\n\r\n'))
    },
    destroy: () => socket.destroy(),
  }
}

test('idle connections are kept longer than the common balancers keep theirs, or as long as is set', async () => {
  const connection = keepAlive(app.url)
  expect(await connection.ask('/healthz')).toMatch(/^HTTP\/1\.1 200 [\s\S]*Keep-Alive: timeout=75/)
  connection.destroy()
  const node = await startNode(app.databaseUrl, { config: testConfig({ keepAliveSeconds: 7 }) })
  const other = keepAlive(node.url)
  expect(await other.ask('/healthz')).toContain('Keep-Alive: timeout=7')
  other.destroy()
  await node.stop()
})

test('a request over an idle connection of a node that stops is answered, and told to go elsewhere', async () => {
  const node = await startNode(app.databaseUrl, { lingerMs: 60_000, drainMs: 120_000 })
  const [asks, sends, leaves] = [keepAlive(node.url), keepAlive(node.url), keepAlive(node.url)]
  for (const connection of [asks, sends, leaves]) await connection.ask('/healthz')
  const stopped = node.stop()
  expect(await asks.ask('/readyz')).toMatch(/^HTTP\/1\.1 503 [\s\S]*Connection: close/)
  await asks.closed
  // A large body is read, so that the answer is not lost behind what was not.
  const body = JSON.stringify({ text: 'x'.repeat(3_000_000) })
  expect(await sends.ask('/a2a/desk/', body)).toMatch(/^HTTP\/1\.1 503 [\s\S]*Retry-After: 1/)
  await sends.closed
  leaves.destroy()
  // Nobody is left, so nothing is waited for.
  await stopped
  for (const { failed } of [asks, sends]) expect(failed()).toBeNull()
})

test('who stays idle is cut off once the time is up', async () => {
  const node = await startNode(app.databaseUrl, { lingerMs: 50 })
  const idle = keepAlive(node.url)
  await idle.ask('/healthz')
  await node.stop()
  await idle.closed
})
