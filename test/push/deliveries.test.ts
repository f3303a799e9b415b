// What webhooks are told, in what order, and what is done where they do not listen.
// Field cases: one finish only; cancel is idempotent; redirects not followed;
// headers of a delivery; deliveries in order; when a delivery is tried again;
// one bad receiver harms nobody; inline webhooks keep to their task; Retry-After by one rule;
// receivers that are being deployed; credentials that no header can carry.

import { Webhook } from 'standardwebhooks'
import { expect, test } from 'vitest'
import { startReceiver, stateOf, type Told } from '../support/network/receiver.ts'
import { until } from '../support/until.ts'
import { FAST, operatorOf, peopleOf, startPushApp } from './support.ts'

const app = await startPushApp()
const operator = operatorOf(app)

const deliveriesOf = async (todoId: string) =>
  (await operator('deliveries.list', { todoId, pageSize: 100 })).deliveries

test('an inline webhook is told from the first working event to the terminal one, of its own task only', async () => {
  const receiver = await startReceiver()
  for (const name of ['tenant-a', 'tenant-b']) {
    const { a2a, worker, sendWith } = await peopleOf(app, name)
    const task = await sendWith({ url: `${receiver.url}/${name}` })
    const todo = await worker.claim()
    await worker.call('todos.say', {
      ...todo.held,
      message: { messageId: 's', role: 'ROLE_AGENT', parts: [{ text: 'on it' }] },
    })
    await worker.call('todos.artifact', {
      ...todo.held,
      artifact: { artifactId: 'a', parts: [{ text: `für ${name} 🦜` }] },
    })
    await worker.call('todos.complete', todo.held)
    const told = await receiver.came(`/${name}`, 4)
    expect(told.map(stateOf)).toEqual(['WORKING', 'WORKING', 'artifact', 'COMPLETED'])
    for (const { json } of told) {
      expect(Object.keys(json)).toHaveLength(1)
      const [member] = Object.values(json) as { taskId: string; contextId: string }[]
      expect(member).toMatchObject({ taskId: task.id, contextId: task.contextId })
    }
    expect(told[2]?.json.artifactUpdate.artifact.parts).toEqual([{ text: `für ${name} 🦜` }])
    const { configs } = (await a2a.call('ListTaskPushNotificationConfigs', { taskId: task.id }))
      .result
    expect(configs).toEqual([
      {
        id: expect.stringMatching(/^[\da-f-]{36}$/),
        taskId: task.id,
        url: `${receiver.url}/${name}`,
      },
    ])
  }
  expect(receiver.told).toHaveLength(8)
})

test('what a webhook is told is what a stream shows, byte for byte', async () => {
  const receiver = await startReceiver()
  const { a2a, worker, sendWith } = await peopleOf(app, 'twin')
  const task = await sendWith({ url: `${receiver.url}/t` })
  const stream = await a2a.stream('SubscribeToTask', { id: task.id })
  const todo = await worker.claim()
  await worker.call('todos.fail', {
    ...todo.held,
    error: { code: 'no', message: 'not today' },
    retryable: false,
  })
  const shown = (await stream.rest()).slice(1).map(({ json }) => json.result)
  const told = await receiver.came('/t', shown.length)
  expect(told.map(({ text }) => text)).toEqual(shown.map((result) => JSON.stringify(result)))
})

