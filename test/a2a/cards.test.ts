// Field cases: undeclared capabilities; card delivery; the address that people paste; listening
// everywhere.

import { connect } from 'node:net'
import { AgentCard as SdkCard, verifyAgentCardSignature } from '@a2a-js/sdk'
import { expect, test } from 'vitest'
import { readCardKeys } from '../../src/config/card-keys.ts'
import type { Config } from '../../src/config.ts'
import { startApp, startNode, testConfig } from '../support/app.ts'
import { a2aClient } from '../support/clients/actors.ts'
import { newJwk } from '../support/clients/jwk.ts'
import { operate, rowCounts } from '../support/steps.ts'
import { until } from '../support/until.ts'

const app = await startApp()
const { client } = await app.queue('desk')

const paths = [
  '/.well-known/agent-card.json',
  '/a2a/desk/.well-known/agent-card.json',
  '/a2a/desk',
  '/a2a/desk/',
]

// biome-ignore lint/suspicious/noExplicitAny: cards are looked into member by member
type Card = any

const read = async (url: string, headers: Record<string, string> = {}) => {
  const response = await fetch(url, { headers })
  return { response, etag: response.headers.get('etag'), card: (await response.json()) as Card }
}

test.each(paths)(
  'the card at %s can be cached, revalidated and read from any origin',
  async (path) => {
    const first = await fetch(`${app.url}${path}`)
    expect(first.status).toBe(200)
    expect(first.headers.get('cache-control')).toMatch(/max-age=\d+/)
    const etag = first.headers.get('etag')!
    expect(etag).toMatch(/^"[^"]+"$/)
    const again = await fetch(`${app.url}${path}`, { headers: { 'If-None-Match': etag } })
    expect(again.status).toBe(304)
    expect(await again.text()).toBe('')
    const crossing = await fetch(`${app.url}${path}`, { headers: { Origin: 'https://a.example' } })
    expect(crossing.status).toBe(200)
    expect(crossing.headers.get('access-control-allow-origin')).toBe('*')
  },
)

test('a card that an operator changed has another tag, at once and on every node', async () => {
  const other = await startNode(app.databaseUrl)
  const at = (url: string) => read(`${url}${paths[1]}`)
  const before = await at(other.url)
  await operate(app, 'queues.put', { name: 'desk', card: { name: 'The desk' } })
  expect((await at(app.url)).card.name).toBe('The desk')
  await until(async () => (await at(other.url)).card.name === 'The desk')
  expect((await at(other.url)).etag).not.toBe(before.etag)
  await other.stop()
})

const nodeWith = (config: Partial<Config>) =>
  startNode(app.databaseUrl, {
    config: testConfig({ databaseUrl: app.databaseUrl, adminToken: null, ...config }),
  })

test.each(['0.0.0.0', '::', '0', '::0', '0:0:0:0:0:0:0:0'])(
  'a node that listens everywhere (%s) names the host that it was asked by, where that is plain',
  async (host) => {
    const node = await nodeWith({ host })
    const { port } = new URL(node.url)
    const urlFor = async (asked: string): Promise<string> => {
      const socket = connect(Number(port), '127.0.0.1')
      socket.end(`GET ${paths[1]} HTTP/1.1\r\nHost: ${asked}\r\nConnection: close\r\n\r\n`)
      const answer = Buffer.concat(await socket.toArray()).toString()
      return JSON.parse(answer.slice(answer.indexOf('{'))).supportedInterfaces[0].url
    }
    expect(await urlFor('agents.example.com')).toBe('http://agents.example.com/a2a/desk/')
    expect(await urlFor(`127.0.0.1:${port}`)).toBe(`http://127.0.0.1:${port}/a2a/desk/`)
    expect(await urlFor('[::1]:80')).toBe('http://[::1]:80/a2a/desk/')
    const odd = ['a/b', 'user@evil.example', 'a b', 'x:1:2', '']
    const everywhere = [`0.0.0.0:${port}`, '0.0.0.0', `[::]:${port}`, `0:${port}`]
    for (const none of [...odd, ...everywhere]) {
      expect(await urlFor(none)).toBe(`http://localhost:${port}/a2a/desk/`)
    }
    await node.stop()
  },
)

