// The feed for programs: snapshot, filters, one reading for many readers; and in process the same.
import { expect, test } from 'vitest'
import type { Facts } from '../../src/app.ts'
import { ADMIN_TOKEN, startApp, startNode } from '../support/app.ts'
import { a2aClient, agentClient, type Frame, openStream } from '../support/clients/actors.ts'
import { ask, openBoard } from '../support/steps.ts'
import { until } from '../support/until.ts'

const app = await startApp({ pollMs: 60_000 })
const desk = await app.queue('desk', { contexts: 'parallel' })
const shop = await app.queue('shop', { contexts: 'parallel' })
const a2a = a2aClient(app.url, 'desk', desk.client.token)
const worker = agentClient(app.url, desk.agent.token)

const plain = ({ id, event, json }: Frame) => ({ id, event, json })

test('a reader that names no cursor is given what is there and an id to go on from, then what happens', async () => {
  const open = await a2a.submit('was there before')
  const board = await openStream(`${app.url}/board/events?queue=desk`, { token: ADMIN_TOKEN })
  const snapshot = (await board.next())!
  expect([snapshot.id, snapshot.event]).toEqual([String(snapshot.json.position), 'snapshot'])
  expect(snapshot.json.lanes.waiting).toMatchObject({
    total: 1,
    todos: [{ id: open.id, title: 'was there before', phase: 'waiting', seq: 1 }],
  })
  expect(Object.keys(snapshot.json.lanes)).toEqual(['waiting', 'held', 'interrupted', 'ended'])
  const todo = await worker.claim()
  // On a slow machine the snapshot is older than the place of the first event, which follows then.
  const followed = await board.until(({ json }) => json.to === 'claimed')
  const claimed = followed.at(-1)!
  expect(Number(snapshot.id)).toBeLessThan(Number(followed[0]!.id))
  expect(claimed.json).toMatchObject({ id: open.id, to: 'claimed' })
  board.close()
  // Going on after a cursor is exact, and takes no snapshot.
  const resumed = await openStream(`${app.url}/board/events?queue=desk`, {
    token: ADMIN_TOKEN,
    headers: { 'Last-Event-ID': snapshot.id! },
  })
  const again = await resumed.until(({ json }) => json.to === 'claimed')
  expect(again.map(plain)).toEqual(followed.map(plain))
  resumed.close()
  const bare = await openBoard(app, 'queue=desk&snapshot=none')
  await worker.call('todos.complete', todo.held)
  expect((await bare.next())!.json).toMatchObject({ id: open.id, to: 'done' })
  bare.close()
  expect((await openBoard(app, 'snapshot=please')).status).toBe(400)
})

test('the snapshot and what follows leave no hole, while everything moves', async () => {
  let stop = false
  const noise = (async () => {
    for (let i = 0; !stop; i += 1) {
      await a2a.submit(`moving ${i}`)
      if (i % 2) await worker.call('todos.complete', (await worker.claim()).held)
    }
  })()
  /** A board made of the snapshot and the events after it. */
  const watched = await openBoard(app, 'queue=desk')
  const states = new Map<string, { seq: number; state: string }>()
  const first = (await watched.next())!
  for (const { todos } of Object.values<{ todos: { id: string; seq: number; state: string }[] }>(
    first.json.lanes,
  )) {
    for (const { id, seq, state } of todos) states.set(id, { seq, state })
  }
  const total = first.json.lanes.waiting.total
  for (let frames = 0; frames < 150; frames += 1) {
    const { event, json } = (await watched.next())!
    if (event !== 'transition') continue
    const known = states.get(json.id)
    if (!known || known.seq < json.seq) states.set(json.id, { seq: json.seq, state: json.to })
  }
  stop = true
  await noise
  const marker = await a2a.submit('the last one')
  for (;;) {
    const { event, json } = (await watched.next())!
    if (event === 'transition') {
      const known = states.get(json.id)
      if (!known || known.seq < json.seq) states.set(json.id, { seq: json.seq, state: json.to })
      if (json.id === marker.id) break
    }
  }
  watched.close()
  expect(total).toBeLessThanOrEqual(50)
  const rows = await app.sql<{ id: string; state: string }>(
    `select id, state from todos where queue = 'desk' and state in ('pending', 'claimed')`,
  )
  const live = [...states].filter(([, { state }]) => ['pending', 'claimed'].includes(state))
  expect(new Map(live.map(([id, { state }]) => [id, state]))).toEqual(
    new Map(rows.map(({ id, state }) => [id, state])),
  )
  for (const { id } of rows) await a2a.call('CancelTask', { id })
})

