// The life of a webhook's config, and who may have one where (MUSTs 44 to 49 of test/musts).
// Field cases: internal targets refused; life of a webhook config;
// secrets are written and not read; webhook limit of a task; inline webhooks keep to their task;
// credentials that no header can carry.
import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { testConfig } from '../support/app.ts'
import { a2aClient, rpc, textMessage } from '../support/clients/actors.ts'
import { startReceiver } from '../support/network/receiver.ts'
import { until } from '../support/until.ts'
import { peopleOf, startPushApp } from './support.ts'

const app = await startPushApp()
const strict = await startPushApp({ config: testConfig() })

const rows = async (): Promise<number[]> =>
  Object.values(
    (
      await strict.sql<Record<string, number>>(`select (select count(*) from todos)::int as todos,
        (select count(*) from push_configs)::int as configs, (select count(*) from events)::int as events`)
    )[0]!,
  )

test('a config is made with an id of ours, replaced under its own, read, listed and deleted twice', async () => {
  const receiver = await startReceiver()
  const { a2a, worker, create } = await peopleOf(app, 'crud')
  const task = await a2a.submit('x')
  const url = (path: string) => `${receiver.url}/${path}`
  const first = await create({ taskId: task.id, url: url('one') })
  expect(first).toEqual({
    id: expect.stringMatching(/^[\da-f-]{36}$/),
    taskId: task.id,
    url: url('one'),
  })
  await create({ taskId: task.id, id: 'c1', url: url('two') })
  const replaced = await create({ taskId: task.id, id: 'c1', url: url('three') })
  expect(replaced).toEqual({ taskId: task.id, id: 'c1', url: url('three') })

  const of = { taskId: task.id, id: 'c1' }
  expect((await a2a.call('GetTaskPushNotificationConfig', of)).result).toEqual(replaced)
  const list = async () =>
    (await a2a.call('ListTaskPushNotificationConfigs', { taskId: task.id })).result
  expect((await list()).configs).toHaveLength(2)
  expect((await list()).configs).toContainEqual(first)

  for (let n = 0; n < 2; n += 1) {
    expect(await a2a.call('DeleteTaskPushNotificationConfig', of)).toMatchObject({ result: {} })
  }
  expect((await a2a.call('GetTaskPushNotificationConfig', of)).error.code).toBe(-32001)
  expect((await list()).configs).toEqual([first])

  const todo = await worker.claim()
  await worker.call('todos.complete', todo.held)
  await receiver.came('/one', 2)
  expect(receiver.at('/two').concat(receiver.at('/three'))).toEqual([])
})

test('a finished task takes a config and never tells it; one that is not there takes none', async () => {
  const receiver = await startReceiver()
  const { a2a, worker, create } = await peopleOf(app, 'late')
  const task = await a2a.submit('x')
  const todo = await worker.claim()
  await worker.call('todos.complete', todo.held)
  const config = await create({ taskId: task.id, url: `${receiver.url}/late` })
  expect(
    (await a2a.call('ListTaskPushNotificationConfigs', { taskId: task.id })).result.configs,
  ).toEqual([config])
  await a2a.call('CancelTask', { id: task.id })
  const owed = await app.sql('select from deliveries where todo_id = $1', [task.id])
  expect(owed).toEqual([])

  for (const taskId of [randomUUID(), 'no-uuid']) {
    for (const [method, params] of Object.entries({
      CreateTaskPushNotificationConfig: { taskId, url: receiver.url },
      GetTaskPushNotificationConfig: { taskId, id: 'c' },
      ListTaskPushNotificationConfigs: { taskId },
      DeleteTaskPushNotificationConfig: { taskId, id: 'c' },
    })) {
      expect([method, (await a2a.call(method, params)).error?.code]).toEqual([method, -32001])
    }
  }
})

