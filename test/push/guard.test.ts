// The SSRF guard: which addresses a webhook may lead to, however they are spelled, also after its
// name has come to mean another.
// Field cases: internal targets refused; addresses where clouds keep credentials;
// receivers that announce an answer without end.
import { createServer } from 'node:http'
import { type AddressInfo, createServer as createTcpServer, isIP } from 'node:net'
import fc from 'fast-check'
import { afterAll, expect, test } from 'vitest'
import { createGuard, type GuardOptions } from '../../src/webhook/guard.ts'
import { createPoster, type PostOptions } from '../../src/webhook/post.ts'
import { startReceiver } from '../support/network/receiver.ts'
import { peopleOf, startPushApp } from './support.ts'

const guardOf = (options: Partial<GuardOptions> = {}) =>
  createGuard({ allowHttp: true, allow: [], own: () => null, ...options })
const guard = guardOf()

/** One or more of each range that is not the public internet. */
const NOT_PUBLIC = [
  '0.0.0.0',
  '0.1.2.3',
  '10.0.0.1',
  '10.255.255.255',
  '100.64.0.1',
  '100.127.255.254',
  '127.0.0.1',
  '127.255.255.255',
  '169.254.0.1',
  '169.254.169.254',
  '172.16.0.1',
  '172.31.255.255',
  '192.0.0.1',
  '192.0.2.1',
  '192.88.99.1',
  '192.168.0.1',
  '198.18.0.1',
  '198.51.100.7',
  '203.0.113.9',
  '224.0.0.1',
  '239.255.255.250',
  '240.0.0.1',
  '255.255.255.255',
  '::',
  '::1',
  '::127.0.0.1',
  '::8.8.8.8',
  '::ffff:127.0.0.1',
  '::ffff:7f00:1',
  '::ffff:8.8.8.8',
  '::ffff:0:8.8.8.8',
  '64:ff9b::8.8.8.8',
  '64:ff9b::127.0.0.1',
  '64:ff9b:1::8.8.8.8',
  '100::1',
  '2001::1',
  '2001:2::1',
  '2001:10::1',
  '2001:20::1',
  '2001:db8::1',
  '2002:7f00:1::',
  '2002:808:808::',
  '3fff::1',
  '4000::1',
  '5f00::1',
  'fc00::1',
  'fd12:3456::1',
  'fe80::1',
  'fec0::1',
  'ff02::1',
]

const literal = (address: string): string => (address.includes(':') ? `[${address}]` : address)

test.each(NOT_PUBLIC)('%s is refused as a URL and as what a name stands for', (address) => {
  expect(guard.urlProblem(`https://${literal(address)}/h`)).not.toBeNull()
  expect(guard.addressProblem('name.example', address, 443)).not.toBeNull()
})

test.each(['8.8.8.8', '1.1.1.1', '172.32.0.1', '100.128.0.1', '2606:4700::1111', '2a00:1450::1'])(
  '%s is public',
  (address) => {
    expect(guard.urlProblem(`https://${literal(address)}/h`)).toBeNull()
    expect(guard.addressProblem('name.example', address, 443)).toBeNull()
  },
)

test.each([
  'localhost',
  'LOCALHOST',
  'localhost.',
  'localhost..',
  'a..example.com',
  '.example.com',
  'a.localhost',
  'ip6-localhost',
  'printer.local',
  'x.localdomain',
  'db.internal',
  'metadata.google.internal',
  'intranet',
  'router.lan',
  'nas.home.arpa',
  'kubernetes.default.svc.cluster.local',
])('the name %s is refused without being looked up', (name) => {
  expect(guard.urlProblem(`https://${name}/h`)).not.toBeNull()
})

