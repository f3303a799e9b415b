// Field cases: addresses with leftovers; variables of Kubernetes.
import path from 'node:path'
import pg from 'pg'
import { describe, expect, test } from 'vitest'
import { ConfigError, kubernetesVariables, readConfig } from '../src/config.ts'
import { newJwk } from './support/clients/jwk.ts'

const problemsOf = (env: NodeJS.ProcessEnv): string[] => {
  try {
    readConfig(env)
  } catch (error) {
    if (error instanceof ConfigError) return error.problems
    throw error
  }
  return []
}

describe('what is read', () => {
  test('an empty environment gives the defaults', () => {
    expect(readConfig({})).toEqual({
      databaseUrl: null,
      directUrl: null,
      natsUrl: null,
      dataDir: path.resolve('.switchboard'),
      host: '127.0.0.1',
      port: 4100,
      keepAliveSeconds: 75,
      publicUrl: null,
      card: 'hybrid',
      cardKeys: [],
      adminToken: null,
      metricsToken: null,
      metricsCacheSeconds: 5,
      maxBodyValues: 200_000,
      maxCallsPerEndpoint: 1000,
      maxStreamsPerEndpoint: 1000,
      inFlightMegabytes: null,
      webhookAllowHttp: false,
      webhookAllow: [],
      secretKeys: [],
      corsOrigins: [],
      trustProxy: null,
      logLevel: 'info',
    })
  })

  test('every variable arrives in its member', () => {
    const jwk = newJwk('ES256', 'k')
    const env = {
      DATABASE_URL: 'postgres://u:p@db.example:5432/work',
      DATABASE_DIRECT_URL: 'postgres://u:p@direct.example:5432/work',
      SWITCHBOARD_NATS_URL: 'nats://u:p@nats.example:4222/prod',
      SWITCHBOARD_DATA_DIR: '/var/lib/switchboard',
      HOST: '::',
      PORT: '0',
      SWITCHBOARD_KEEP_ALIVE_SECONDS: '20',
      SWITCHBOARD_PUBLIC_URL: 'https://tasks.example/board/',
      SWITCHBOARD_CARD: '1.0',
      SWITCHBOARD_CARD_KEYS: JSON.stringify(jwk),
      SWITCHBOARD_ADMIN_TOKEN: 'sixteen-letters!',
      SWITCHBOARD_METRICS_TOKEN: 'm',
      SWITCHBOARD_METRICS_CACHE_SECONDS: '0',
      SWITCHBOARD_MAX_BODY_VALUES: '1000',
      SWITCHBOARD_MAX_CALLS_PER_ENDPOINT: '7',
      SWITCHBOARD_MAX_STREAMS_PER_ENDPOINT: '8',
      SWITCHBOARD_IN_FLIGHT_MB: '64',
      SWITCHBOARD_WEBHOOK_ALLOW_HTTP: 'true',
      SWITCHBOARD_WEBHOOK_ALLOW_CIDRS: '10.0.0.0/8, localhost',
      SWITCHBOARD_SECRET_KEYS: 'ab'.repeat(32),
      SWITCHBOARD_CORS_ORIGINS: 'https://a.example, http://localhost:3000',
      SWITCHBOARD_TRUST_PROXY: '2',
      LOG_LEVEL: 'debug',
    }
    expect(readConfig(env)).toEqual({
      databaseUrl: 'postgres://u:p@db.example:5432/work',
      directUrl: 'postgres://u:p@direct.example:5432/work',
      natsUrl: 'nats://u:p@nats.example:4222/prod',
      dataDir: '/var/lib/switchboard',
      host: '::',
      port: 0,
      keepAliveSeconds: 20,
      publicUrl: 'https://tasks.example/board',
      card: '1.0',
      cardKeys: [{ kid: 'k', alg: 'ES256', jwk: expect.objectContaining({ d: jwk.d }) }],
      adminToken: 'sixteen-letters!',
      metricsToken: 'm',
      metricsCacheSeconds: 0,
      maxBodyValues: 1000,
      maxCallsPerEndpoint: 7,
      maxStreamsPerEndpoint: 8,
      inFlightMegabytes: 64,
      webhookAllowHttp: true,
      webhookAllow: ['10.0.0.0/8', 'localhost'],
      secretKeys: [{ id: expect.stringMatching(/^[0-9a-f]{8}$/), key: Buffer.alloc(32, 0xab) }],
      corsOrigins: ['https://a.example', 'http://localhost:3000'],
      trustProxy: 2,
      logLevel: 'debug',
    })
  })

  test('an empty variable counts as unset, also one with an unknown name', () => {
    const empty = { DATABASE_URL: '', PORT: '', LOG_LEVEL: '', SWITCHBOARD_NOTHING: '' }
    expect(readConfig(empty)).toEqual(readConfig({}))
  })

  test('the config cannot be changed', () => {
    expect(Object.isFrozen(readConfig({}))).toBe(true)
  })
})