test('a card names the public address, whatever the request says of its host', async () => {
  const publicUrl = 'https://agents.example.com/base'
  const node = await nodeWith({ publicUrl })
  const headers = { 'X-Forwarded-Host': 'evil.example', 'X-Forwarded-Proto': 'https' }
  for (const path of paths) {
    const card = (await (await fetch(`${node.url}${path}`, { headers })).json()) as {
      supportedInterfaces: { url: string; protocolBinding: string; protocolVersion: string }[]
    }
    expect(card.supportedInterfaces[0]).toMatchObject({
      url: `${publicUrl}/a2a/desk/`,
      protocolBinding: 'JSONRPC',
      protocolVersion: '1.0',
    })
    expect(JSON.stringify(card)).not.toContain('127.0.0.1')
    expect(JSON.stringify(card)).not.toContain('evil')
  }
  await node.stop()
})

test('the card of no queue is 404, and an odd name is no other card', async () => {
  for (const name of ['nowhere', '%27%3B%20DROP%20TABLE%20queues%3B--', '%25', '..%2Fdesk']) {
    const response = await fetch(`${app.url}/a2a/${name}/.well-known/agent-card.json`)
    expect(response.status).toBe(404)
  }
})

test('the extended card is for who may call, and shows what the operator wrote for them', async () => {
  await operate(app, 'queues.put', {
    name: 'desk',
    card: {
      capabilities: { extendedAgentCard: true },
      extended: { description: 'For friends', skills: [{ id: 's', name: 'S', description: '' }] },
    },
  })
  const before = await rowCounts(app)
  const a2a = a2aClient(app.url, 'desk', client.token)
  const { result } = await a2a.call('GetExtendedAgentCard', {})
  expect(result).toMatchObject({ description: 'For friends', skills: [{ id: 's' }] })
  const open = (await (await fetch(`${app.url}${paths[1]}`)).json()) as { description: string }
  expect(open.description).not.toBe('For friends')
  const { endpoint, token } = await app.vend(['send'], ['desk'])
  await operate(app, 'endpoints.revoke', { id: endpoint.id })
  const refused = await a2aClient(app.url, 'desk', token).call('GetExtendedAgentCard', {})
  expect(refused.error.code).toBe(-32000)
  expect(await rowCounts(app)).toEqual(before)
})

test('the version that is asked for chooses the form, each under a tag of its own', async () => {
  const url = `${app.url}${paths[1]}`
  const hybrid = await read(url)
  const pure = await read(url, { 'A2A-Version': '1.0' })
  const old = await read(url, { 'A2A-Version': '0.3' })
  expect(hybrid.card).toMatchObject({ url: `${app.url}/a2a/desk/`, protocolVersion: '0.3.0' })
  expect(hybrid.card).toMatchObject({ supportedInterfaces: pure.card.supportedInterfaces })
  expect(pure.card).not.toHaveProperty('url')
  expect(old.card).not.toHaveProperty('supportedInterfaces')
  expect(new Set([hybrid.etag, pure.etag, old.etag]).size).toBe(3)
  for (const { response } of [hybrid, pure, old]) {
    expect(response.headers.get('vary')).toBe('A2A-Version')
    expect(response.headers.get('last-modified')).toBeTruthy()
  }
  const crossed = await fetch(url, {
    headers: { 'A2A-Version': '1.0', 'If-None-Match': hybrid.etag! },
  })
  expect(crossed.status).toBe(200)
})

test.each<[string, string, object]>([
  ['header with a patch number', '', { 'A2A-Version': '1.0.3' }],
  ['query, where no header can be set', '?A2A-Version=1.0', {}],
  ['header, over the query', '?A2A-Version=0.3', { 'A2A-Version': ' 1.0 ' }],
])('1.0 may be asked for by %s', async (_name, query, headers) => {
  const { card } = await read(`${app.url}${paths[1]}${query}`, headers as Record<string, string>)
  expect(card).toHaveProperty('supportedInterfaces')
  expect(card).not.toHaveProperty('protocolVersion')
})