test('nothing is told to a config once it has been deleted, and what it was owed is closed', async () => {
  const receiver = await startReceiver(() => 503)
  const { a2a, worker, create } = await peopleOf(app, 'dropped')
  const task = await a2a.submit('x')
  const config = await create({ taskId: task.id, url: `${receiver.url}/d` })
  const todo = await worker.claim()
  await receiver.came('/d', 1)
  await a2a.call('DeleteTaskPushNotificationConfig', { taskId: task.id, id: config.id })
  await worker.call('todos.complete', todo.held)
  const log = await app.sql('select state, reason from deliveries where todo_id = $1', [task.id])
  expect(log).toEqual([{ state: 'dead', reason: 'the config was deleted' }])
})

test('a config that leads elsewhere from now on takes what it was owed with it', async () => {
  const broken = await startReceiver(() => 500)
  const receiver = await startReceiver()
  const { a2a, worker, create } = await peopleOf(app, 'moved')
  const task = await a2a.submit('x')
  await create({ taskId: task.id, id: 'c', url: `${broken.url}/b` })
  await worker.claim()
  await broken.came('/b', 1)
  await create({ taskId: task.id, id: 'c', url: `${receiver.url}/r` })
  const [told] = await receiver.came('/r', 1)
  expect(told?.headers['webhook-id']).toBe(broken.at('/b')[0]?.headers['webhook-id'])
})

test('a config that is replaced again and again does not use up the tries of what it owes', async () => {
  let broken = true
  const receiver = await startReceiver(() => (broken ? 500 : 204))
  const { a2a, worker, create } = await peopleOf(app, 'replaced')
  const task = await a2a.submit('x')
  const config = { taskId: task.id, id: 'c', url: `${receiver.url}/r` }
  await create(config)
  await worker.claim()
  // FAST gives up at the fourth.
  for (let tries = 1; tries <= 6; tries += 1) {
    await receiver.came('/r', tries)
    await create(config)
  }
  broken = false
  await until(async () => {
    const log = await app.sql('select state from deliveries where todo_id = $1', [task.id])
    return log.every(({ state }) => state === 'delivered')
  })
})

test('the 101st config of a task is refused by name, one that is replaced is not, and a deleted one makes room', async () => {
  const { a2a, create } = await peopleOf(app, 'many')
  const task = await a2a.submit('x')
  const config = (n: number) => ({ taskId: task.id, id: `c${n}`, url: 'http://127.0.0.1:9/' })
  const made = await Promise.allSettled(Array.from({ length: 110 }, (_, n) => create(config(n))))
  const failed = made.filter((one) => one.status === 'rejected')
  expect(failed).toHaveLength(10)
  for (const { reason } of failed) {
    expect(reason.error.code).toBe(-32602)
    expect(JSON.stringify(reason.error)).toMatch(/100 push notification configs/)
  }
  const { configs } = (await a2a.call('ListTaskPushNotificationConfigs', { taskId: task.id }))
    .result
  expect(configs).toHaveLength(100)
  await create(configs[0])
  await a2a.call('DeleteTaskPushNotificationConfig', { taskId: task.id, id: configs[0].id })
  await create(config(1000))

  const paged: string[] = []
  let pageToken: string | undefined
  do {
    const { result } = await a2a.call('ListTaskPushNotificationConfigs', {
      taskId: task.id,
      pageSize: 30,
      ...(pageToken && { pageToken }),
    })
    expect(result.configs.length).toBeLessThanOrEqual(30)
    paged.push(...result.configs.map(({ id }: { id: string }) => id))
    pageToken = result.nextPageToken
  } while (pageToken)
  expect(new Set(paged).size).toBe(100)
  expect(paged).toHaveLength(100)
  const params = { taskId: task.id, pageToken: 'x' }
  expect((await a2a.call('ListTaskPushNotificationConfigs', params)).error.code).toBe(-32602)
})

