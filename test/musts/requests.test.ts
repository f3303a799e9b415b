// What a server must do with any request: service parameters (MUST 5), media types (13), paths and
// queries (75), and the envelope as clients of 0.3 send it (95).
import { request } from 'node:http'
import { expect, test } from 'vitest'
import { OWN_EXTENSIONS } from '../../src/protocol/a2a/extensions.ts'
import { startApp } from '../support/app.ts'
import { type Answer, a2aClient, post, textMessage } from '../support/clients/actors.ts'
import { restClient } from '../support/clients/rest.ts'
import { operate, rowCounts, UNKNOWN_ID } from '../support/steps.ts'

const app = await startApp()
const { client } = await app.queue('desk', { contexts: 'parallel' })
const a2a = a2aClient(app.url, 'desk', client.token)
const rest = restClient(app.url, 'desk', client.token)

/** As it is written: fetch would write the names of headers its own way. */
const verbatim = (method: string, path: string, headers: Record<string, string>, body?: string) =>
  new Promise<{ status: number; extensions: unknown; json: Answer }>((resolve, reject) => {
    const sent = request(`${app.url}${path}`, { method, headers }, (response) => {
      let text = ''
      response.on('data', (chunk) => {
        text += chunk
      })
      response.on('end', () =>
        resolve({
          status: response.statusCode ?? 0,
          extensions: response.headers['a2a-extensions'],
          json: JSON.parse(text),
        }),
      )
    })
    sent.on('error', reject)
    sent.end(body)
  })

test('service parameters are read whatever the letters of their names, over both bindings', async () => {
  const { uri } = OWN_EXTENSIONS[0]!
  const rpc = { jsonrpc: '2.0', id: 1, method: 'GetTask', params: { id: UNKNOWN_ID } }
  for (const write of [
    (name: string) => name.toLowerCase(),
    (name: string) => name.toUpperCase(),
    (name: string) => name.replace(/[a-z]/gi, (c, at) => (at % 2 ? c.toUpperCase() : c)),
  ]) {
    const headers = Object.fromEntries(
      Object.entries({
        'A2A-Version': '1.0',
        'A2A-Extensions': uri,
        Authorization: `bearer ${client.token}`,
        'Content-Type': 'application/json',
      }).map(([name, value]) => [write(name), value]),
    )
    const called = await verbatim('POST', '/a2a/desk/', headers, JSON.stringify(rpc))
    expect(called).toMatchObject({ extensions: uri, json: { error: { code: -32001 } } })
    const listed = await verbatim('GET', '/a2a/desk/tasks', headers)
    expect(listed).toMatchObject({ status: 200, extensions: uri, json: { tasks: [] } })
  }
})

test('a part of a media type that the card leaves out is refused by name, and nothing is stored', async () => {
  await app.services.operator.putQueue({
    name: 'picky',
    card: { defaultInputModes: ['text/plain'] },
  })
  const { token } = await app.vend(['send'], ['picky'])
  const picky = a2aClient(app.url, 'picky', token)
  const parts = [{ raw: 'aGk=', mediaType: 'image/png' }]
  const before = await rowCounts(app)
  for (const method of ['SendMessage', 'SendStreamingMessage']) {
    const { status, headers, body } = await picky.stream(method, {
      message: textMessage('', { parts }),
    })
    expect([status, headers.get('content-type')]).toEqual([200, 'application/json; charset=utf-8'])
    expect(body.error).toMatchObject({
      code: -32005,
      data: [{ reason: 'CONTENT_TYPE_NOT_SUPPORTED', domain: 'a2a-protocol.org' }],
    })
  }
  expect(await rowCounts(app)).toEqual(before)
})

