// Field cases: documents of tiny values.
import { describe, expect, test } from 'vitest'
import { countValues } from '../../src/http/bounds/values.ts'
import { ADMIN_TOKEN, startApp, testConfig } from '../support/app.ts'
import { a2aClient, post, textMessage } from '../support/clients/actors.ts'
import { restClient } from '../support/clients/rest.ts'
import { rowCounts } from '../support/steps.ts'

const count = (text: string): number => countValues(Buffer.from(text), 1_000_000)

/** The values of parsed JSON, counted one by one. */
const valuesIn = (value: unknown): number =>
  typeof value === 'object' && value !== null
    ? Object.values(value).reduce<number>((sum, each) => sum + valuesIn(each), 1)
    : 1

describe('values are counted', () => {
  test.each([
    '1',
    '"a, [b], {c}"',
    '[]',
    '{}',
    '[ \n ]',
    '[[], {}, [[]], [1]]',
    '{"a": {"b": [1, "2", null, true]}, "c,d": "\\"],["}',
    '"\\\\"',
    '["\\\\", "\\\\\\"", "é, 😀"]',
    '{"\\u005b,": [{"x": {}}, {"y": []}]}',
  ])('%s', (text) => {
    expect(count(text)).toBe(valuesIn(JSON.parse(text)))
  })

  test('and no further than the limit', () => {
    const text = Buffer.from(`[${'1,'.repeat(5000)}1]`)
    expect(countValues(text, 5002)).toBe(5002)
    expect(countValues(text, 5001)).toBe(5002)
    expect(countValues(text, 10)).toBe(11)
  })

  test('also where it is not JSON, and where a text breaks off', () => {
    for (const text of ['', '"', '"\\', '[', '{"a', '[[[[', ',,,']) {
      expect(count(text)).toBeLessThanOrEqual(5)
    }
  })
})

describe('a body with more values than may be', () => {
  const MOST = 1000
  const values = (n: number) => Array.from({ length: n }, () => 0)
  const withData = (data: unknown) => textMessage('x', { parts: [{ data }] })

  test('is refused in every dialect by a limit that is named, and changes nothing', async () => {
    const app = await startApp({ config: testConfig({ maxBodyValues: MOST }) })
    const { client, agent } = await app.queue('desk')
    const a2a = a2aClient(app.url, 'desk', client.token)
    const rest = restClient(app.url, 'desk', client.token)
    const configuration = { returnImmediately: true }
    const within = { message: withData(values(900)), configuration }
    expect((await a2a.call('SendMessage', within)).error).toBeUndefined()
    const before = await rowCounts(app)
    const shapes = [
      values(MOST),
      values(MOST).map(() => ({})),
      Object.fromEntries(values(MOST).map((_, n) => [`n${n}`, []])),
      [values(MOST / 2), values(MOST / 2)],
    ]
    for (const data of shapes) {
      const { error } = await a2a.call('SendMessage', { message: withData(data) })
      expect(error).toMatchObject({
        code: -32000,
        message: `A request body holds at most ${MOST} JSON values`,
        data: [{ reason: 'LIMIT_REACHED', metadata: { limit: String(MOST) } }],
      })
      const { status, body } = await rest.call('POST', '/message:send', {
        body: { message: withData(data) },
      })
      expect([status, body.error.details[0].reason]).toEqual([400, 'LIMIT_REACHED'])
      const call = { jsonrpc: '2.0', id: 1, method: 'todos.complete', params: { result: data } }
      const surfaces: [string, string][] = [
        ['/agent', agent.token],
        ['/operator', ADMIN_TOKEN],
      ]
      for (const [path, token] of surfaces) {
        const answer = await post(app.url + path, JSON.stringify(call), { token })
        expect(answer.body.error).toMatchObject({
          code: -32010,
          data: { reason: 'limit', limit: MOST },
        })
      }
    }
    const old = { kind: 'message', messageId: 'm', role: 'user', parts: [] }
    const v03 = { ...old, parts: [{ kind: 'data', data: { list: values(MOST) } }] }
    const call = { jsonrpc: '2.0', id: 1, method: 'message/send', params: { message: v03 } }
    const answer = await post(a2a.endpoint, JSON.stringify(call), { token: client.token })
    expect(answer.body.error.message).toContain(`${MOST} JSON values`)
    expect(await rowCounts(app)).toEqual(before)
  })

  test('counts over a batch as a whole', async () => {
    const app = await startApp({ config: testConfig({ maxBodyValues: MOST }) })
    const { agent } = await app.queue('desk')
    const entry = { jsonrpc: '2.0', id: 1, method: 'todos.list', params: { states: values(100) } }
    const ask = (entries: unknown[]) =>
      post(`${app.url}/agent`, JSON.stringify(entries), { token: agent.token })
    expect((await ask(values(9).map(() => entry))).body).toHaveLength(9)
    expect((await ask(values(10).map(() => entry))).body.error.data.reason).toBe('limit')
  })
})