test('credentials are written and never read, in any answer', async () => {
  const { client, a2a, worker, create } = await peopleOf(app, 'secretive')
  const task = await a2a.submit('x')
  const authentication = { scheme: 'Bearer', credentials: 'cred-7' }
  const asked = {
    taskId: task.id,
    id: 'c',
    url: 'http://127.0.0.1:9/',
    token: 'tok',
    authentication,
  }
  const shown = { ...asked, authentication: { scheme: 'Bearer' } }
  expect(await create(asked)).toEqual(shown)
  const of = { taskId: task.id, id: 'c' }
  expect((await a2a.call('GetTaskPushNotificationConfig', of)).result).toEqual(shown)
  const old = (method: string, params: object) =>
    rpc(`${app.url}/a2a/secretive`, method, params, { token: client.token })
  const answers = [
    await a2a.call('ListTaskPushNotificationConfigs', of),
    await a2a.call('GetTask', { id: task.id }),
    await old('tasks/pushNotificationConfig/get', { id: task.id, pushNotificationConfigId: 'c' }),
    await old('tasks/pushNotificationConfig/list', { id: task.id }),
    await old('tasks/get', { id: task.id }),
    (await worker.claim()) as unknown,
  ]
  for (const answer of answers) {
    expect(JSON.stringify(answer)).not.toMatch(/cred-7|whsec_/)
    expect(JSON.stringify(answer)).not.toContain('"error"')
  }
})

/** Internal targets in the spellings that reports name, and some more. */
const FORBIDDEN = [
  'http://127.0.0.1:9/h',
  'http://localhost/h',
  'http://10.0.0.5/h',
  'http://172.16.0.1/h',
  'http://192.168.1.1/h',
  'http://169.254.169.254/latest/meta-data/',
  'http://[::1]/h',
  'https://127.0.0.1:9/h',
  'https://localhost/h',
  'https://169.254.169.254/latest/meta-data/',
  'https://[::ffff:10.0.0.1]/',
  'https://2130706433/',
  'https://0x7f.1/',
  'https://user:pw@example.com/h',
  'https://printer.local/',
  'https://api.internal/',
  'http://example.com/h',
  'file:///etc/passwd',
  'ftp://example.com/h',
  'not a url',
  '//example.com/h',
  `https://example.com/${'x'.repeat(2048)}`,
  'https://example.com/\r\nX-Evil: 1',
]

