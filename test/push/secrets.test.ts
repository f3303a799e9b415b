// Secrets of webhooks at rest: sealed where the node has a key, readable after a rotation, and never
// sent by a node that cannot read them. Rows from before there was a key stay as they are.
// Field case: webhook secrets at rest.
import { createHash, randomBytes } from 'node:crypto'
import { Webhook } from 'standardwebhooks'
import { afterAll, expect, test } from 'vitest'
import type { SecretKey } from '../../src/config/secret-keys.ts'
import { createSealing, Unreadable } from '../../src/service/push/sealing.ts'
import { startNode } from '../support/app.ts'
import { a2aClient, agentClient, rpc } from '../support/clients/actors.ts'
import { startReceiver, type Told } from '../support/network/receiver.ts'
import { until } from '../support/until.ts'
import { FAST, LOCAL, operatorOf, peopleOf, startPushApp } from './support.ts'

const newKey = (): SecretKey => {
  const key = randomBytes(32)
  return { id: createHash('sha256').update(key).digest('hex').slice(0, 8), key }
}
const [first, second] = [newKey(), newKey()]

const withKeys = (...secretKeys: SecretKey[]) => ({ ...LOCAL, secretKeys })

/** A node beside the app, on its database, that has these keys. */
const beside = async (app: { databaseUrl: string }, ...keys: SecretKey[]) => {
  const node = await startNode(app.databaseUrl, {
    config: withKeys(...keys),
    push: FAST,
    pollMs: 200,
  })
  let stopped: Promise<unknown> | null = null
  const stop = () => {
    stopped ??= node.stop()
    return stopped
  }
  afterAll(stop)
  return { ...node, url: node.url, databaseUrl: app.databaseUrl, stop }
}

const SECRETS = { token: 'tok-1', authentication: { scheme: 'Bearer', credentials: 'cred-1' } }

const storedOf = (app: Awaited<ReturnType<typeof startPushApp>>, id: string) =>
  app.sql<Record<'token' | 'credentials' | 'secret' | 'previous_secret', string>>(
    'select token, credentials, secret, previous_secret from push_configs where todo_id = $1',
    [id],
  )

const verified = (secret: string, { text, headers }: Told): unknown =>
  new Webhook(secret).verify(text, {
    'webhook-id': String(headers['webhook-id']),
    'webhook-timestamp': String(headers['webhook-timestamp']),
    'webhook-signature': String(headers['webhook-signature']),
  })

test('token, credentials and secret are sealed in the table, and told, shown and signed as they are', async () => {
  const app = await startPushApp({ config: withKeys(first) })
  const operator = operatorOf(app)
  const receiver = await startReceiver()
  const { client, a2a, worker, sendWith, create } = await peopleOf(app, 'sealed')
  const task = await sendWith({ url: `${receiver.url}/inline`, id: 'i', ...SECRETS })
  const shown = await create({ taskId: task.id, url: `${receiver.url}/made`, id: 'm', ...SECRETS })
  const old = { url: `${receiver.url}/old`, id: 'o', token: 'tok-1' }
  await rpc(
    `${app.url}/a2a/sealed`,
    'tasks/pushNotificationConfig/set',
    { taskId: task.id, pushNotificationConfig: old },
    { token: client.token },
  )
  const { secret } = await operator('push.rotateSecret', { todoId: task.id, id: 'm' })
  expect(shown.token).toBe('tok-1')
  const { configs } = (await a2a.call('ListTaskPushNotificationConfigs', { taskId: task.id }))
    .result
  expect(configs.map(({ token }: { token: string }) => token)).toEqual(Array(3).fill('tok-1'))

  const rows = await storedOf(app, task.id)
  expect(rows).toHaveLength(3)
  expect(JSON.stringify(rows)).not.toMatch(/tok-1|cred-1|whsec_/)
  for (const row of rows) {
    for (const kept of Object.values(row).filter(Boolean)) expect(kept).toContain(`🔒${first.id}.`)
  }
  const todo = await worker.claim()
  await worker.call('todos.complete', todo.held)
  for (const path of ['/inline', '/made']) {
    const [told] = await receiver.came(path, 2)
    expect(told?.headers.authorization).toBe('Bearer cred-1')
    expect(told?.headers['x-a2a-notification-token']).toBe('tok-1')
  }
  verified(secret, (await receiver.came('/made', 2))[0]!)
  expect((await receiver.came('/old', 2))[0]?.headers['x-a2a-notification-token']).toBe('tok-1')
})

