// Who gets the slots of a courier, and what is made once for many: a silent receiver of one client, by
// whatever ports and hosts, costs another client one round of tries at most.
// Field cases: a silent tenant costs another one round; a payload is made once an event.
import { afterAll, expect, test } from 'vitest'
import { createLoad } from '../../src/background/courier-load.ts'
import { createPayloads } from '../../src/service/push/payloads.ts'
import { openDatabase } from '../../src/store/postgres/database.ts'
import type { LeasedDelivery } from '../../src/store/push/deliveries.ts'
import { type Receiver, startReceiver } from '../support/network/receiver.ts'
import { until } from '../support/until.ts'
import { peopleOf, startPushApp } from './support.ts'

const repeated = <T>(count: number, of: (n: number) => T): T[] =>
  Array.from({ length: count }, (_, n) => of(n))

/** Slots for eight tries, four of them at one host; a try of a silent one lasts a second. */
const SLOTS = { concurrency: 8, perHost: 4, timeoutMs: 1000 }
const BACKLOG = 60

type People = Awaited<ReturnType<typeof peopleOf>>

/** One webhook for each URL, and all of them due. */
const owe = async ({ worker, sendWith }: People, urls: readonly string[]): Promise<void> => {
  for (const url of urls) await sendWith({ url })
  for (let claimed = 0; claimed < urls.length; ) {
    const { todos } = await worker.call('todos.claim', { limit: 50, waitMs: 25_000 })
    claimed += todos.length
  }
}

const toldOf = (receivers: readonly Receiver[]): number =>
  receivers.reduce((sum, { told }) => sum + told.length, 0)

test('a client with silent receivers on many hosts holds all slots while alone, and another one for a round only', async () => {
  const app = await startPushApp({ push: { ...SLOTS, maxAttempts: 1 } })
  const silent = await Promise.all(
    repeated(6, (n) => startReceiver(() => 'hang', `127.0.0.${n + 10}`)),
  )
  const healthy = await startReceiver(() => 200, '127.0.0.9')
  const [greedy, modest] = [await peopleOf(app, 'greedy'), await peopleOf(app, 'modest')]
  await owe(
    greedy,
    repeated(BACKLOG, (n) => `${silent[n % silent.length]!.url}/${n}`),
  )
  await until(() => toldOf(silent) >= SLOTS.concurrency)
  const before = toldOf(silent)
  await owe(modest, [`${healthy.url}/h`])
  await healthy.came('/h', 1)
  // Those that were under way ended, and perhaps one more came in beside.
  expect(toldOf(silent) - before).toBeLessThanOrEqual(2 * SLOTS.concurrency)
  expect(toldOf(silent)).toBeLessThan(BACKLOG)
  await app.stop()
})

test('also at one and the same host: the slots of a host go round over those who call it', async () => {
  const app = await startPushApp({ push: { ...SLOTS, maxAttempts: 1 } })
  const shared = await startReceiver(({ path }) => (path.startsWith('/hook/') ? 'hang' : 200))
  const [greedy, modest] = [await peopleOf(app, 'greedy'), await peopleOf(app, 'modest')]
  await owe(
    greedy,
    repeated(BACKLOG / 2, (n) => `${shared.url}/hook/${n}`),
  )
  await until(() => shared.told.length >= SLOTS.perHost)
  const before = shared.told.length
  await owe(modest, [`${shared.url}/h`])
  await shared.came('/h', 1)
  expect(shared.told.length - before).toBeLessThanOrEqual(2 * SLOTS.perHost + 1)
  await app.stop()
})