describe('what is refused', () => {
  test('all bad values are reported at once, a line each, naming the variable', () => {
    const problems = problemsOf({
      DATABASE_URL: 'mysql://h/db',
      HOST: 'http://localhost',
      PORT: '70000',
      SWITCHBOARD_PUBLIC_URL: 'tasks.example',
      SWITCHBOARD_CARD: '0.3',
      SWITCHBOARD_CARD_KEYS: '{"keys":[{"kty":"oct"},{"kty":"EC","crv":"P-256"}]}',
      SWITCHBOARD_ADMIN_TOKEN: 'short',
      SWITCHBOARD_METRICS_TOKEN: 'two words',
      SWITCHBOARD_WEBHOOK_ALLOW_HTTP: 'yes',
      LOG_LEVEL: 'loud',
      SWITCHBOARD_PUBLIC_ULR: 'https://tasks.example',
    })
    expect(problems.map((line) => line.split(' ')[0])).toEqual([
      'DATABASE_URL',
      'HOST',
      'PORT',
      'SWITCHBOARD_PUBLIC_URL',
      'SWITCHBOARD_CARD',
      'SWITCHBOARD_CARD_KEYS',
      'SWITCHBOARD_CARD_KEYS',
      'SWITCHBOARD_ADMIN_TOKEN',
      'SWITCHBOARD_METRICS_TOKEN',
      'SWITCHBOARD_WEBHOOK_ALLOW_HTTP',
      'LOG_LEVEL',
      'SWITCHBOARD_PUBLIC_ULR',
    ])
    expect(problems.filter((line) => line.includes('\n'))).toEqual([])
  })

  test('no line shows a value', () => {
    const { message, problems } = new ConfigError(
      problemsOf({
        DATABASE_URL: 'postgres://kim:hunter2%zz@h/db',
        SWITCHBOARD_ADMIN_TOKEN: 'opensesame',
        SWITCHBOARD_METRICS_TOKEN: 'opensesame too',
        SWITCHBOARD_PUBLIC_URL: 'https://kim:hunter2@tasks.example',
        LOG_LEVEL: 'hunter2',
        SWITCHBOARD_TOKENS: 'opensesame',
      }),
    )
    expect(problems).toHaveLength(6)
    expect(message).not.toMatch(/hunter2|opensesame|kim/)
  })

  test.each(['-1', '65536', '4100.5', '0x10', ' 80', 'http'])('%j is no port', (port) => {
    expect(problemsOf({ PORT: port })).toEqual(['PORT must be a number from 0 to 65535'])
  })

  test.each([
    'ftp://h',
    'https://h/?a=1',
    'https://h/#a',
    '//h',
    'https:/h',
    'https:///h',
    'https:h',
    'https://h/a b',
    'https://h/a\nb',
  ])('%j is no public URL', (url) => {
    expect(problemsOf({ SWITCHBOARD_PUBLIC_URL: url })).toHaveLength(1)
  })

  test.each([
    'x',
    'http://h:4222',
    'nats://',
    'nats://h/a b',
    'nats://h/a.b',
    'nats://h/*',
    'nats://h?x=1',
    'nats://h#x',
    'nats://u:%zz@h',
  ])('SWITCHBOARD_NATS_URL=%s', (url) => {
    const [problem, ...more] = problemsOf({ SWITCHBOARD_NATS_URL: url })
    expect(problem).toMatch(/^SWITCHBOARD_NATS_URL /)
    expect(more).toEqual([])
  })

  test.each(['10.0.0.0/33', '::/129', 'localhost/8', '10.0.0.0/8;::1', 'http://localhost', 'a b'])(
    '%j is no list of where webhooks may lead',
    (list) => {
      expect(problemsOf({ SWITCHBOARD_WEBHOOK_ALLOW_CIDRS: list })).toHaveLength(1)
    },
  )

  test('a URL is read without the blanks and line breaks at its ends, and refused with one inside', () => {
    const urls = {
      SWITCHBOARD_PUBLIC_URL: 'https://tasks.example',
      DATABASE_URL: 'postgres://h/db',
      DATABASE_DIRECT_URL: 'postgres://h/db',
      SWITCHBOARD_NATS_URL: 'nats://h:4222',
    }
    const around = Object.entries(urls).map(([name, url]) => [name, ` \t${url}\r\n`])
    expect(readConfig(Object.fromEntries(around))).toEqual(readConfig(urls))
    for (const [name, url] of Object.entries(urls)) {
      const [problem, ...more] = problemsOf({ [name]: url.replace('h', 'h h') })
      expect([problem, more]).toEqual([`${name} holds a blank or a line break inside`, []])
    }
  })

  test('what Kubernetes sets for a service of our name is ignored, and what looks like it is not', () => {
    const set = {
      SWITCHBOARD_SERVICE_HOST: '10.0.0.1',
      SWITCHBOARD_SERVICE_PORT: '4100',
      SWITCHBOARD_SERVICE_PORT_HTTP: '4100',
      SWITCHBOARD_PORT: 'tcp://10.0.0.1:4100',
      SWITCHBOARD_PORT_4100_TCP: 'tcp://10.0.0.1:4100',
      SWITCHBOARD_PORT_4100_TCP_PROTO: 'tcp',
      SWITCHBOARD_PORT_4100_TCP_PORT: '4100',
      SWITCHBOARD_PORT_4100_TCP_ADDR: '10.0.0.1',
    }
    expect(readConfig(set)).toEqual(readConfig({}))
    expect(kubernetesVariables({ ...set, HOST: '::' })).toEqual(Object.keys(set))
    expect(problemsOf({ SWITCHBOARD_PORTS: '1', SWITCHBOARD_SERVICE: 'x' })).toHaveLength(2)
  })

  test.each([
    ['1', 1],
    ['10', 10],
    ['loopback', ['loopback']],
    ['10.0.0.0/8, fd00::/8,192.0.2.7', ['10.0.0.0/8', 'fd00::/8', '192.0.2.7']],
  ])('SWITCHBOARD_TRUST_PROXY=%s is read', (text, value) => {
    expect(readConfig({ SWITCHBOARD_TRUST_PROXY: text }).trustProxy).toEqual(value)
  })

  test.each(['0', '11', 'true', 'proxy.example', '10.0.0.0/33', '1.2.3', ','])(
    '%j names no proxies',
    (list) => {
      expect(problemsOf({ SWITCHBOARD_TRUST_PROXY: list })).toHaveLength(1)
    },
  )

  test.each([
    'https://a.example/',
    'https://a.example/path',
    'https://A.example',
    'https://a.example:443',
    'https://*.example',
    'a.example',
    'null',
    'ftp://a.example',
    ',',
    'https://a.example https://b.example',
  ])('%j is no list of origins', (list) => {
    expect(problemsOf({ SWITCHBOARD_CORS_ORIGINS: list })).toHaveLength(1)
  })

  test('all origins are one star', () => {
    expect(readConfig({ SWITCHBOARD_CORS_ORIGINS: '*' }).corsOrigins).toEqual(['*'])
  })

  test('a variable with a typing error in its name is not passed over in silence', () => {
    expect(problemsOf({ SWITCHBOARD_ADMIN_TOKN: 'sixteen-letters!' })[0]).toContain(
      'SWITCHBOARD_ADMIN_TOKEN',
    )
  })

  test('variables kept for later and those of the command line are let pass', () => {
    const later = {
      SWITCHBOARD_URL: 'x',
      SWITCHBOARD_TOKEN: 'x',
    }
    expect(readConfig(later)).toEqual(readConfig({}))
  })
})

