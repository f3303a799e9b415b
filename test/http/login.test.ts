// Failed log-ins to the board are bounded, and lock out nobody but who fails.
import { randomUUID } from 'node:crypto'
import net from 'node:net'
import { expect, test } from 'vitest'
import { networkOf } from '../../src/http/board/login.ts'
import { ADMIN_TOKEN, startApp, startNode, testConfig } from '../support/app.ts'
import { openLink } from '../support/network/link.ts'
import { until } from '../support/until.ts'

const app = await startApp()
const { token: watcher } = await app.vend(['watch'], [])

const login = (url: string, token: string, from?: string) =>
  fetch(`${url}/board/login`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      ...(from !== undefined && { 'x-forwarded-for': from }),
    },
    body: JSON.stringify({ token }),
  })
const statusOf = async (answer: Promise<Response>) => (await answer).status
const spend = (url: string, code: string) =>
  fetch(`${url}/board/login?code=${code}`, { redirect: 'manual' })

const wrong = (): string => `swb_${randomUUID()}`
const wrongs = (url: string, count: number, from?: string) =>
  Promise.all(Array.from({ length: count }, () => statusOf(login(url, wrong(), from))))

/** A node with nobody's failures on it. */
const fresh = async <T>(
  work: (node: Awaited<ReturnType<typeof startNode>>) => Promise<T>,
  config = {},
  databaseUrl = app.databaseUrl,
): Promise<T> => {
  await app.sql('delete from rate_limits')
  const node = await startNode(databaseUrl, { config: testConfig(config) })
  try {
    return await work(node)
  } finally {
    await node.stop()
  }
}

test('after ten failures an address is told to wait, at once or one by one', () =>
  fresh(async ({ url }) => {
    const statuses = await wrongs(url, 12)
    expect(statuses.filter((status) => status === 401)).toHaveLength(10)
    const late = await login(url, wrong())
    expect(late.status).toBe(429)
    expect(Number(late.headers.get('retry-after'))).toBeGreaterThan(0)
    expect((await spend(url, 'x'.repeat(43))).status).toBe(429)
  }))

test('failures are counted over all nodes, and what is past them costs the database nothing', () =>
  fresh(async (one) => {
    const other = await startNode(app.databaseUrl)
    try {
      const token = wrong()
      for (let i = 0; i < 5; i += 1) expect(await statusOf(login(one.url, token))).toBe(401)
      for (let i = 0; i < 5; i += 1) expect(await statusOf(login(other.url, token))).toBe(401)
      for (const { url } of [one, other]) {
        expect(await statusOf(login(url, token))).toBe(429)
        expect(await statusOf(login(url, wrong()))).toBe(429)
      }
      const counts = () => app.sql('select key, points from rate_limits order by key')
      const before = await counts()
      await Promise.all([one, other].map(({ url }) => wrongs(url, 20)))
      expect(await counts()).toEqual(before)
    } finally {
      await other.stop()
    }
  }))

test('good tokens and one-time links are not locked out by the failures of others at their address', () =>
  fresh(async (node) => {
    await wrongs(node.url, 15)
    expect(await statusOf(login(node.url, ADMIN_TOKEN))).toBe(204)
    expect(await statusOf(login(node.url, watcher))).toBe(204)
    expect((await spend(node.url, await node.issueBoardCode())).status).toBe(303)
    // They take nothing from the count either.
    expect(await statusOf(login(node.url, wrong()))).toBe(429)
  }))

test('a token that is wrong ten times has to wait, wherever it is tried from', () =>
  fresh(
    async ({ url }) => {
      const token = wrong()
      for (let i = 0; i < 10; i += 1) {
        expect(await statusOf(login(url, token, `192.0.2.${i}`))).toBe(401)
      }
      expect(await statusOf(login(url, token, '192.0.2.99'))).toBe(429)
      expect(await statusOf(login(url, wrong(), '192.0.2.99'))).toBe(401)
    },
    { trustProxy: ['loopback'] },
  ))