test('the headers of a delivery: credentials by scheme, token, type, version, id, and nothing of our own', async () => {
  const receiver = await startReceiver()
  const { worker, sendWith, create } = await peopleOf(app, 'headed')
  const bearer = { scheme: 'Bearer', credentials: 'cred-1' }
  const task = await sendWith({
    url: `${receiver.url}/bearer`,
    token: 'tok-1',
    authentication: bearer,
  })
  const basic = { scheme: 'Basic', credentials: 'cred-1' }
  await create({ taskId: task.id, url: `${receiver.url}/basic`, authentication: basic })
  await create({ taskId: task.id, url: `${receiver.url}/none` })
  const todo = await worker.claim()
  await worker.call('todos.complete', todo.held)

  const ids = new Set<unknown>()
  const expected = {
    bearer: ['Bearer cred-1', 'tok-1'],
    basic: ['Basic cred-1', undefined],
    none: [undefined, undefined],
  }
  for (const [path, [authorization, token]] of Object.entries(expected)) {
    const told = await receiver.came(`/${path}`, 2)
    for (const { method, headers } of told) {
      expect(method).toBe('POST')
      expect(headers.authorization).toBe(authorization)
      expect(headers['x-a2a-notification-token']).toBe(token)
      expect(headers['content-type']).toBe('application/a2a+json')
      expect(headers['a2a-version']).toBe('1.0')
      expect(Object.keys(headers).filter((name) => /cookie|trace|baggage|b3/.test(name))).toEqual(
        [],
      )
      ids.add(headers['webhook-id'])
    }
  }
  expect(ids.size).toBe(6)
})

const verified = (secret: string, { text, headers }: Told): unknown =>
  new Webhook(secret).verify(text, {
    'webhook-id': String(headers['webhook-id']),
    'webhook-timestamp': String(headers['webhook-timestamp']),
    'webhook-signature': String(headers['webhook-signature']),
  })

test('deliveries are signed with the secret that was shown once, and with two while a rotation overlaps', async () => {
  const receiver = await startReceiver()
  const { client, worker } = await peopleOf(app, 'signed')
  const response = await fetch(`${app.url}/a2a/signed`, {
    method: 'POST',
    headers: {
      'Content-Type': 'application/json',
      'A2A-Version': '1.0',
      Authorization: `Bearer ${client.token}`,
    },
    body: JSON.stringify({
      jsonrpc: '2.0',
      id: 1,
      method: 'SendMessage',
      params: {
        message: { messageId: 'm', role: 'ROLE_USER', parts: [{ text: 'x' }] },
        configuration: {
          returnImmediately: true,
          taskPushNotificationConfig: { id: 'c', url: `${receiver.url}/s` },
        },
      },
    }),
  })
  const secret = String(response.headers.get('switchboard-webhook-secret'))
  const { result } = (await response.json()) as { result: { task: { id: string } } }
  expect(secret).toMatch(/^whsec_/)
  expect(JSON.stringify(result)).not.toContain('whsec_')

  const todo = await worker.claim()
  const [first] = await receiver.came('/s', 1)
  expect(verified(secret, first!)).toMatchObject({ statusUpdate: { taskId: result.task.id } })
  expect(() => verified(secret, { ...first!, text: `${first!.text} ` })).toThrow()

  const rotated = await operator('push.rotateSecret', { todoId: result.task.id, id: 'c' })
  expect(Date.parse(rotated.previousUntil)).toBeGreaterThan(Date.parse(todo.createdAt))
  await worker.call('todos.say', {
    ...todo.held,
    message: { messageId: 's', role: 'ROLE_AGENT', parts: [{ text: 'y' }] },
  })
  const [, second] = await receiver.came('/s', 2)
  verified(secret, second!)
  verified(rotated.secret, second!)

  const last = await operator('push.rotateSecret', {
    todoId: result.task.id,
    id: 'c',
    overlapSeconds: 0,
  })
  await worker.call('todos.complete', todo.held)
  const [, , third] = await receiver.came('/s', 3)
  verified(last.secret, third!)
  expect(() => verified(rotated.secret, third!)).toThrow()
})

test('deliveries arrive in the order of events, none before its predecessor was answered', async () => {
  let answered = 0
  const receiver = await startReceiver(async (_told, n) => {
    expect(answered).toBe(n)
    if (n === 0) await new Promise((resolve) => setTimeout(resolve, 500))
    answered += 1
    return 200
  })
  const { worker, sendWith } = await peopleOf(app, 'ordered')
  await sendWith({ url: `${receiver.url}/o` })
  const todo = await worker.claim()
  for (let n = 0; n < 5; n += 1) {
    await worker.call('todos.artifact', {
      ...todo.held,
      artifact: { artifactId: 'a', parts: [{ text: String(n) }] },
      append: n > 0,
    })
  }
  await worker.call('todos.complete', todo.held)
  const told = await receiver.came('/o', 7)
  expect(told.map(stateOf)).toEqual(['WORKING', ...Array(5).fill('artifact'), 'COMPLETED'])
  const texts = told.slice(1, 6).map(({ json }) => json.artifactUpdate.artifact.parts[0].text)
  expect(texts).toEqual(['0', '1', '2', '3', '4'])
})