describe('DATABASE_URL', () => {
  test.each([
    ['postgres://h', 'h'],
    ['postgresql://u:p@h:5432/db?sslmode=disable', 'h'],
    ['postgresql://u:p@[::1]:5432/db', '::1'],
    ['postgresql://u:p%40ss%25@h/db', 'h'],
    ['postgresql://u:p:q@h/db', 'h'],
    ['postgresql://u@%2Fvar%2Frun%2Fpostgresql:5432/db', '/var/run/postgresql'],
    ['postgresql://u@/db?host=/var/run/postgresql&port=5433', '/var/run/postgresql'],
    ['postgresql:///db?host=/var/run/postgresql', '/var/run/postgresql'],
  ])('%s is accepted, and the driver reads the same host from it', (url, host) => {
    expect(readConfig({ DATABASE_URL: url }).databaseUrl).toBe(url)
    expect(new pg.Client({ connectionString: url }).host).toBe(host)
  })

  test.each([
    ['postgres://u:100%@h/db', 'password'],
    ['postgres://u%:p@h/db', 'user'],
    ['postgres://u:p@h%/db', 'host'],
    ['postgres://u:p@h/db%', 'database'],
  ])('of %s the line names the part with the raw %%', (url, part) => {
    expect(problemsOf({ DATABASE_URL: url })).toEqual([
      `DATABASE_URL has a ${part} with a raw '%', which must be written %25`,
    ])
  })

  test.each([
    ['postgres://u:p/q@h/db', "'/'"],
    ['postgres://u:p#q@h/db', '%23'],
    ['postgres://h1:5432,h2:5432/db', 'one host'],
    ['postgres:///db', 'names no host'],
    ['localhost:5432/db', 'postgres://'],
  ])('%s is refused with a line that says what to write', (url, hint) => {
    expect(problemsOf({ DATABASE_URL: url })[0]).toContain(hint)
  })
})