test('values in a query and a path are percent-decoded, each once', async () => {
  const contextId = 'a b+c&d=e/f?g#h%2Fi é漢😀'
  const { id } = await rest.submit('x', { contextId })
  await rest.submit('x', { contextId: 'a' })
  const { body } = await rest.call('GET', `/tasks?contextId=${encodeURIComponent(contextId)}`)
  expect(body.tasks.map((task: Answer) => task.id)).toEqual([id])

  const configId = 'c/1:x é%41'
  const configs = `/tasks/${id}/pushNotificationConfigs`
  const config = `${configs}/${encodeURIComponent(configId)}`
  const sent = { id: configId, url: 'https://example.com/' }
  expect((await rest.call('POST', configs, { body: sent })).status).toBe(200)
  expect((await rest.get(config)).body).toMatchObject({ taskId: id, id: configId })
  expect((await rest.get(`${configs}/${encodeURIComponent('c/1:x éA')}`)).status).toBe(404)
  expect(await rest.call('DELETE', config)).toMatchObject({ status: 200, body: {} })
  expect((await rest.get(config)).status).toBe(404)
})

test('the names of a query are those of the fields; what only looks like one is no filter', async () => {
  const { id } = await rest.submit('x', { contextId: 'named' })
  const sizeOf = async (query: string) =>
    (await rest.call('GET', `/tasks?contextId=named&${query}`)).body.pageSize
  expect(await sizeOf('pageSize=1')).toBe(1)
  expect(await sizeOf('PageSize=1&pagesize=1')).toBe(50)
  await a2a.call('CancelTask', { id })
})

/* --------------------------------------------------------------------- 0.3 */

/** Posts as a client of 0.3 does, without a version. */
const old = (body: string, headers: Record<string, string> = {}) =>
  post(`${app.url}/a2a/desk/`, body, { token: client.token, headers })

test.each<[string, string, unknown, number]>([
  ['no JSON', '{"jsonrpc":', null, -32700],
  ['a batch', '[{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"id":"t"}}]', null, -32600],
  ['another version of JSON-RPC', '{"jsonrpc":"1.0","id":"a","method":"tasks/get"}', 'a', -32600],
  ['an id that is an object', '{"jsonrpc":"2.0","id":{},"method":"tasks/get"}', null, -32600],
  ['no method', '{"jsonrpc":"2.0","id":7}', 7, -32600],
  ['an unknown method', '{"jsonrpc":"2.0","id":"7","method":"tasks/fly"}', '7', -32601],
  ['no params', '{"jsonrpc":"2.0","id":0,"method":"tasks/get"}', 0, -32602],
  [
    'an unknown task',
    '{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"id":"t"}}',
    1,
    -32001,
  ],
])('in 0.3 %s has its code, under the id as it came', async (_what, text, id, code) => {
  const { status, headers, body } = await old(text)
  expect(status).toBe(200)
  expect(headers.get('content-type')).toMatch(/^application\/json\b/)
  expect(Object.keys(body).sort()).toEqual(['error', 'id', 'jsonrpc'])
  expect(body).toMatchObject({ jsonrpc: '2.0', id, error: { code } })
})

test.each([
  ['1.0', 'GetTask'],
  ['0.3', 'tasks/get'],
])(
  'in %s a result comes alone, as JSON, and a body of another type is refused',
  async (version, method) => {
    const { id } = await a2a.submit('x')
    const get = JSON.stringify({ jsonrpc: '2.0', id: 'g', method, params: { id } })
    const headers = { 'A2A-Version': version }
    const answer = await old(get, headers)
    expect(answer.headers.get('content-type')).toMatch(/^application\/json\b/)
    expect(Object.keys(answer.body).sort()).toEqual(['id', 'jsonrpc', 'result'])
    expect(answer.body).toMatchObject({ jsonrpc: '2.0', id: 'g', result: { id } })
    const refused = await old(get, { ...headers, 'Content-Type': 'text/plain' })
    expect([refused.status, refused.body.error.code]).toEqual([415, -32005])
    await operate(app, 'todos.cancel', { id })
  },
)