test('a feed can be narrowed to states and to a conversation', async () => {
  const one = await a2a.submit('one')
  const todo = await worker.claim()
  const two = await a2a.submit('two')
  await ask(worker, todo, 'which?')
  await a2a.submit('this', { taskId: one.id })
  await worker.call('todos.complete', { ...todo.held, acknowledge: 1000 })
  const last = await a2a.submit('last')
  const read = async (query: string, end: (frame: Frame) => boolean) => {
    const board = await openBoard(app, `after=0&queue=desk&${query}`)
    const frames = await board.until(end)
    board.close()
    return frames.filter(({ json }) => [one.id, two.id, last.id].includes(json.id))
  }
  // What enters the state, and what leaves it.
  const asking = await read('state=input-required', ({ json }) => json.from === 'input-required')
  expect(asking.map(({ json }) => [json.from, json.to])).toEqual([
    ['claimed', 'input-required'],
    ['input-required', 'claimed'],
  ])
  const ready = await read('state=pending,done', ({ json }) => json.id === last.id && json.reason)
  expect(ready.map(({ event, json }) => [event, json.to ?? json.reason])).toEqual([
    ['transition', 'pending'],
    ['ready', 'created'],
    ['transition', 'claimed'],
    ['transition', 'pending'],
    ['ready', 'created'],
    ['transition', 'done'],
    ['transition', 'pending'],
    ['ready', 'created'],
  ])
  const context = await read(
    `context=${two.contextId}`,
    ({ json }) => json.id === two.id && json.reason,
  )
  expect(new Set(context.map(({ json }) => json.id))).toEqual(new Set([two.id]))
  const board = await openBoard(app, `state=input-required&queue=desk`)
  const { lanes } = (await board.next())!.json
  expect([lanes.waiting.total, lanes.interrupted.total]).toEqual([0, 0])
  board.close()
  expect((await openBoard(app, 'state=asleep')).status).toBe(400)
  for (const { id } of [two, last]) await a2a.call('CancelTask', { id })
})

test('two hundred readers cost one reading of the database, and read the same bytes', async () => {
  const readers = await Promise.all(Array.from({ length: 200 }, () => openBoard(app, 'queue=shop')))
  for (const reader of readers) {
    expect((await reader.next())!.event).toBe('snapshot')
  }
  const calls = async () =>
    (
      await app.sql<{ calls: number }>(
        `select coalesce(sum(idx_scan), 0)::int as calls from pg_stat_user_indexes
         where indexrelname = 'events_position'`,
      )
    )[0]!.calls
  const before = await calls()
  const { id } = await a2aClient(app.url, 'shop', shop.client.token).submit('for all')
  const frames = await Promise.all(
    readers.map((reader) => reader.until(({ event }) => event === 'ready')),
  )
  const [first] = frames
  for (const each of frames) expect(each.map(plain)).toEqual(first!.map(plain))
  // Statistics come late; far fewer than one for each reader they are at any moment.
  expect((await calls()) - before).toBeLessThan(50)
  for (const reader of readers) reader.close()
  await a2aClient(app.url, 'shop', shop.client.token).call('CancelTask', { id })
})

