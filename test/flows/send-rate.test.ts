/** How much an endpoint may send a minute: over all nodes, and from the first send on. */
import { expect, test } from 'vitest'
import { expireRateLimits } from '../../src/store/admin/rate-limits.ts'
import { openDatabase } from '../../src/store/postgres/database.ts'
import { startApp, startNode } from '../support/app.ts'
import { a2aClient } from '../support/clients/actors.ts'
import { operate } from '../support/steps.ts'

const app = await startApp()
await app.queue('desk', { contexts: 'parallel' })

const limited = async (sendPerMinute: number) => {
  const { token, endpoint } = await app.vend(['send'], ['desk'])
  await operate(app, 'endpoints.update', { id: endpoint.id, sendPerMinute })
  const rows = () =>
    app.sql<{ points: number; expire: string }>(
      'select points, expire from rate_limits where key = $1',
      [`send:${endpoint.id}`],
    )
  return { endpoint, rows, at: (url: string) => a2aClient(url, 'desk', token) }
}

const send = async (client: ReturnType<typeof a2aClient>): Promise<string | null> => {
  const { error } = await client.send('x', {}, { returnImmediately: true })
  return error ? error.data[0].reason : null
}

test('what two nodes let through together is what one may send', async () => {
  const other = await startNode(app.databaseUrl)
  try {
    const { at, rows } = await limited(5)
    const clients = [at(app.url), at(other.url)]
    const sent = await Promise.all(
      clients.flatMap((client) => Array.from({ length: 6 }, () => send(client))),
    )
    expect(sent.filter((reason) => reason === null)).toHaveLength(5)
    expect(sent.filter((reason) => reason === 'RATE_LIMITED')).toHaveLength(7)
    // From here on both nodes know by themselves.
    for (const client of clients) await send(client)
    const before = await rows()
    for (const client of clients) expect(await send(client)).toBe('RATE_LIMITED')
    expect(await rows()).toEqual(before)
  } finally {
    await other.stop()
  }
})

test('a refusal says how long the minute still lasts, and after it there is room again', async () => {
  const { at, endpoint } = await limited(1)
  const client = at(app.url)
  expect(await send(client)).toBeNull()
  const { error } = await client.send('x', {}, { returnImmediately: true })
  const { retryDelay } = error.data.find((detail: { retryDelay?: string }) => detail.retryDelay)
  expect(Number.parseInt(retryDelay, 10)).toBeGreaterThan(50)
  expect(Number.parseInt(retryDelay, 10)).toBeLessThanOrEqual(60)
  await app.sql('update rate_limits set expire = expire - 61000 where key = $1', [
    `send:${endpoint.id}`,
  ])
  const other = await startNode(app.databaseUrl)
  try {
    expect(await send(at(other.url))).toBeNull()
  } finally {
    await other.stop()
  }
})

test('an endpoint without a limit leaves no count', async () => {
  const { token, endpoint } = await app.vend(['send'], ['desk'])
  expect(await send(a2aClient(app.url, 'desk', token))).toBeNull()
  expect(
    await app.sql('select 1 from rate_limits where key = $1', [`send:${endpoint.id}`]),
  ).toEqual([])
})

test('counts of minutes that are over are deleted, and no others', async () => {
  const database = openDatabase({ connectionString: app.databaseUrl })
  try {
    await app.sql(`insert into rate_limits (key, points, expire) values
      ('over', 3, extract(epoch from now()) * 1000 - 61000), ('not yet', 3, extract(epoch from now()) * 1000 + 5000)`)
    expect(await expireRateLimits(database, 100)).toBeGreaterThan(0)
    const keys = await app.sql(`select key from rate_limits where key in ('over', 'not yet')`)
    expect(keys).toEqual([{ key: 'not yet' }])
  } finally {
    await database.close()
  }
})
