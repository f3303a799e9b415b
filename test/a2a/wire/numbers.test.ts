/**
 * Numbers that no double is equal to, from wire to wire.
 * Field cases: numbers keep their digits.
 */
import { afterAll, expect, test } from 'vitest'
import { createAgent, ExactNumber } from '../../../src/index.ts'
import { startApp } from '../../support/app.ts'
import { ADMIN_TOKEN, testConfig } from '../../support/config.ts'
import { startReceiver } from '../../support/network/receiver.ts'
import { until } from '../../support/until.ts'

const app = await startApp({
  config: testConfig({ webhookAllowHttp: true, webhookAllow: ['127.0.0.1/32'] }),
})
const { client, agent } = await app.queue('desk', { contexts: 'parallel' })

const NUMBERS = '[9007199254740993,1234567890123456789,0.1234567890123456789,1e-400,-1.7e-323]'
const PART = `{"data":{"n":${NUMBERS},"a":{"b":9007199254740993}},"metadata":{"m":1e-400}}`

/** A call as text, since JSON.stringify could not say it. */
const call = async (path: string, body: string, token: string, version = '1.0') => {
  const response = await fetch(`${app.url}${path}`, {
    method: 'POST',
    body,
    headers: {
      'Content-Type': 'application/json',
      Authorization: `Bearer ${token}`,
      'A2A-Version': version,
    },
  })
  return response.text()
}
const rpc = (method: string, params: string, version?: string) =>
  call(
    '/a2a/desk',
    `{"jsonrpc":"2.0","id":1,"method":"${method}","params":${params}}`,
    client.token,
    version,
  )
const agentRpc = (method: string, params: string) =>
  call('/agent', `{"jsonrpc":"2.0","id":1,"method":"${method}","params":${params}}`, agent.token)
const messageOf = (id: string, part = PART, more = '') =>
  `{"messageId":"${id}","role":"ROLE_USER","parts":[${part}],"metadata":{"big":9007199254740993}${more}}`
const AT_ONCE = '"configuration":{"returnImmediately":true}'
const idIn = (text: string): string => /"id":"([^"]+)"/.exec(text)![1]!

/** Each number stands there with its digits, and none was rounded. */
const expectExact = (text: string) => {
  expect(text).toContain(`"n":${NUMBERS}`)
  expect(text).not.toMatch(/9007199254740992|1234567890123456800|0\.12345678901234568/)
}

test('from a client through the database and an agent to every reader', async () => {
  const params = `{"message":${messageOf('m-1')},"metadata":{"n":${NUMBERS}},${AT_ONCE}}`
  const sent = await rpc('SendMessage', params)
  expectExact(sent)
  const id = idIn(sent)
  const claimed = await agentRpc('todos.claim', '{"waitMs":10000}')
  expectExact(claimed)
  expect(claimed).toContain('"m":1e-400')
  expect(claimed).toContain('"big":9007199254740993')
  const fence = /"fence":"(\d+)"/.exec(claimed)![1]!
  const held = `"id":"${id}","fence":"${fence}"`
  const following = fetch(`${app.url}/a2a/desk/tasks/${id}:subscribe`, {
    headers: { Authorization: `Bearer ${client.token}`, 'A2A-Version': '1.0' },
  }).then((response) => response.text())
  await until(async () =>
    (await (await fetch(`${app.url}/metrics`)).text()).includes('streams_open{kind="a2a"} 1'),
  )
  await agentRpc('todos.artifact', `{${held},"artifact":{"artifactId":"a","parts":[${PART}]}}`)
  await agentRpc('todos.say', `{${held},"message":{"parts":[${PART}]}}`)
  const result = `"result":{"n":${NUMBERS}},"message":{"parts":[${PART}]}`
  await agentRpc('todos.complete', `{${held},${result}}`)
  const stream = await following
  expect(stream.split(`"n":${NUMBERS}`).length).toBeGreaterThanOrEqual(5)
  expectExact(stream)
  for (const version of ['1.0', '0.3']) {
    const method = version === '1.0' ? 'GetTask' : 'tasks/get'
    const got = await rpc(method, `{"id":"${id}"}`, version)
    expectExact(got)
    // Two messages of the client's and the agent's, the status, the artifact, and the metadata.
    expect(got.split(`"n":${NUMBERS}`)).toHaveLength(6)
  }
  const rest = await fetch(`${app.url}/a2a/desk/tasks/${id}`, {
    headers: { Authorization: `Bearer ${client.token}`, 'A2A-Version': '1.0' },
  })
  expectExact(await rest.text())
  const show = `{"jsonrpc":"2.0","id":1,"method":"todos.show","params":{"id":"${id}"}}`
  const shown = await call('/operator', show, ADMIN_TOKEN)
  expectExact(shown)
  expect(shown).toContain(`"result":{"n":${NUMBERS}}`)
})