test('a failing receiver is tried again with growing gaps, the same body and the same id', async () => {
  const receiver = await startReceiver((_told, n) => (n < 2 ? 500 : 200))
  const { worker, sendWith } = await peopleOf(app, 'flaky')
  const task = await sendWith({ url: `${receiver.url}/f` })
  await worker.claim()
  const told = await receiver.came('/f', 3)
  expect(new Set(told.map(({ text }) => text)).size).toBe(1)
  expect(new Set(told.map(({ headers }) => headers['webhook-id'])).size).toBe(1)
  const [first, second, third] = told.map(({ at }) => at)
  // At least what the backoff leaves to no chance: 3/4 of 50 ms, then of 100 ms.
  expect(second! - first!).toBeGreaterThan(35)
  expect(third! - second!).toBeGreaterThan(70)
  const [delivery] = await until(async () => {
    const found = await deliveriesOf(task.id)
    return found[0]?.state === 'delivered' ? found : null
  })
  expect(delivery).toMatchObject({ attempts: 3, status: 200, reason: null })
  expect(delivery.id).toBe(told[0]?.headers['webhook-id'])
})

test.each([400, 401, 404, 410, 422])('after %i there is no other try', async (status) => {
  const receiver = await startReceiver(() => status)
  const { worker, sendWith } = await peopleOf(app, `refusing-${status}`)
  const task = await sendWith({ url: `${receiver.url}/r` })
  const todo = await worker.claim()
  await worker.call('todos.complete', todo.held)
  // The next of the line goes out: the one before it was given up.
  await receiver.came('/r', 2)
  const deliveries = await until(async () => {
    const found = await deliveriesOf(task.id)
    return found.every(({ state }: { state: string }) => state === 'dead') ? found : null
  })
  for (const delivery of deliveries) {
    expect(delivery).toMatchObject({ attempts: 1, status, reason: `answered ${status}` })
  }
  expect(receiver.told).toHaveLength(2)
})

test.each([302, 307, 308])(
  'a %i is not followed, counts as failed and is tried again',
  async (status) => {
    const other = await startReceiver()
    const headers = { Location: `${other.url}/elsewhere` }
    const receiver = await startReceiver((_told, n) => (n === 0 ? { status, headers } : 200))
    const { worker, sendWith } = await peopleOf(app, `moving-${status}`)
    await sendWith({ url: `${receiver.url}/m` })
    await worker.claim()
    await receiver.came('/m', 2)
    expect(other.told).toEqual([])
  },
)

test('Retry-After puts the next try off', async () => {
  const receiver = await startReceiver((_told, n) =>
    n === 0 ? { status: 429, headers: { 'Retry-After': '1' } } : 200,
  )
  const { worker, sendWith } = await peopleOf(app, 'throttled')
  await sendWith({ url: `${receiver.url}/t` })
  await worker.claim()
  const [first, second] = await receiver.came('/t', 2)
  expect(second!.at - first!.at).toBeGreaterThan(990)
})

test.each([
  ['a day in seconds', '86400'],
  ['more seconds than anybody lives', '9999999999'],
  ['a date a day ahead', new Date(Date.now() + 86_400_000).toUTCString()],
  ['nonsense', 'next Tuesday, perhaps'],
])(
  'a Retry-After of %s delays the next try by the longest backoff at most',
  async (_name, after) => {
    const receiver = await startReceiver((_told, n) =>
      n === 0 ? { status: 503, headers: { 'Retry-After': after } } : 200,
    )
    const { worker, sendWith } = await peopleOf(app, `asked-${String(after).length}`)
    const task = await sendWith({ url: `${receiver.url}/t` })
    await worker.claim()
    await receiver.came('/t', 2)
    await until(async () => (await deliveriesOf(task.id))[0].state === 'delivered')
    expect((await deliveriesOf(task.id))[0]).toMatchObject({ attempts: 2, reason: null })
  },
)

