// Cases F013 (the extended card), F016.
import { expect, test } from 'vitest'
import { a2aClient } from '../support/actors.ts'
import { startApp, startNode } from '../support/app.ts'
import { operate, rowCounts } from '../support/steps.ts'

const app = await startApp()
const { client } = await app.line('desk')

const paths = ['/.well-known/agent-card.json', '/a2a/desk/.well-known/agent-card.json']

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
  const read = async (url: string) => {
    const response = await fetch(`${url}${paths[1]}`)
    return { etag: response.headers.get('etag'), card: (await response.json()) as { name: string } }
  }
  const before = await read(other.url)
  await operate(app, 'queues.put', { name: 'desk', card: { name: 'The desk' } })
  expect((await read(app.url)).card.name).toBe('The desk')
  const { until } = await import('../support/until.ts')
  await until(async () => (await read(other.url)).card.name === 'The desk')
  expect((await read(other.url)).etag).not.toBe(before.etag)
  await other.stop()
})

test('a card names the public address, whatever the request says of its host', async () => {
  const publicUrl = 'https://agents.example.com/base'
  const node = await startNode(app.databaseUrl, {
    config: {
      databaseUrl: app.databaseUrl,
      dataDir: '/nonexistent',
      host: '127.0.0.1',
      port: 0,
      publicUrl,
      adminToken: null,
      metricsToken: null,
      webhookAllowHttp: false,
      webhookAllow: [],
      logLevel: 'silent',
    },
  })
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