test.each(['', '  ', '2.0', '99.0', 'x', '1.0, 0.3'])(
  'who asks for the version %j is shown all that are served',
  async (version) => {
    const { card } = await read(`${app.url}${paths[1]}`, { 'A2A-Version': version })
    expect(card).toMatchObject({ protocolVersion: '0.3.0', supportedInterfaces: {} })
  },
)

test('the oldest clients find the same bytes at agent.json', async () => {
  for (const path of paths) {
    const [now, then] = await Promise.all(
      [path, path.replace('agent-card', 'agent')].map(async (each) => {
        const response = await fetch(`${app.url}${each}`)
        return [response.status, response.headers.get('etag'), await response.text()]
      }),
    )
    expect(then).toEqual(now)
  }
})

test('a browser may ask for a version, and whether what it has is still right', async () => {
  for (const path of [...paths, '/.well-known/agent.json', '/.well-known/jwks.json']) {
    const response = await fetch(`${app.url}${path}`, {
      method: 'OPTIONS',
      headers: { Origin: 'https://a.example', 'Access-Control-Request-Headers': 'a2a-version' },
    })
    expect(response.status).toBe(204)
    expect(response.headers.get('access-control-allow-origin')).toBe('*')
    const allowed = response.headers.get('access-control-allow-headers')
    expect(allowed).toContain('A2A-Version')
    expect(allowed).toContain('If-None-Match')
  }
})

test('where the plain card is set, who says no version gets the 1.0 card, and 0.3 its own', async () => {
  const node = await nodeWith({ card: '1.0' })
  const url = `${node.url}${paths[1]}`
  expect((await read(url)).card).not.toHaveProperty('protocolVersion')
  expect((await read(`${node.url}/.well-known/agent.json`)).card).not.toHaveProperty('url')
  expect((await read(url, { 'A2A-Version': '0.3' })).card.protocolVersion).toBe('0.3.0')
  await node.stop()
})

test('a card shows what the operator wrote, and what is wrong in it is told by name', async () => {
  const card = {
    name: 'Clerk',
    description: 'Reads invoices.',
    version: '4.2.0',
    provider: { organization: 'Example', url: 'https://example.org' },
    documentationUrl: 'https://example.org/docs',
    iconUrl: 'https://example.org/icon.png',
    defaultInputModes: ['application/pdf'],
    defaultOutputModes: ['application/json'],
    skills: [
      { id: 'read', name: 'Read', description: 'D', tags: ['invoice'], examples: ['this one'] },
    ],
  }
  const capabilities = {
    streaming: false,
    pushNotifications: false,
    extensions: [{ uri: 'https://example.org/ext', required: true, params: { n: [1] } }],
  }
  await operate(app, 'queues.put', { name: 'clerk', card: { ...card, capabilities } })
  const shown = await read(`${app.url}/a2a/clerk/.well-known/agent-card.json`, {
    'A2A-Version': '1.0',
  })
  expect(shown.card).toMatchObject(card)
  expect(shown.card.capabilities).toMatchObject({ streaming: false, pushNotifications: false })
  expect(shown.card.capabilities.extensions.at(-1)).toEqual(capabilities.extensions[0])

  const before = await rowCounts(app)
  const { error } = await operate(app, 'queues.put', {
    name: 'clerk',
    card: {
      iconUrl: 'javascript:alert(1)',
      skills: [{ name: 'no id' }],
      capabilities: { extensions: [{ uri: 'no uri' }] },
    },
  }).then(
    () => ({ error: null }),
    (thrown) => thrown,
  )
  expect(error.code).toBe(-32602)
  expect(error.data.violations.map(({ field }: { field: string }) => field).sort()).toEqual([
    'card.capabilities.extensions[0].uri',
    'card.iconUrl',
    'card.skills[0].id',
  ])
  expect(await rowCounts(app)).toEqual(before)
  const after = await read(`${app.url}/a2a/clerk/.well-known/agent-card.json`)
  expect(after.card.iconUrl).toBe(card.iconUrl)
})