/** Each way in which a URL can spell an IPv4 address. */
const spellings = (a: number, b: number, c: number, d: number): string[] => {
  const number = ((a << 24) | (b << 16) | (c << 8) | d) >>> 0
  const hex = (n: number): string => `0x${n.toString(16)}`
  const octal = (n: number): string => `0${n.toString(8)}`
  return [
    String(number),
    hex(number),
    octal(number),
    [a, b, c, d].map(hex).join('.'),
    [a, b, c, d].map(octal).join('.'),
    `${a}.${((b << 16) | (c << 8) | d) >>> 0}`,
    `${a}.${b}.${(c << 8) | d}`,
    `${hex(a)}.${b}.${octal(c)}.${d}`,
    `[::ffff:${a}.${b}.${c}.${d}]`,
    `[64:ff9b::${a}.${b}.${c}.${d}]`,
    `[2002:${((a << 8) | b).toString(16)}:${((c << 8) | d).toString(16)}::]`,
    `${a}%2e${b}%2e${c}%2e${d}`,
    `${a}。${b}。${c}。${d}`,
    [a, b, c, d].join('.').replace(/\d/g, (digit) => String.fromCodePoint(0xff10 + Number(digit))),
  ]
}

test('no spelling of any address but the usual one is let pass', () => {
  const byte = fc.integer({ min: 0, max: 255 })
  fc.assert(
    fc.property(byte, byte, byte, byte, fc.integer({ min: 0, max: 13 }), (a, b, c, d, way) => {
      const spelled = spellings(a, b, c, d)[way]!
      for (const url of [`http://${spelled}/`, `https://${spelled}:8443/x`]) {
        expect([url, guard.urlProblem(url)]).not.toEqual([url, null])
      }
    }),
    { numRuns: 500 },
  )
})

test('whatever is let pass leads to a public address or to a name with a dot in it', () => {
  const host = fc.oneof(
    fc.ipV4Extended(),
    fc.ipV6().map((ip) => `[${ip}]`),
    fc.domain(),
    fc.string(),
  )
  fc.assert(
    fc.property(host, fc.webPath(), (name, path) => {
      const url = `https://${name}${path}`
      if (guard.urlProblem(url) !== null) return
      const { hostname } = new URL(url)
      const bare = hostname.replace(/^\[|\]$/g, '')
      if (isIP(bare) === 0) expect(bare).toContain('.')
      else expect(guard.addressProblem(bare, bare, 443)).toBeNull()
    }),
    { numRuns: 1000 },
  )
})

test('http is refused unless it is allowed, and everything else always', () => {
  expect(guardOf({ allowHttp: false }).urlProblem('http://example.com/')).toBe(
    'must begin with https://',
  )
  expect(guard.urlProblem('http://example.com/')).toBeNull()
  for (const url of ['ftp://example.com/', 'javascript:alert(1)', 'data:,x', 'https:example.com']) {
    expect(guard.urlProblem(url)).not.toBeNull()
  }
})

test('what an operator lists is let pass: networks, addresses, names; and nothing beside it', () => {
  const listed = guardOf({ allow: ['10.0.0.0/8', '::1', 'fd00::/8', 'localhost', 'db.internal'] })
  for (const url of [
    'http://10.1.2.3/',
    'http://[::1]:8080/',
    'http://[fd00::1]/',
    'http://localhost:9/',
    'https://db.internal/',
  ]) {
    expect([url, listed.urlProblem(url)]).toEqual([url, null])
  }
  for (const url of [
    'http://127.0.0.1/',
    'http://192.168.0.1/',
    'http://a.localhost/',
    'http://[fc00::1]/',
  ]) {
    expect([url, listed.urlProblem(url)]).not.toEqual([url, null])
  }
  expect(listed.addressProblem('localhost', '127.0.0.1', 80)).toBeNull()
  expect(listed.addressProblem('other.example', '127.0.0.1', 80)).not.toBeNull()
  expect(listed.addressProblem('other.example', '10.9.9.9', 80)).toBeNull()
  expect(listed.addressProblem('other.example', '::ffff:10.9.9.9', 80)).toBeNull()
})

/** Where clouds keep credentials; one of them is a public address. */
const METADATA = [
  '169.254.169.254',
  '168.63.129.16',
  '100.100.100.200',
  '192.0.0.192',
  '169.254.170.2',
  '169.254.170.23',
  'fd00:ec2::254',
  'fd20:ce::254',
  'fe80::a9fe:a9fe',
]