/** A task with one config, made by a node of these keys, which is stopped then; and who works on it. */
const madeBy = async (keys: SecretKey[], path: string) => {
  const app = await startPushApp({ config: withKeys(...keys) })
  const { client, agent } = await app.queue('desk', { contexts: 'parallel' })
  const receiver = await startReceiver()
  const url = `${receiver.url}${path}`
  const { result } = await a2aClient(app.url, 'desk', client.token).send(
    'x',
    {},
    { returnImmediately: true, taskPushNotificationConfig: { url, id: 'c', ...SECRETS } },
  )
  const { id } = result.task as { id: string }
  await app.stop()
  return {
    app,
    id,
    receiver,
    told: () => receiver.came(path, 1).then(([told]) => told!.headers),
    on: (node: { url: string }) => ({
      a2a: a2aClient(node.url, 'desk', client.token),
      worker: agentClient(node.url, agent.token),
    }),
  }
}

const TOLD = { authorization: 'Bearer cred-1', 'x-a2a-notification-token': 'tok-1' }

test('rows from before there was a key are shown and told by a node that has one', async () => {
  const made = await madeBy([], '/plain')
  expect(await storedOf(made.app, made.id)).toMatchObject([
    { token: 'tok-1', credentials: 'cred-1', secret: expect.stringMatching(/^whsec_/) },
  ])
  const node = await beside(made.app, first)
  const { a2a, worker } = made.on(node)
  const { result } = await a2a.call('GetTaskPushNotificationConfig', { taskId: made.id, id: 'c' })
  expect(result.token).toBe('tok-1')
  await worker.claim()
  expect(await made.told()).toMatchObject(TOLD)
  await node.stop()
})

test('after a rotation the old rows are read, and new ones sealed with the new key', async () => {
  const made = await madeBy([first], '/rotated')
  const node = await beside(made.app, second, first)
  const { a2a, worker } = made.on(node)
  const config = { taskId: made.id, id: 'new', url: `${made.receiver.url}/new`, ...SECRETS }
  expect((await a2a.call('CreateTaskPushNotificationConfig', config)).result.token).toBe('tok-1')
  const used = (await storedOf(made.app, made.id)).map(({ token }) => token.slice(0, 10))
  expect(used.toSorted()).toEqual([`🔒${first.id}`, `🔒${second.id}`].toSorted())
  await worker.claim()
  expect(await made.told()).toMatchObject(TOLD)
  expect((await made.receiver.came('/new', 1))[0]?.headers).toMatchObject(TOLD)
  await node.stop()
})

test('a node without the key tells and shows nothing of it, and leaves it to one that has it', async () => {
  const made = await madeBy([first], '/left')
  const keyless = await beside(made.app, second)
  const { a2a, worker } = made.on(keyless)
  const { error } = await a2a.call('GetTaskPushNotificationConfig', { taskId: made.id, id: 'c' })
  expect(JSON.stringify(error)).toContain('cannot be read by this node')
  expect(JSON.stringify(error)).not.toContain('🔒')
  await worker.claim()
  const tried = await until(async () => {
    const [row] = await made.app.sql<{ state: string; reason: string; attempts: number }>(
      'select state, reason, attempts from deliveries where todo_id = $1 and attempts > 0',
      [made.id],
    )
    return row
  })
  expect(tried).toMatchObject({
    state: 'pending',
    reason: `its secrets are sealed with key ${first.id}, which this node does not have`,
  })
  expect(made.receiver.told).toEqual([])
  await keyless.stop()
  await beside(made.app, first)
  expect(await made.told()).toMatchObject(TOLD)
})

test('a sealed text is that member of that config only, and not to be changed', () => {
  const { seal, open } = createSealing([first])
  const sealed = seal('täglich 🦜', 'c', 'token')
  expect(open(sealed, 'c', 'token')).toBe('täglich 🦜')
  expect(seal('x', 'c', 'token')).not.toBe(seal('x', 'c', 'token'))
  const [head = '', body = ''] = sealed.split('.')
  const bytes = Buffer.from(body, 'base64url')
  const flipped = Array.from(bytes, (_, at) => {
    const copy = Buffer.from(bytes)
    copy[at]! ^= 1
    return `${head}.${copy.toString('base64url')}`
  })
  for (const wrong of [...flipped, head, `${head}.`, `${head}.AAAA`]) {
    expect(() => open(wrong, 'c', 'token')).toThrow(Unreadable)
  }
  expect(() => open(sealed, 'd', 'token')).toThrow(Unreadable)
  expect(() => open(sealed, 'c', 'credentials')).toThrow(Unreadable)
  expect(() => createSealing([second]).open(sealed, 'c', 'token')).toThrow(/key [0-9a-f]{8}/)
  expect(() => createSealing([]).open(sealed, 'c', 'token')).toThrow(Unreadable)
  expect(createSealing([]).seal('plain', 'c', 'token')).toBe('plain')
  expect(open('plain', 'c', 'token')).toBe('plain')
})