test('the 1.0 card is signed by every key, for whoever has the published ones', async () => {
  const { keys } = readCardKeys(
    JSON.stringify({ keys: [newJwk('ES256', 'new'), newJwk('EdDSA', 'old')] }),
  )
  const node = await nodeWith({ cardKeys: keys })
  const url = `${node.url}${paths[1]}`
  const { card, etag, response } = await read(url, { 'A2A-Version': '1.0' })
  expect(card.signatures).toHaveLength(2)
  const seen: string[] = []
  await verifyAgentCardSignature(async (kid, jku) => {
    seen.push(kid)
    const published = (await (await fetch(jku!)).json()) as { keys: { kid: string }[] }
    return published.keys.find((key) => key.kid === kid)!
  })(card)
  expect(seen).toEqual(['new'])
  const keySet = await read(`${node.url}/.well-known/jwks.json`)
  expect(keySet.card.keys.map(({ kid }: { kid: string }) => kid)).toEqual(['new', 'old'])
  expect(JSON.stringify(keySet.card)).not.toContain('"d"')
  expect(keySet.response.headers.get('cache-control')).toMatch(/max-age=\d+/)
  expect(keySet.response.headers.get('access-control-allow-origin')).toBe('*')

  expect(response.headers.get('cache-control')).toMatch(/max-age=\d+/)
  const known = await fetch(url, { headers: { 'A2A-Version': '1.0', 'If-None-Match': etag! } })
  expect(known.status).toBe(304)
  // What was signed elsewhere is the same card.
  const twin = await nodeWith({ cardKeys: keys, publicUrl: node.url })
  const there = await fetch(`${twin.url}${paths[1]}`, {
    headers: { 'A2A-Version': '1.0', 'If-None-Match': etag! },
  })
  expect(there.status).toBe(304)
  for (const version of ['0.3', '']) {
    expect((await read(url, { 'A2A-Version': version })).card).not.toHaveProperty('signatures')
  }
  await operate(app, 'queues.put', {
    name: 'desk',
    card: { capabilities: { extendedAgentCard: true }, extended: { description: 'More' } },
  })
  const signedToo = async () =>
    (await a2aClient(node.url, 'desk', client.token).call('GetExtendedAgentCard', {})).result
  await until(async () => (await signedToo())?.description === 'More')
  const extended = await signedToo()
  await verifyAgentCardSignature(async (kid) =>
    keySet.card.keys.find((key: { kid: string }) => key.kid === kid),
  )(extended)
  expect(SdkCard.fromJSON(extended).signatures).toHaveLength(2)
  await Promise.all([node.stop(), twin.stop()])
})

test('without keys nothing is signed, and the published set is empty', async () => {
  expect((await read(`${app.url}/.well-known/jwks.json`)).card).toEqual({ keys: [] })
  const { card } = await read(`${app.url}${paths[1]}`, { 'A2A-Version': '1.0' })
  expect(card).not.toHaveProperty('signatures')
})

test('a GET of the address that the card names is the card, in the form that was asked for', async () => {
  const known = await read(`${app.url}${paths[1]}`)
  for (const { url, protocolVersion } of known.card.supportedInterfaces) {
    const version = { 'A2A-Version': protocolVersion }
    const [there, here] = [await read(`${app.url}${paths[1]}`, version), await read(url, version)]
    expect(here.card).toEqual(there.card)
    expect([here.response.status, here.etag]).toEqual([200, there.etag])
    expect(here.response.headers.get('vary')).toBe('A2A-Version')
  }
  for (const method of ['HEAD', 'GET']) {
    const pasted = await fetch(`${app.url}/a2a/desk/`, { method })
    expect([pasted.status, pasted.headers.get('etag')]).toEqual([200, known.etag])
  }
  const none = await fetch(`${app.url}/a2a/nobody`)
  expect([none.status, (await none.json()) as Card]).toMatchObject([404, { error: { code: 404 } }])
})