test.each(METADATA)('%s is reached only where it is listed by itself', (address) => {
  const allowing = (...allow: string[]) => guardOf({ allow })
  const everything = allowing('0.0.0.0/0', '::/0', 'hooks.example')
  const mapped = address.includes(':') ? address : `::ffff:${address}`
  for (const [host, to] of [
    [address, address],
    ['other.example', address],
    ['other.example', mapped],
    ['hooks.example', address],
  ] as const) {
    expect(guard.addressProblem(host, to, 80)).not.toBeNull()
    expect(everything.addressProblem(host, to, 80)).toBe('is where a cloud keeps credentials')
    expect(allowing(address).addressProblem(host, to, 80)).toBeNull()
  }
  expect(everything.urlProblem(`http://${literal(address)}/`)).not.toBeNull()
  expect(allowing(address).urlProblem(`http://${literal(address)}/`)).toBeNull()
  const bits = address.includes(':') ? 128 : 32
  expect(allowing(`${address}/${bits}`).addressProblem(address, address, 80)).toBeNull()
  const named = allowing('metadata.google.internal')
  expect(named.addressProblem('metadata.google.internal', address, 80)).toBeNull()
})

test.each([
  '64:ff9b::a9fe:a9fe',
  '64:ff9b::a83f:8110',
  '::ffff:a83f:8110',
  '::169.254.169.254',
  '::ffff:0:169.254.169.254',
  '2002:a9fe:a9fe::',
  '2002:a83f:8110::1',
])(
  '%s, behind which a gateway finds one of them, is not reached through a listed network',
  (text) => {
    const everything = guardOf({ allow: ['0.0.0.0/0', '::/0'] })
    expect(everything.addressProblem('other.example', text, 80)).toBe(
      'is where a cloud keeps credentials',
    )
    expect(everything.addressProblem('other.example', '64:ff9b::808:808', 80)).toBeNull()
  },
)

test.each([
  ['127.0.0.1', '127.0.0.1', true],
  ['127.0.0.1', '::ffff:127.0.0.1', true],
  ['0.0.0.0', '127.0.0.1', true],
  ['::', '::1', true],
  ['127.0.0.1', '127.0.0.2', false],
])('a server that listens on %s is itself at %s: %s', (host, address, itself) => {
  const own = guardOf({
    allow: ['127.0.0.0/8', '::1', 'localhost'],
    own: () => ({ host, port: 4100 }),
  })
  const problem = own.addressProblem('localhost', address, 4100)
  expect(problem).toBe(itself ? 'is this server itself' : null)
  expect(own.addressProblem('localhost', address, 4101)).toBeNull()
})

const posterOf = (options: Partial<PostOptions> = {}, timeoutMs = 2000) => {
  const poster = createPoster({ guard, connectMs: 1000, ...options })
  afterAll(() => poster.close())
  const { signal } = new AbortController()
  return (url: string) => poster.post(url, {}, '{}', { timeoutMs, signal })
}

test('a name that stands for a private address is not connected to, also where one of several is public', async () => {
  const receiver = await startReceiver()
  for (const addresses of [
    ['127.0.0.1'],
    ['8.8.8.8', '127.0.0.1'],
    ['::1'],
    ['::ffff:127.0.0.1'],
  ]) {
    const post = posterOf({ resolve: async () => addresses })
    expect(await post(`http://rebound.example:${receiver.port}/h`)).toMatchObject({
      failure: expect.stringMatching(/^rebound\.example leads to .* not a public address$/),
      final: true,
    })
  }
  expect(receiver.told).toEqual([])
})

