// MUSTs 50 to 52, pitfall 47: a webhook is told in the dialect that its config was made in.
import { A2AClient } from 'a2a-sdk-0.3/client'
import { expect, test } from 'vitest'
import { rpc } from '../support/clients/actors.ts'
import { connectRpc, fetchAs, request } from '../support/clients/sdk.ts'
import { card03, message as message03 } from '../support/clients/sdk03.ts'
import { startReceiver } from '../support/network/receiver.ts'
import { until } from '../support/until.ts'
import { peopleOf, startPushApp } from './support.ts'

const app = await startPushApp()

test('a config of 0.3 is told the whole task in the words of 0.3, as each event left it', async () => {
  const receiver = await startReceiver((_told, n) => (n === 0 ? 500 : 200))
  const { client, worker, create } = await peopleOf(app, 'old')
  const old = (method: string, params: object) =>
    rpc(`${app.url}/a2a/old`, method, params, { token: client.token })
  const { result: task } = await old('message/send', {
    message: {
      kind: 'message',
      messageId: 'm',
      role: 'user',
      parts: [{ kind: 'text', text: 'hé' }],
    },
    configuration: {
      blocking: false,
      pushNotificationConfig: {
        url: `${receiver.url}/old`,
        token: 'tok',
        authentication: { schemes: ['Bearer'], credentials: 'cred' },
      },
    },
  })
  // Whoever asks last does not change what was agreed first.
  await create({ taskId: task.id, id: 'new', url: `${receiver.url}/new` })
  const todo = await worker.claim()
  const chunk = (text: string, append: boolean) =>
    worker.call('todos.artifact', {
      ...todo.held,
      artifact: { artifactId: 'a', name: 'n', parts: [{ text }] },
      append,
    })
  await chunk('one', false)
  await chunk('two', true)
  await worker.call('todos.complete', {
    ...todo.held,
    message: { messageId: 'end', role: 'ROLE_AGENT', parts: [{ text: 'done' }] },
  })
  const told = await receiver.came('/old', 5)
  const [failed, working, first, second, completed] = told.map(({ json }) => json)
  expect(told[0]?.text).toBe(told[1]?.text)
  for (const { headers, json } of told) {
    expect(headers['content-type']).toBe('application/json')
    expect(headers['a2a-version']).toBe('0.3')
    expect(headers.authorization).toBe('Bearer cred')
    expect(headers['x-a2a-notification-token']).toBe('tok')
    expect(json).toMatchObject({ kind: 'task', id: task.id, contextId: task.contextId })
    expect(json.history[0].parts).toEqual([{ kind: 'text', text: 'hé' }])
  }
  expect(failed).toEqual(working)
  expect(working).toMatchObject({ status: { state: 'working' } })
  expect(working.artifacts).toBeUndefined()
  expect(first.status).toEqual(working.status)
  expect(first.artifacts[0].parts.map(({ text }: { text: string }) => text)).toEqual(['one'])
  expect(second.artifacts[0].parts.map(({ text }: { text: string }) => text)).toEqual([
    'one',
    'two',
  ])
  expect(completed).toEqual((await old('tasks/get', { id: task.id })).result)
  expect(completed.status.state).toBe('completed')
  const news = await receiver.came('/new', 4)
  expect(news.every(({ json }) => json.kind === undefined)).toBe(true)
})

test('a task that is not kept any more is told to nobody, in place of nothing at all', async () => {
  let release = (): void => {}
  const held = new Promise<void>((resolve) => {
    release = resolve
  })
  const receiver = await startReceiver(async () => {
    await held
    return 200
  })
  const { client, worker } = await peopleOf(app, 'gone')
  const { result: task } = await rpc(
    `${app.url}/a2a/gone`,
    'tasks/send',
    {
      id: 'mine',
      message: { role: 'user', parts: [{ type: 'text', text: 'x' }] },
      pushNotification: { url: `${receiver.url}/gone` },
      metadata: { 'urn:switchboard:wait': { maxMs: 1 } },
    },
    { token: client.token },
  )
  expect(task.status.state).toBe('submitted')
  const { id, held: claim } = await worker.claim()
  await receiver.came('/gone', 1)
  await worker.call('todos.complete', claim)
  await app.sql('delete from todos where id = $1', [id])
  release()
  const last = async () =>
    (await app.sql('select reason from deliveries where todo_id = $1 order by seq', [id]))[1]
  await until(async () => (await last())?.reason)
  expect(await last()).toEqual({ reason: 'its event, or its task, is not kept any more' })
  expect(receiver.told.every(({ json }) => json.id === id)).toBe(true)
})

test('the SDK of 0.3 sets, gets, lists and deletes configs of a task', async () => {
  const receiver = await startReceiver()
  const { client, worker } = await peopleOf(app, 'sdk-old')
  const sdk = new A2AClient(card03(`${app.url}/a2a/sdk-old/`), { fetchImpl: fetchAs(client.token) })
  const sent = await sdk.sendMessage({
    message: message03('x'),
    configuration: { blocking: false },
  })
  const task = ('result' in sent && sent.result) as { id: string }
  await sdk.setTaskPushNotificationConfig({
    taskId: task.id,
    pushNotificationConfig: { url: `${receiver.url}/sdk` },
  })
  const read = await sdk.getTaskPushNotificationConfig({ id: task.id })
  expect(read).toMatchObject({ result: { pushNotificationConfig: { id: 'default' } } })
  const todo = await worker.claim()
  await worker.call('todos.complete', todo.held)
  expect((await receiver.came('/sdk', 2)).at(-1)?.json.status.state).toBe('completed')
  const of = { id: task.id, pushNotificationConfigId: 'default' }
  expect(await sdk.deleteTaskPushNotificationConfig(of)).toMatchObject({ result: null })
  expect(await sdk.listTaskPushNotificationConfig({ id: task.id })).toMatchObject({ result: [] })
})

test('the SDK of 1.0 sends with a webhook, and makes, gets, lists and deletes another', async () => {
  const receiver = await startReceiver()
  const { client, worker } = await peopleOf(app, 'sdk-new')
  const sdk = await connectRpc(client.token, `${app.url}/a2a/sdk-new/`)
  const config = (path: string, taskId = '', id = '') => ({
    tenant: '',
    id,
    taskId,
    url: `${receiver.url}/${path}`,
    token: '',
    authentication: { scheme: 'Bearer', credentials: 'cred' },
  })
  const sent = await sdk.sendMessage(request('x', {}, true, config('inline')))
  const taskId = 'id' in sent ? sent.id : ''
  const made = await sdk.createTaskPushNotificationConfig(config('made', taskId, 'c'))
  expect(made).toMatchObject({ id: 'c', taskId, authentication: { scheme: 'Bearer' } })
  const of = { tenant: '', taskId, id: 'c' }
  expect(await sdk.getTaskPushNotificationConfig(of)).toEqual(made)
  const { configs } = await sdk.listTaskPushNotificationConfig({
    tenant: '',
    taskId,
    pageSize: 0,
    pageToken: '',
  })
  expect(configs).toHaveLength(2)
  const todo = await worker.claim()
  await receiver.came('/made', 1)
  await sdk.deleteTaskPushNotificationConfig(of)
  await worker.call('todos.complete', todo.held)
  const told = await receiver.came('/inline', 2)
  expect(told.every(({ headers }) => headers.authorization === 'Bearer cred')).toBe(true)
  expect(receiver.at('/made')).toHaveLength(1)
})