test.each([409, 421, 423, 425])('a %i during a deployment is tried again', async (status) => {
  const receiver = await startReceiver((_told, n) => (n === 0 ? status : 200))
  const { worker, sendWith } = await peopleOf(app, `deploying-${status}`)
  const task = await sendWith({ url: `${receiver.url}/d` })
  await worker.claim()
  const [first, second] = await receiver.came('/d', 2)
  expect(second?.headers['webhook-id']).toBe(first?.headers['webhook-id'])
  await until(async () => (await deliveriesOf(task.id))[0].state === 'delivered')
})

test.each([
  ['an empty text as credentials', `credentials = ''`, 'authentication.credentials'],
  ['a line break in the credentials', `credentials = E'a\\nb'`, 'authentication.credentials'],
  ['credentials beyond ASCII', `credentials = 'grün'`, 'authentication.credentials'],
  ['credentials without a scheme', 'scheme = null', 'authentication.scheme'],
  ['a scheme of two words', `scheme = 'Be arer'`, 'authentication.scheme'],
  ['a token with a line break', `token = E'a\\r\\nb: c'`, 'token'],
  ['no URL', `url = 'nowhere'`, 'Invalid URL'],
])(
  'what by hand stands in the table, %s, is given up at once and says why',
  async (_what, set, named) => {
    const receiver = await startReceiver()
    const { worker, sendWith } = await peopleOf(app, `by-hand-${set.replaceAll(/[^a-z]/g, '')}`)
    const authentication = { scheme: 'Bearer', credentials: 'cred' }
    const task = await sendWith({ url: `${receiver.url}/h`, token: 'tok', authentication })
    await app.sql(`update push_configs set ${set} where todo_id = $1`, [task.id])
    await worker.claim()
    await until(async () => (await deliveriesOf(task.id))[0]?.state === 'dead')
    const [{ reason }] = await deliveriesOf(task.id)
    expect(reason).toMatch(/^cannot be sent: /)
    expect(reason).toContain(named)
    expect(receiver.told).toEqual([])
  },
)

test('a receiver that is gone is given up after the configured tries, and its task never notices', async () => {
  const gone = await startReceiver()
  await gone.close()
  const { a2a, worker, sendWith } = await peopleOf(app, 'gone')
  const task = await sendWith({ url: `${gone.url}/g?key=s3cret` })
  const todo = await worker.claim()
  await worker.call('todos.complete', todo.held)
  expect((await a2a.get(task.id)).status.state).toBe('TASK_STATE_COMPLETED')
  const deliveries = await until(async () => {
    const found = await deliveriesOf(task.id)
    return found.every(({ state }: { state: string }) => state === 'dead') ? found : null
  })
  expect(deliveries).toHaveLength(2)
  for (const delivery of deliveries) {
    expect(delivery.attempts).toBe(FAST.maxAttempts)
    expect(delivery.reason).toMatch(/^no connection: ECONNREFUSED; gave up after 4 attempts$/)
    expect(delivery.url).toBe(`${gone.url}/g?key=***`)
  }
})

test('a silent receiver is given up at the timeout, tried again, and keeps no other waiting', async () => {
  const silent = await startReceiver((_told, n) => (n === 0 ? 'hang' : 200))
  const healthy = await startReceiver(() => 200, '127.0.0.2')
  const { worker, sendWith } = await peopleOf(app, 'mixed')
  for (let n = 0; n < 20; n += 1) await sendWith({ url: `${silent.url}/s${n}` })
  for (let n = 0; n < 30; n += 1) await sendWith({ url: `${healthy.url}/h${n}` })
  const claimed: string[] = []
  while (claimed.length < 50) {
    const { todos } = await worker.call('todos.claim', { limit: 50, waitMs: 25_000 })
    claimed.push(...todos.map(({ id }: { id: string }) => id))
  }
  const all = () => Array.from({ length: 30 }, (_, n) => healthy.at(`/h${n}`).length)
  await until(() => all().every((count) => count === 1))
  // The slow ones had at most eight at a time, so some of them have not been tried yet.
  const silentYet = silent.told.length
  expect(silentYet).toBeLessThanOrEqual(16)
  await until(
    () => Array.from({ length: 20 }, (_, n) => silent.at(`/s${n}`).length).every((n) => n >= 2),
    {},
  )
  expect(all().every((count) => count === 1)).toBe(true)
})