test('behind a trusted proxy each client has failures of its own', () =>
  fresh(
    async ({ url }) => {
      await wrongs(url, 11, '192.0.2.1')
      expect(await statusOf(login(url, wrong(), '192.0.2.1'))).toBe(429)
      expect(await statusOf(login(url, wrong(), '192.0.2.2'))).toBe(401)
      // What a client says of itself stands further left, and is not believed.
      expect(await statusOf(login(url, wrong(), '192.0.2.3, 192.0.2.1'))).toBe(429)
      // Nobody has less than all that begin with the same 64 bits.
      await wrongs(url, 11, '2001:db8::1')
      expect(await statusOf(login(url, wrong(), '2001:db8::ffff:2'))).toBe(429)
      expect(await statusOf(login(url, wrong(), '2001:db8:0:1::1'))).toBe(401)
    },
    { trustProxy: 1 },
  ))

test('without a trusted proxy what a request says of its address counts for nothing', () =>
  fresh(async ({ url }) => {
    for (let i = 0; i < 10; i += 1) await wrongs(url, 1, `192.0.2.${i}`)
    expect(await statusOf(login(url, wrong(), '192.0.2.99'))).toBe(429)
  }))

test('a valid token without the right, and a request that cannot be read, are no failures', () =>
  fresh(async ({ url }) => {
    const { token } = await app.vend(['send'], [])
    for (let i = 0; i < 12; i += 1) expect(await statusOf(login(url, token))).toBe(403)
    for (let i = 0; i < 12; i += 1) expect(await statusOf(login(url, ''))).toBe(400)
    expect(await statusOf(login(url, wrong()))).toBe(401)
  }))

test('while the database is away nobody has failed', async () => {
  const target = new URL(app.databaseUrl)
  const host = decodeURIComponent(target.hostname)
  let away = false
  const link = await openLink(() => {
    if (away) return null
    return host.startsWith('/')
      ? net.connect(`${host}/.s.PGSQL.${target.port || 5432}`)
      : net.connect(Number(target.port || 5432), host)
  })
  try {
    const through = new URL(app.databaseUrl)
    through.hostname = '127.0.0.1'
    through.port = String(link.port)
    await fresh(
      async ({ url }) => {
        away = true
        link.drop(1, Math.random)
        await until(async () => (await statusOf(login(url, wrong()))) === 503)
        for (let i = 0; i < 15; i += 1) expect(await statusOf(login(url, wrong()))).toBe(503)
        expect((await spend(url, 'x'.repeat(43))).status).toBe(503)
        away = false
        await until(async () => (await statusOf(login(url, watcher))) === 204)
        expect(await statusOf(login(url, wrong()))).toBe(401)
      },
      {},
      through.href,
    )
  } finally {
    await link.close()
  }
})

test.each([
  ['192.0.2.1', '192.0.2.1'],
  ['::ffff:192.0.2.1', '192.0.2.1'],
  ['::1', '0:0:0:0::/64'],
  ['2001:DB8::1', '2001:db8:0:0::/64'],
  ['2001:db8:0:1:2:3:4:5', '2001:db8:0:1::/64'],
  ['fe80::1%eth0', 'fe80:0:0:0::/64'],
  ['', ''],
])('%s counts as %s', (address, network) => {
  expect(networkOf(address)).toBe(network)
})

test('of a thousand sessions the token with most of them loses its oldest, and nobody else any', async () => {
  const { token: busy } = await app.vend(['watch'], [])
  const log = async (token: string): Promise<string> => {
    const answer = await login(app.url, token)
    expect(answer.status).toBe(204)
    return answer.headers.get('set-cookie')!.split(';')[0]!
  }
  const isOpen = async (cookie: string) =>
    (await fetch(`${app.url}/board/me`, { headers: { cookie } })).status
  const mine = await log(watcher)
  const operators = await log(ADMIN_TOKEN)
  const first = await log(busy)
  await app.sql(
    `insert into board_sessions (secret_sha256, token_sha256, expires_at)
    select sha256(n::text::bytea), sha256($1::bytea), now() + interval '1 hour'
    from generate_series(1, 1100) n`,
    [busy],
  )
  const last = await log(busy)
  expect(await app.sql('select count(*)::int as count from board_sessions')).toEqual([
    { count: 1000 },
  ])
  expect(await Promise.all([mine, operators, last].map(isOpen))).toEqual([200, 200, 200])
  expect(await isOpen(first)).toBe(401)
})
