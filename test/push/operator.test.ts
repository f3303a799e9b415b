// What operators see of webhooks, and what nobody sees.
// Field cases: secrets are written and not read; log levels; what an operator can see.
import { Writable } from 'node:stream'
import pino from 'pino'
import { expect, test } from 'vitest'
import type { Log } from '../../src/base/log.ts'
import { runCli } from '../cli/run.ts'
import { ADMIN_TOKEN } from '../support/app.ts'
import { startReceiver } from '../support/network/receiver.ts'
import { until } from '../support/until.ts'
import { FAST, operatorOf, peopleOf, startPushApp } from './support.ts'

const lines: string[] = []
const log = pino(
  { level: 'debug' },
  new Writable({
    write: (chunk, _encoding, done) => {
      lines.push(String(chunk))
      done()
    },
  }),
) as unknown as Log
const app = await startPushApp({ log, push: { ...FAST, maxAttempts: 2 } })
const operator = operatorOf(app)
const cli = (...args: string[]) =>
  runCli(args, { env: { SWITCHBOARD_URL: app.url, SWITCHBOARD_TOKEN: ADMIN_TOKEN } })

test('a dead delivery is seen with its reason, is tried again on demand, and its secrets are seen nowhere', async () => {
  let fails = true
  const receiver = await startReceiver(() => (fails ? 500 : 200))
  const { a2a, worker, create } = await peopleOf(app, 'watched')
  const task = await a2a.submit('x')
  const config = await create({
    taskId: task.id,
    url: `${receiver.url}/w?key=qu3ry-secret`,
    token: 'tok-secret',
    authentication: { scheme: 'Bearer', credentials: 'cred-secret' },
  })
  const todo = await worker.claim()
  const dead = await until(async () => {
    const { deliveries } = await operator('deliveries.list', { todoId: task.id, state: 'dead' })
    return deliveries[0]
  })
  expect(dead).toMatchObject({
    todoId: task.id,
    configId: config.id,
    queue: 'watched',
    url: `${receiver.url}/w?key=***`,
    state: 'dead',
    attempts: 2,
    status: 500,
    reason: 'answered 500; gave up after 2 attempts',
    nextAttemptAt: null,
  })
  const table = await cli('deliveries', '--task', task.id, '--state', 'dead')
  expect(table).toMatchObject({ code: 0 })
  expect(table.stdout).toContain(dead.id)
  expect(table.stdout).toContain('answered 500')
  const json = await cli('deliveries', '--json')
  expect(JSON.parse(json.stdout).deliveries[0].id).toBe(dead.id)

  fails = false
  const retried = await cli('redeliver', dead.id)
  expect(retried).toMatchObject({ code: 0, stdout: `delivery ${dead.id} is pending\n` })
  await receiver.came('/w?key=qu3ry-secret', 3)
  await until(async () => {
    const { deliveries } = await operator('deliveries.list', { todoId: task.id })
    return deliveries[0].state === 'delivered'
  })
  await expect(operator('deliveries.retry', { id: dead.id })).rejects.toMatchObject({
    error: { code: -32010, data: { reason: 'wrong_state', state: 'delivered' } },
  })
  await expect(operator('deliveries.retry', { id: task.id })).rejects.toMatchObject({
    error: { code: -32012 },
  })
  const rotated = await cli('rotate-secret', task.id, config.id, '--json')
  expect(JSON.parse(rotated.stdout).secret).toMatch(/^whsec_/)

  await worker.call('todos.complete', todo.held)
  const metrics = await (await fetch(`${app.url}/metrics`)).text()
  const shown = [
    table.stdout,
    json.stdout,
    metrics,
    JSON.stringify(await operator('todos.show', { id: task.id })),
    JSON.stringify(await operator('deliveries.list', {})),
    lines.join(''),
  ]
  for (const text of shown) expect(text).not.toMatch(/cred-secret|tok-secret|qu3ry-secret|whsec_/)
  expect(
    lines.some((line) => line.includes('a webhook was given up') && line.includes(dead.id)),
  ).toBe(true)
})

test('a dead delivery whose config is gone cannot be tried again', async () => {
  const receiver = await startReceiver(() => 404)
  const { a2a, worker, create } = await peopleOf(app, 'orphaned')
  const task = await a2a.submit('x')
  const config = await create({ taskId: task.id, url: `${receiver.url}/o` })
  await worker.claim()
  const { id } = await until(async () => {
    const { deliveries } = await operator('deliveries.list', { todoId: task.id, state: 'dead' })
    return deliveries[0]
  })
  await a2a.call('DeleteTaskPushNotificationConfig', { taskId: task.id, id: config.id })
  await expect(operator('deliveries.retry', { id })).rejects.toMatchObject({
    error: { data: { reason: 'wrong_state' } },
  })
  const [row] = await app.sql('select state from deliveries where id = $1', [id])
  expect(row).toEqual({ state: 'dead' })
  const { deliveries } = await operator('deliveries.list', { todoId: task.id })
  expect(deliveries).toMatchObject([{ url: null, state: 'dead' }])
})