test('a name is looked up at each connection, and the connection goes to the address that was vetted', async () => {
  const receiver = await startReceiver(() => ({ status: 200, headers: { Connection: 'close' } }))
  const answers = [['127.0.0.1'], ['169.254.169.254'], ['127.0.0.1']]
  let asked = 0
  const post = posterOf({
    guard: guardOf({ allow: ['127.0.0.1'] }),
    resolve: async (host) => {
      expect(host).toBe('rebinding.example')
      asked += 1
      return answers[asked - 1]!
    },
  })
  const url = `http://rebinding.example:${receiver.port}/h`
  expect(await post(url)).toMatchObject({ status: 200 })
  expect(await post(url)).toMatchObject({ final: true })
  expect(await post(url)).toMatchObject({ status: 200 })
  expect(asked).toBe(3)
  expect(receiver.told.map(({ headers }) => headers.host)).toEqual(
    Array(2).fill(`rebinding.example:${receiver.port}`),
  )
})

test('of several addresses the next is tried where one does not answer', async () => {
  const receiver = await startReceiver()
  const post = posterOf({
    guard: guardOf({ allow: ['127.0.0.0/8'] }),
    resolve: async () => ['127.0.0.77', '127.0.0.1'],
  })
  expect(await post(`http://two.example:${receiver.port}/h`)).toMatchObject({ status: 200 })
})

test('an answer without end is let go, and one without a beginning times out', async () => {
  const server = createServer((req, res) => {
    if (req.url === '/silent') return
    if (req.url === '/huge-header') return res.writeHead(200, { x: 'x'.repeat(60_000) }).end()
    res.writeHead(200)
    const more = (): void => {
      while (res.write('x'.repeat(65_536)));
      res.once('drain', more)
    }
    more()
  })
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  afterAll(() => {
    server.closeAllConnections()
    server.close()
  })
  const { port } = server.address() as AddressInfo
  const post = posterOf({ guard: guardOf({ allow: ['127.0.0.1'] }) }, 500)
  expect(await post(`http://127.0.0.1:${port}/endless`)).toMatchObject({ status: 200 })
  expect(await post(`http://127.0.0.1:${port}/silent`)).toEqual({ failure: 'no answer in time' })
  expect(await post(`http://127.0.0.1:${port}/huge-header`)).toEqual({
    failure: expect.stringMatching(/^no connection: .*HEADERS_OVERFLOW/),
  })
})

test('answers that announce an answer without end are cut, long before the time is over; a few are fine', async () => {
  const hints = 'HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n'
  const server = createTcpServer((socket) => {
    socket.on('error', () => {})
    socket.once('data', (data) => {
      if (String(data).startsWith('POST /few')) {
        return socket.end(`${hints.repeat(10)}HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n`)
      }
      const more = (): void => {
        while (socket.writable && socket.write(hints.repeat(100)));
        socket.once('drain', more)
      }
      return more()
    })
  })
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  afterAll(() => server.close())
  const { port } = server.address() as AddressInfo
  const post = posterOf({ guard: guardOf({ allow: ['127.0.0.1'] }) }, 600_000)
  expect(await post(`http://127.0.0.1:${port}/few`)).toMatchObject({ status: 200 })
  expect(await post(`http://127.0.0.1:${port}/endless`)).toEqual({
    failure: 'more than 10 informational answers (1xx)',
  })
})

test('a webhook cannot be this server itself, whatever is allowed', async () => {
  const app = await startPushApp()
  const { worker, sendWith, a2a } = await peopleOf(app, 'own')
  const { port } = new URL(app.url)
  await expect(sendWith({ url: `http://127.0.0.1:${port}/operator` })).rejects.toMatchObject({
    error: { code: -32602 },
  })
  const task = await a2a.submit('x')
  await app.services.push.create(
    task.id,
    { url: `http://127.0.0.2:${port}/`, dialect: '1.0' },
    { kind: 'all' },
    { kind: 'operator' },
  )
  await app.sql(`update push_configs set url = 'http://127.0.0.1:${port}/' where todo_id = $1`, [
    task.id,
  ])
  await worker.claim()
  const { until } = await import('../support/until.ts')
  await until(async () => {
    const [row] = await app.sql<{ reason: string }>(
      `select reason from deliveries where todo_id = $1 and state = 'dead'`,
      [task.id],
    )
    return row?.reason.endsWith('is this server itself')
  })
})