test('complete and fail at one instant: one terminal webhook', async () => {
  const receiver = await startReceiver()
  const { worker, sendWith } = await peopleOf(app, 'once')
  for (let n = 0; n < 10; n += 1) {
    await sendWith({ url: `${receiver.url}/${n}` })
    const todo = await worker.claim()
    await Promise.allSettled([
      worker.call('todos.complete', todo.held),
      worker.call('todos.fail', {
        ...todo.held,
        error: { code: 'x', message: 'y' },
        retryable: false,
      }),
    ])
  }
  await Promise.all(Array.from({ length: 10 }, (_, n) => receiver.came(`/${n}`, 2)))
  expect(receiver.told).toHaveLength(20)
})

test('a cancel that is repeated is told once', async () => {
  const receiver = await startReceiver()
  const { a2a, worker, sendWith } = await peopleOf(app, 'canceled')
  const task = await sendWith({ url: `${receiver.url}/c` })
  await worker.claim()
  for (let n = 0; n < 3; n += 1) await a2a.call('CancelTask', { id: task.id })
  const told = await receiver.came('/c', 2)
  expect(told.map(stateOf)).toEqual(['WORKING', 'CANCELED'])
  expect(await deliveriesOf(task.id)).toHaveLength(2)
})

test('a task that is refused at intake tells it, since nothing else will', async () => {
  const receiver = await startReceiver()
  const { client } = await app.queue('picky')
  const { a2aClient } = await import('../support/clients/actors.ts')
  const a2a = a2aClient(app.url, 'picky', client.token)
  await a2a.submit('first', { contextId: 'k' })
  const { result } = await a2a.call('SendMessage', {
    message: { messageId: 'two', contextId: 'k', role: 'ROLE_USER', parts: [{ text: 'x' }] },
    metadata: { 'urn:switchboard:busy': 'reject' },
    configuration: { taskPushNotificationConfig: { url: `${receiver.url}/r` } },
  })
  expect(result.task.status.state).toBe('TASK_STATE_REJECTED')
  expect((await receiver.came('/r', 1)).map(stateOf)).toEqual(['REJECTED'])
})

test('a webhook that comes with an answer hears what the answer sets going', async () => {
  const receiver = await startReceiver()
  const { a2a, worker } = await peopleOf(app, 'asking')
  const task = await a2a.submit('x')
  const todo = await worker.claim()
  await worker.call('todos.interrupt', {
    ...todo.held,
    state: 'input-required',
    message: { messageId: 'q', role: 'ROLE_AGENT', parts: [{ text: 'which?' }] },
  })
  const configuration = (url: string) => ({
    returnImmediately: true,
    taskPushNotificationConfig: { url },
  })
  const refused = await a2a.send('it', { taskId: task.id }, configuration('http://10.0.0.1/'))
  expect(refused.error.code).toBe(-32602)
  expect((await a2a.get(task.id)).status.state).toBe('TASK_STATE_INPUT_REQUIRED')
  await a2a.send('this', { taskId: task.id }, configuration(`${receiver.url}/a`))
  await worker.call('todos.complete', { ...todo.held, acknowledge: 1000 })
  const told = await receiver.came('/a', 2)
  expect(told.map(stateOf)).toEqual(['WORKING', 'COMPLETED'])
  const late = await a2a.send('more', { taskId: task.id }, configuration(`${receiver.url}/late`))
  expect(late.error.code).toBe(-32004)
  const { configs } = (await a2a.call('ListTaskPushNotificationConfigs', { taskId: task.id }))
    .result
  expect(configs).toHaveLength(1)
})
