/**
 * What a client says of version and media type, in every spelling that means the same.
 * Field cases: the version in a query; media types by preference.
 */
import { expect, test } from 'vitest'
import { startApp } from '../../support/app.ts'
import { post } from '../../support/clients/actors.ts'
import { restClient } from '../../support/clients/rest.ts'

const app = await startApp()
const { client } = await app.queue('desk', { contexts: 'parallel' })
const plain = restClient(app.url, 'desk', client.token, null)
const rest = restClient(app.url, 'desk', client.token)

const NAMES = ['A2A-Version', 'a2a-version', 'A2A-VERSION', 'a2A-vErSiOn', '%612a-version']

test.each(NAMES)('the version in a query is named in any case: %s', async (name) => {
  const list = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'ListTasks', params: {} })
  const listed = await post(`${app.url}/a2a/desk?${name}=1.0`, list, { token: client.token })
  expect(listed.body.result.tasks).toEqual([])
  expect((await plain.call('GET', `/tasks?pageSize=5&${name}=1.0`)).status).toBe(200)
  const card = await fetch(`${app.url}/a2a/desk/.well-known/agent-card.json?${name}=0.3`)
  expect(await card.json()).not.toHaveProperty('supportedInterfaces')
  const unknown = await post(`${app.url}/a2a/desk?${name}=9.9`, list, { token: client.token })
  expect(unknown.body.error.code).toBe(-32009)
  expect((await rest.call('GET', `/tasks?${name}=9.9`)).status).toBe(200)
})

test('two of them, in whatever cases, are none', async () => {
  const two = await plain.call('GET', '/tasks?a2a-version=1.0&A2A-Version=1.0')
  expect([two.status, two.body.error.details[0].reason]).toEqual([400, 'VERSION_NOT_SUPPORTED'])
  const empty = await fetch(`${app.url}/a2a/desk/.well-known/agent-card.json?a2a-version=`)
  expect(Object.keys((await empty.json()) as object)).toEqual(
    expect.arrayContaining(['supportedInterfaces', 'protocolVersion']),
  )
})

const A2A = 'application/a2a+json'
const JSON_TYPE = 'application/json; charset=utf-8'

test.each([
  ['application/a2a+json', A2A],
  ['application/a2a+json;q=0.5', A2A],
  ['application/a2a+json, application/json', A2A],
  ['application/json, application/a2a+json', A2A],
  ['application/a2a+json;q=0.9, application/json;q=0.8', A2A],
  ['application/a2a+json;q=0.8, application/json;q=0.9', JSON_TYPE],
  ['application/a2a+json;q=0.8, application/json', JSON_TYPE],
  ['application/json, application/a2a+json;q=0.001', JSON_TYPE],
  ['application/a2a+json;q=0.5, */*', JSON_TYPE],
  ['application/a2a+json;q=0.5, */*;q=0.1', A2A],
  ['application/a2a+json;q=0.5, application/*;q=0.4, */*', A2A],
  ['application/a2a+json;q=0, application/json', JSON_TYPE],
  ['application/a2a+json; Q=0.2 , application/json ;q=0.1', A2A],
  ['application/json;q=0, */*', A2A],
  ['application/a2a+json;profile="x";q=0.1, application/json;q=0.2', JSON_TYPE],
  ['text/html, application/json;q=0.1', JSON_TYPE],
  ['application/a2a+json;q=0, application/json;q=0', JSON_TYPE],
  ['text/html', JSON_TYPE],
  ['*/*', JSON_TYPE],
  ['', JSON_TYPE],
])('Accept: %s is answered in %s', async (Accept, type) => {
  for (const path of ['/tasks', '/tasks/none', '/nowhere']) {
    const { headers } = await rest.call('GET', path, { headers: { Accept } })
    expect([path, headers.get('content-type')]).toEqual([path, type])
    expect(headers.get('vary')).toBe('Accept')
  }
})

test.each([
  ['text/event-stream', true],
  ['text/event-stream, application/json;q=0', true],
  ['text/event-stream;q=0.3', true],
  ['text/event-stream, application/json;q=0.1', false],
  ['text/event-stream;q=0, application/json', false],
  ['text/event-stream;q=0', false],
  ['*/*', false],
])('a stream of 0.3 that is refused, to Accept: %s, is an event: %s', async (Accept, isEvent) => {
  const call = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tasks/resubscribe', params: {} })
  const response = await fetch(`${app.url}/a2a/desk`, {
    method: 'POST',
    headers: {
      Accept,
      Authorization: `Bearer ${client.token}`,
      'Content-Type': 'application/json',
    },
    body: call,
  })
  const text = await response.text()
  expect(text).toContain('-32602')
  expect(text.startsWith('data: ')).toBe(isEvent)
})