test('internal targets are refused on every way in, and nothing is stored', async () => {
  const { client, a2a } = await peopleOf(strict, 'strict')
  const task = await a2a.submit('x')
  const before = await rows()
  const old = (method: string, params: object) =>
    rpc(`${strict.url}/a2a/strict`, method, params, { token: client.token })
  const message03 = () => ({
    messageId: randomUUID(),
    role: 'user',
    kind: 'message',
    parts: [{ kind: 'text', text: 'x' }],
  })
  for (const url of FORBIDDEN) {
    const inline = { returnImmediately: true, taskPushNotificationConfig: { url } }
    const answers = {
      create: await a2a.call('CreateTaskPushNotificationConfig', { taskId: task.id, url }),
      inline: await a2a.call('SendMessage', { message: textMessage('x'), configuration: inline }),
      stream: await a2a.call('SendStreamingMessage', {
        message: textMessage('x'),
        configuration: inline,
      }),
      set03: await old('tasks/pushNotificationConfig/set', {
        taskId: task.id,
        pushNotificationConfig: { url },
      }),
      inline03: await old('message/send', {
        message: message03(),
        configuration: { blocking: false, pushNotificationConfig: { url } },
      }),
      set01: await old('tasks/pushNotification/set', {
        id: task.id,
        pushNotificationConfig: { url },
      }),
    }
    for (const [way, { error }] of Object.entries(answers)) {
      expect([url, way, error?.code]).toEqual([url, way, -32602])
      expect(JSON.stringify(error)).toMatch(/url"/)
    }
  }
  expect(await rows()).toEqual(before)
})

test('public names are kept without being looked up; odd ports and queries are fine', async () => {
  const { a2a } = await peopleOf(strict, 'names')
  const task = await a2a.submit('x')
  for (const url of [
    'https://example.com/webhook',
    'https://no-such-host.invalid-tld.example:8443/h?a=1&b=2',
    'https://8.8.8.8/h',
    'https://[2606:4700::1111]:444/',
  ]) {
    const { result } = await a2a.call('CreateTaskPushNotificationConfig', { taskId: task.id, url })
    expect(result.url).toBe(url)
  }
})

test.each([
  ['token', { token: 'a\r\nX-Evil: 1' }],
  ['token', { token: 'ü' }],
  ['token', { token: 'x'.repeat(5000) }],
  ['authentication.scheme', { authentication: { scheme: 'Be arer', credentials: 'x' } }],
  ['authentication.scheme', { authentication: { scheme: 'B\n', credentials: 'x' } }],
  ['authentication.credentials', { authentication: { scheme: 'Bearer', credentials: 'a\nb' } }],
])('a %s that no header can carry is refused', async (field, more) => {
  const { a2a } = await peopleOf(strict, `headers-${randomUUID().slice(0, 8)}`)
  const task = await a2a.submit('x')
  const params = { taskId: task.id, url: 'https://example.com/', ...more }
  const { error } = await a2a.call('CreateTaskPushNotificationConfig', params)
  expect(error.code).toBe(-32602)
  expect(error.data[1].fieldViolations[0].field).toBe(field)
})

test('credentials that are empty are refused by name on every way in; a scheme alone is taken', async () => {
  const { client, a2a, create } = await peopleOf(strict, 'empty')
  const task = await a2a.submit('x')
  const before = await rows()
  const url = 'https://example.com/'
  const old = (method: string, params: object) =>
    rpc(`${strict.url}/a2a/empty`, method, params, { token: client.token })
  for (const credentials of ['', ' ', ' x', '\u0000']) {
    const authentication = { scheme: 'Bearer', credentials }
    const old03 = { url, authentication: { schemes: ['Bearer'], credentials } }
    const message = textMessage('x')
    const answers = [
      await a2a.call('CreateTaskPushNotificationConfig', { taskId: task.id, url, authentication }),
      await a2a.call('SendMessage', {
        message,
        configuration: { taskPushNotificationConfig: { url, authentication } },
      }),
      await old('tasks/pushNotificationConfig/set', {
        taskId: task.id,
        pushNotificationConfig: old03,
      }),
      await old('tasks/pushNotification/set', { id: task.id, pushNotificationConfig: old03 }),
    ]
    for (const { error } of answers) {
      expect(error?.code).toBe(-32602)
      expect(JSON.stringify(error)).toMatch(/authentication\.credentials/)
    }
  }
  expect(await rows()).toEqual(before)
  await create({ taskId: task.id, url, authentication: { scheme: 'Bearer' } })
  await create({ taskId: task.id, url, authentication: { scheme: 'Bearer', credentials: null } })
})

test('a config inside a message is for its task and no other', async () => {
  const { a2a } = await peopleOf(app, 'bound')
  const task = await a2a.submit('x')
  const taskPushNotificationConfig = { taskId: task.id, url: 'http://127.0.0.1:9/' }
  const { error } = await a2a.send('new', {}, { taskPushNotificationConfig })
  expect(error.code).toBe(-32602)
  expect(JSON.stringify(error)).toContain('taskPushNotificationConfig.taskId')
})

test('who only answers a task, or answers one of another, gives it no webhook', async () => {
  const { a2a } = await peopleOf(app, 'helped')
  const task = await a2a.submit('x')
  const inline = { taskPushNotificationConfig: { url: 'http://127.0.0.1:9/' } }
  for (const verbs of [['answer'], ['answer', 'send']] as const) {
    const { token } = await app.vend([...verbs], ['helped'])
    const person = a2aClient(app.url, 'helped', token)
    const { error } = await person.send('here', { taskId: task.id }, inline)
    expect(error.data[0].reason).toBe('PERMISSION_DENIED')
  }
  expect((await a2a.get(task.id)).history).toHaveLength(1)
  const { result } = await a2a.call('ListTaskPushNotificationConfigs', { taskId: task.id })
  expect(result).toEqual({ configs: [] })
})

test("another client's webhooks are not there, whatever is asked of them", async () => {
  const receiver = await startReceiver()
  const { a2a, create } = await peopleOf(app, 'shared')
  const task = await a2a.submit('x')
  await create({ taskId: task.id, id: 'c', url: `${receiver.url}/mine` })
  const { token } = await app.vend(['send'], ['shared'])
  const stranger = a2aClient(app.url, 'shared', token)
  for (const [method, params] of Object.entries({
    CreateTaskPushNotificationConfig: { taskId: task.id, id: 'c', url: `${receiver.url}/theirs` },
    GetTaskPushNotificationConfig: { taskId: task.id, id: 'c' },
    ListTaskPushNotificationConfigs: { taskId: task.id },
    DeleteTaskPushNotificationConfig: { taskId: task.id, id: 'c' },
  })) {
    const theirs = await stranger.call(method, params)
    const never = await stranger.call(method, { ...params, taskId: randomUUID() })
    expect([method, theirs]).toEqual([method, never])
    expect(theirs.error.code).toBe(-32001)
  }
  const { configs } = (await a2a.call('ListTaskPushNotificationConfigs', { taskId: task.id }))
    .result
  expect(configs).toMatchObject([{ url: `${receiver.url}/mine` }])
})

test('whose endpoint is revoked is told nothing any more, and the task goes on', async () => {
  const receiver = await startReceiver()
  const { client, worker, sendWith } = await peopleOf(app, 'revoked')
  const task = await sendWith({ url: `${receiver.url}/r` })
  const todo = await worker.claim()
  await receiver.came('/r', 1)
  await app.services.operator.revoke(client.endpoint.id, false)
  await worker.call('todos.complete', todo.held)
  const dead = await until(async () => {
    const [row] = await app.sql(
      `select reason, attempts from deliveries where todo_id = $1 and state = 'dead'`,
      [task.id],
    )
    return row
  })
  expect(dead.reason).toBe('the endpoint that made the config was revoked')
  expect(receiver.told).toHaveLength(1)
})

test('a config made while its task moves misses nothing that comes after its answer', async () => {
  const receiver = await startReceiver()
  const { a2a, worker, create } = await peopleOf(app, 'racing')
  for (let round = 0; round < 15; round += 1) {
    const task = await a2a.submit('x')
    const todo = await worker.claim()
    let made = 0
    const say = async (): Promise<number> => {
      const before = made
      const { seq } = await worker.call('todos.say', {
        ...todo.held,
        message: { messageId: randomUUID(), role: 'ROLE_AGENT', parts: [{ text: 'x' }] },
      })
      return before > 0 ? seq : 0
    }
    const config = create({ taskId: task.id, url: `${receiver.url}/${round}` }).then((kept) => {
      made = 1
      return kept
    })
    const after: number[] = []
    for (let n = 0; n < 6; n += 1) after.push(await say())
    await config
    const { seq } = await worker.call('todos.say', {
      ...todo.held,
      message: { messageId: randomUUID(), role: 'ROLE_AGENT', parts: [{ text: 'x' }] },
    })
    const owed = await app.sql<{ seq: number }>('select seq from deliveries where todo_id = $1', [
      task.id,
    ])
    const told = owed.map((row) => row.seq)
    for (const one of [...after.filter((n) => n > 0), seq]) expect(told).toContain(one)
    await worker.call('todos.complete', todo.held)
  }
  await until(async () => {
    const [left] = await app.sql(`select count(*)::int as n from deliveries where state = 'pending'
      and todo_id in (select id from todos where queue = 'racing')`)
    return left?.n === 0
  })
  // Every line is as long as what is in it.
  const wrong = await app.sql(`select c.todo_id from push_configs c where c.owed <> (select count(*)
    from deliveries d where d.todo_id = c.todo_id and d.config_id = c.config_id and d.state = 'pending')
    and c.todo_id in (select id from todos where queue = 'racing')`)
  expect(wrong).toEqual([])
})