test('many ports of one address are one host', async () => {
  const app = await startPushApp({
    push: { ...SLOTS, timeoutMs: 60_000, maxAttempts: 1 },
    drainMs: 500,
  })
  const silent = await Promise.all(repeated(8, () => startReceiver(() => 'hang')))
  const other = await startReceiver(() => 200, '127.0.0.2')
  const people = await peopleOf(app, 'ports')
  const urls = silent.map(({ url }) => `${url}/p`)
  await owe(people, [...urls, `${other.url}/o`])
  // What comes after them is told while they are silent, and so is at once more than four of them not.
  await other.came('/o', 1)
  await until(() => toldOf(silent) === SLOTS.perHost)
  const hosts = await app.sql('select distinct host from push_configs order by host')
  expect(hosts).toEqual([{ host: '127.0.0.1' }, { host: '127.0.0.2' }])
  await app.sql(`update push_configs set host = '127.0.0.1:' || (random() * 60000)::int
    where host = '127.0.0.1'`)
  // The same where a node of a version before has kept the port.
  await owe(people, [`${silent[0]!.url}/again`, `${other.url}/again`])
  await other.came('/again', 1)
  expect(toldOf(silent)).toBe(SLOTS.perHost)
  await app.stop()
})

test('a share is even over those who have something under way and one more, and never none', () => {
  const load = createLoad({ concurrency: 12, perHost: 6 })
  const begin = (endpoint: string, host: string, times: number) => {
    for (let n = 0; n < times; n += 1) load.begin({ endpoint, host })
  }
  begin('a', 'h1', 5)
  expect(load.asked(true)).toMatchObject({ share: 6, crowded: { endpoints: [], pairs: ['h1 a'] } })
  begin('a', 'h2', 1)
  expect(load.asked(true).crowded.endpoints).toEqual(['a'])
  expect(load.asked(false)).toMatchObject({ share: 12, crowded: { endpoints: [], pairs: [] } })
  begin('b', 'h1', 1)
  begin('c', 'h1', 1)
  expect(load.asked(true)).toMatchObject({ share: 3, crowded: { endpoints: ['a'] } })
  for (let n = 0; n < 20; n += 1) begin(`e${n}`, `host ${n}`, 1)
  expect(load.asked(true).share).toBe(1)
  for (let n = 0; n < 20; n += 1) load.end({ endpoint: `e${n}`, host: `host ${n}` })
  for (const host of ['h1', 'h1', 'h1', 'h1', 'h1', 'h2']) load.end({ endpoint: 'a', host })
  for (const endpoint of ['b', 'c']) load.end({ endpoint, host: 'h1' })
  const { busy, crowded } = load.asked(true)
  expect([busy.size, crowded.counts.size, crowded.pairs]).toEqual([0, 0, []])
})

test('a payload is made once for an event and a version, for however many webhooks and tries', async () => {
  const app = await startPushApp({ pollMs: 100_000 })
  const { a2a, worker } = await peopleOf(app, 'made')
  const task = await a2a.submit('x')
  const todo = await worker.claim()
  await worker.call('todos.complete', todo.held)
  const database = openDatabase({ connectionString: app.databaseUrl, poolSize: 2 })
  afterAll(() => database.close())
  const made: string[] = []
  const maker = (dialect: string) => (told: { event: { seq: number } }) => {
    made.push(`${dialect} ${told.event.seq}`)
    return { contentType: 'x', body: `${dialect} ${told.event.seq}` }
  }
  const payloads = createPayloads({ database }, { '1.0': maker('1.0'), '0.3': maker('0.3') })
  const delivery = (configId: string, seq: number, dialect: '1.0' | '0.3') =>
    ({ todoId: task.id, configId, seq, dialect }) as LeasedDelivery
  const asked = [
    ...repeated(5, (n) => delivery(`c${n}`, 2, '0.3')),
    delivery('d', 3, '0.3'),
    delivery('e', 2, '1.0'),
    delivery('gone', 99, '1.0'),
  ]
  for (let tries = 0; tries < 3; tries += 1) {
    const bodies = (await payloads.of(asked)).map((payload) => payload?.body ?? null)
    expect(bodies).toEqual([...Array(5).fill('0.3 2'), '0.3 3', '1.0 2', null])
  }
  expect(made.toSorted()).toEqual(['0.3 2', '0.3 3', '1.0 2'])
})