test('the log is paged, and an endpoint that may watch sees its own queues only', async () => {
  const receiver = await startReceiver()
  const { worker, sendWith } = await peopleOf(app, 'paged')
  await sendWith({ url: `${receiver.url}/p` })
  const todo = await worker.claim()
  for (let n = 0; n < 6; n += 1) {
    await worker.call('todos.say', {
      ...todo.held,
      message: { messageId: `s${n}`, role: 'ROLE_AGENT', parts: [{ text: 'x' }] },
    })
  }
  await receiver.came('/p', 7)
  const seqs: number[] = []
  let pageToken = ''
  do {
    const page = await operator('deliveries.list', {
      todoId: todo.id,
      pageSize: 3,
      ...(pageToken && { pageToken }),
    })
    seqs.push(...page.deliveries.map(({ seq }: { seq: number }) => seq))
    pageToken = page.nextPageToken
  } while (pageToken)
  expect(seqs).toEqual([...seqs].sort((a, b) => b - a))
  expect(seqs).toHaveLength(7)
  await expect(operator('deliveries.list', { pageToken: 'x' })).rejects.toMatchObject({
    error: { code: -32602 },
  })

  const watcher = await app.vend(['watch'], ['paged'])
  const { deliveries } = await operator('deliveries.list', { pageSize: 100 }, watcher.token)
  expect(deliveries).toHaveLength(7)
  for (const method of ['deliveries.retry', 'push.rotateSecret']) {
    const params = method === 'deliveries.retry' ? { id: 'x' } : { todoId: 'x', id: 'y' }
    await expect(operator(method, params, watcher.token)).rejects.toMatchObject({
      error: { code: -32011 },
    })
  }
})

test('how often is tried can be set while everything runs', async () => {
  await operator('settings.set', { key: 'push_max_attempts', value: '1' })
  try {
    await expect(
      operator('settings.set', { key: 'push_timeout_seconds', value: '0' }),
    ).rejects.toMatchObject({ error: { code: -32602 } })
    const receiver = await startReceiver(() => 500)
    const { worker, sendWith } = await peopleOf(app, 'set')
    const task = await sendWith({ url: `${receiver.url}/s` })
    await worker.claim()
    const dead = await until(async () => {
      const { deliveries } = await operator('deliveries.list', { todoId: task.id, state: 'dead' })
      return deliveries[0]
    })
    expect(dead.attempts).toBe(1)
    await operator('deliveries.list', { state: 'delivered' })
    await app.sql('delete from deliveries where id = $1', [dead.id])
  } finally {
    await operator('settings.unset', { key: 'push_max_attempts' })
  }
})

test('metrics count tries by what came of them, and what is pending or dead', async () => {
  const text = await (await fetch(`${app.url}/metrics`)).text()
  const value = (name: string): number =>
    Number(
      text
        .split('\n')
        .find((line) => line.startsWith(`${name} `))
        ?.split(' ')[1],
    )
  expect(value('switchboard_push_attempts_total{outcome="delivered"}')).toBeGreaterThan(6)
  expect(value('switchboard_push_attempts_total{outcome="later"}')).toBeGreaterThan(0)
  expect(value('switchboard_push_attempts_total{outcome="dead"}')).toBeGreaterThan(0)
  expect(value('switchboard_push_attempts_total{outcome="fenced"}')).toBe(0)
  expect(value('switchboard_push_deliveries{state="dead"}')).toBe(1)
  expect(value('switchboard_push_deliveries{state="pending"}')).toBe(0)
  expect(value('switchboard_push_oldest_pending_seconds')).toBe(0)
  expect(text).toContain('switchboard_push_attempt_seconds_count')
  expect(text).toContain('switchboard_worker_up{worker="courier"} 1')
})

test('what was settled long ago is forgotten, dead ones last', async () => {
  const { purgeDeliveries } = await import('../../src/store/push/delivery-log.ts')
  const { openDatabase } = await import('../../src/store/postgres/database.ts')
  const database = openDatabase({ connectionString: app.databaseUrl, poolSize: 1 })
  try {
    await app.sql(`insert into deliveries (todo_id, config_id, seq, queue, state, settled_at)
      select gen_random_uuid(), 'old', 1, 'q', s, now() - make_interval(days => d)
      from unnest(array['delivered', 'dead']) s cross join unnest(array[1, 8, 31]) d`)
    expect(await purgeDeliveries(database, 1000)).toBe(3)
    const left = await app.sql(`select state, extract(day from now() - settled_at)::int as days
      from deliveries where config_id = 'old' order by state, days`)
    expect(left).toEqual([
      { state: 'dead', days: 1 },
      { state: 'dead', days: 8 },
      { state: 'delivered', days: 1 },
    ])
  } finally {
    await database.close()
  }
})