/** Everything a handler was told, until it was told of this. */
const createLog = <Kind extends keyof Facts>() => {
  const facts: Facts[Kind][] = []
  return { facts, take: (fact: Facts[Kind]) => void facts.push(fact) }
}

test('in process a handler is told the same as the feed tells, after the commit, from any node', async () => {
  const other = await startNode(app.databaseUrl, { pollMs: 60_000 })
  const transitions = createLog<'transition'>()
  const readies = createLog<'ready'>()
  const seen: boolean[] = []
  const hooks = [
    app.on('transition', transitions.take),
    app.on('ready', readies.take),
    app.on('transition', async ({ id, to }) => {
      // What it is told of can be read, by anybody.
      const rows = await app.sql('select from todos where id = $1', [id])
      seen.push(rows.length === 1 && to !== null)
    }),
  ]
  await Promise.all(hooks.map(({ opened }) => opened))
  const board = await openBoard(app, '')
  const cursor = Number((await board.next())!.id)
  const far = a2aClient(other.url, 'desk', desk.client.token)
  const { id } = await far.submit('hook me')
  await far.call('CancelTask', { id })
  const frames = await board.until(({ json }) => json.id === id && json.to === 'canceled')
  await until(() => transitions.facts.at(-1)?.to === 'canceled')
  const told = (event: string) =>
    frames.filter((frame) => frame.event === event).map(({ json }) => json)
  expect(transitions.facts.filter(({ position }) => position > cursor)).toEqual(told('transition'))
  await until(() => readies.facts.at(-1)?.id === id)
  expect(readies.facts.filter(({ position }) => position > cursor)).toEqual(told('ready'))
  await until(() => seen.length >= 2)
  expect(seen.every(Boolean)).toBe(true)
  board.close()

  // Off is off; and a cursor brings what came meanwhile.
  for (const hook of hooks) hook.off()
  const mark = transitions.facts.at(-1)!.position
  const count = transitions.facts.length
  const next = await a2a.submit('while off')
  await a2a.call('CancelTask', { id: next.id })
  const again = createLog<'transition'>()
  const resumed = other.on('transition', again.take, { after: mark })
  await until(() => again.facts.at(-1)?.to === 'canceled')
  expect(again.facts.map(({ id, to }) => [id, to])).toEqual([
    [next.id, 'pending'],
    [next.id, 'canceled'],
  ])
  expect(transitions.facts).toHaveLength(count)
  resumed.off()
  await other.stop()
})

test('a handler that throws, or never ends, harms nobody', async () => {
  const facts = createLog<'transition'>()
  const failing = app.on('transition', () => {
    throw new Error('thrown by a handler')
  })
  const rejecting = app.on('transition', () => Promise.reject(new Error('rejected by a handler')))
  const stuck = app.on('transition', () => new Promise(() => undefined))
  const fine = app.on('transition', facts.take)
  await Promise.all([failing, rejecting, stuck, fine].map(({ opened }) => opened))
  const ids: string[] = []
  for (let i = 0; i < 3; i += 1) {
    const { id } = await a2a.submit(`careful ${i}`)
    await a2a.call('CancelTask', { id })
    ids.push(id)
  }
  const mine = () => facts.facts.filter(({ id }) => ids.includes(id))
  await until(() => mine().length >= 6)
  expect(mine().map(({ to }) => to)).toEqual(
    Array.from({ length: 3 }, () => ['pending', 'canceled']).flat(),
  )
  for (const hook of [failing, rejecting, stuck, fine]) hook.off()
})

test('a handler that was added before the start is told of everything after it', async () => {
  const facts = createLog<'ready'>()
  const node = await startNode(app.databaseUrl)
  const early = node.on('ready', facts.take)
  await early.opened
  const { id } = await a2aClient(node.url, 'desk', desk.client.token).submit('early')
  await until(() => facts.facts.some((fact) => fact.id === id))
  await a2a.call('CancelTask', { id })
  await node.stop()
})