test('to a webhook', async () => {
  const receiver = await startReceiver()
  const push = `"configuration":{"returnImmediately":true,"taskPushNotificationConfig":{"url":"${receiver.url}"}}`
  const sent = await rpc('SendMessage', `{"message":${messageOf('m-2')},${push}}`)
  const id = idIn(sent)
  const claimed = await agentRpc('todos.claim', '{"waitMs":10000}')
  const fence = /"fence":"(\d+)"/.exec(claimed)![1]!
  await agentRpc(
    'todos.complete',
    `{"id":"${id}","fence":"${fence}","message":{"parts":[${PART}]}}`,
  )
  await until(() => receiver.told.some(({ text }) => text.includes('TASK_STATE_COMPLETED')))
  expectExact(receiver.told.map(({ text }) => text).join('\n'))
})

test('through the agent kit, which hands over what cannot be computed with', async () => {
  const seen: unknown[] = []
  const kit = createAgent({ url: app.url, token: agent.token }, async ({ todo }) => {
    const { data } = todo.message!.parts[0] as { data: { n: ExactNumber[] } }
    seen.push(...data.n)
    const more = new ExactNumber(String(10n ** 30n + 1n))
    return { message: { parts: [{ data }] }, result: { n: data.n, more } }
  })
  kit.start()
  afterAll(() => kit.stop())
  const answered = await rpc('SendMessage', `{"message":${messageOf('m-3')}}`)
  expectExact(answered)
  expect(answered.split(`"n":${NUMBERS}`)).toHaveLength(3)
  expect(seen.map(String)).toEqual(NUMBERS.slice(1, -1).split(','))
  expect(() => Number(seen[0])).toThrow(TypeError)
  const show = `{"jsonrpc":"2.0","id":1,"method":"todos.show","params":{"id":"${idIn(answered)}"}}`
  expect(await call('/operator', show, ADMIN_TOKEN)).toContain(
    '"more":1000000000000000000000000000001',
  )
  await kit.stop()
})

test('where it must be computed with it is refused by name, and so is what no double can hold', async () => {
  for (const [params, field] of [
    ['{"pageSize":9007199254740993}', 'pageSize'],
    ['{"historyLength":1.0000000000000000001}', 'historyLength'],
    ['{"status":1.0000000000000000001}', 'status'],
  ]) {
    const text = await rpc('ListTasks', params!)
    expect(text).toContain('-32602')
    expect(text).toContain(`"field":"${field}"`)
  }
  const struct = await rpc(
    'SendMessage',
    '{"message":{"messageId":"x","role":"ROLE_USER","parts":[{"text":"x"}],"metadata":9007199254740993}}',
  )
  expect(struct).toContain('"field":"message.metadata"')
  const huge = await rpc('SendMessage', `{"message":${messageOf('m-4', '{"data":[1e400]}')}}`)
  expect(huge).toContain('"field":"message.parts[0].data[0]"')
  const percent = '{"id":"x","fence":"1","percent":50.00000000000000000001}'
  expect(await agentRpc('todos.progress', percent)).toContain('"field":"percent"')
  const id = await call(
    '/a2a/desk',
    '{"jsonrpc":"2.0","id":9007199254740993,"method":"ListTasks"}',
    client.token,
  )
  expect(id).toContain('-32600')
})
