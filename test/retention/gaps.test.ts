// Cursors into what the retention has deleted: told of, on each surface, and never over nothing.
import { expect, test } from 'vitest'
import { startApp } from '../support/app.ts'
import {
  type Answer,
  a2aClient,
  agentClient,
  type Frame,
  openStream,
} from '../support/clients/actors.ts'
import { openBoard } from '../support/steps.ts'
import { until } from '../support/until.ts'
import { makeAged } from './aged.ts'

const app = await startApp({ tidyMs: 3_600_000, pollMs: 100 })
const { sql } = app
const lines = {
  short: await app.queue('short', { contexts: 'parallel', retentionDays: 30 }),
  kept: await app.queue('kept', { contexts: 'parallel' }),
}
type Queue = keyof typeof lines

const a2a = (queue: Queue) => a2aClient(app.url, queue, lines[queue].client.token)
const worker = (queue: Queue) => agentClient(app.url, lines[queue].agent.token)

const finish = async (queue: Queue): Promise<string> => {
  const { id } = await a2a(queue).submit('x')
  await worker(queue).call('todos.complete', (await worker(queue).claim()).held)
  return id
}

const placed = async (id: string): Promise<number[]> => {
  await until(async () => {
    const [row] = await sql<{ left: number }>(
      'select count(*)::int as left from events where position is null',
    )
    return row!.left === 0
  })
  const rows = await sql<{ position: string }>(
    'select position from events where todo_id = $1 order by position',
    [id],
  )
  return rows.map(({ position }) => Number(position))
}

const age = async (...ids: string[]) => {
  // What the feed has not told is not deleted.
  await placed(ids[0]!)
  await sql(
    `update todos set finished_at = now() - interval '40 days' where id = any($1::uuid[])`,
    [ids],
  )
}

const tidy = async () => {
  while ((await app.sweep.tidy()) === 'more');
}

/** What a board shows from a cursor on, up to a todo's last event. */
const shown = async (query: string, last: number): Promise<Frame[]> => {
  const board = await openBoard(app, query)
  const frames = await board.until(({ id }) => Number(id) >= last)
  board.close()
  return frames
}

const gapsIn = (frames: Frame[]): Answer[] =>
  frames.filter(({ event }) => event === 'gap').map(({ json }) => json)

test('what was deleted between events that are kept is a gap to a cursor before it, and to no other', async () => {
  const first = await finish('kept')
  const [start] = await placed(first)
  const old = await finish('short')
  const lost = await placed(old)
  const end = lost.at(-1)!
  const open = await a2a('short').submit('goes on')
  const last = await finish('kept')
  const [, , done] = await placed(last)
  await age(old)
  await tidy()
  expect((await a2a('short').call('GetTask', { id: old })).error.code).toBe(-32001)

  const frames = await shown(`after=${start}`, done!)
  expect(gapsIn(frames)).toEqual([{ oldest: end + 2 }])
  expect(frames[0]!.event).toBe('gap')
  const ids = new Set(frames.map(({ json }) => json.id))
  // What is kept before the gap's end is told all the same.
  expect(ids).toContain(first)
  expect(ids).toContain(open.id)
  expect(ids).not.toContain(old)
  // A cursor right behind what was deleted has missed nothing, nor has a reader of another queue.
  expect(gapsIn(await shown(`after=${end}`, done!))).toEqual([])
  expect(gapsIn(await shown(`after=${end + 1}`, done!))).toEqual([])
  expect(gapsIn(await shown(`after=${start}&queue=kept`, done!))).toEqual([])
  expect(gapsIn(await shown(`after=0&queue=kept`, done!))).toEqual([])
  expect(gapsIn(await shown(`after=0&queue=short,kept`, done!))).toEqual([{ oldest: end + 2 }])
  await worker('short').call('todos.complete', (await worker('short').claim()).held)
})

test('an agent that comes back before what was deleted is told of the gap', async () => {
  const old = await finish('short')
  const [start] = await placed(old)
  await age(old)
  await tidy()
  const open = (after: number) =>
    openStream(`${app.url}/agent/events?queues=short`, {
      token: lines.short.agent.token,
      headers: { 'Last-Event-ID': String(after) },
    })
  const early = await open(start!)
  expect((await early.next())!.event).toBe('gap')
  early.close()
  const { id } = await a2a('short').submit('next')
  const [ready] = await placed(id)
  const late = await open(ready! - 2)
  expect((await late.next())!.event).toBe('ready')
  late.close()
  await worker('short').call('todos.complete', (await worker('short').claim()).held)
})

test('events that are deleted while a reader is on its way to them are a gap where they were', async () => {
  const old = await makeAged(sql, { queue: 'short', count: 400 })
  const parent = await a2a('kept').submit('stays')
  const tail = await placed(parent.id)
  const { position: start } = (
    await sql<{ position: string }>(
      'select min(position) as position from events where todo_id = $1',
      [old[0]],
    )
  )[0]!
  const { watch } = app.services
  const stop = new AbortController()
  const feed = await watch.feed(Number(start), null, stop.signal)
  const items: Answer[] = []
  for await (const item of feed.events) {
    items.push(item)
    // It has read one page, of 200.
    if (items.length === 1) await tidy()
    if (!('gap' in item) && item.position >= tail.at(-1)!) break
  }
  stop.abort()
  await a2a('kept').call('CancelTask', { id: parent.id })
  const gaps = items.filter((item) => 'gap' in item)
  expect(gaps).toHaveLength(1)
  expect(gaps[0].oldest).toBeLessThanOrEqual(tail[0]!)
  expect(items.findIndex((item) => 'gap' in item)).toBe(200)
})

test('where everything was deleted the feed goes on behind it', async () => {
  const [{ before }] = (await sql<{ before: string }>(
    'select max(position) as before from events',
  )) as [{ before: string }]
  const [late] = await makeAged(sql, { queue: 'short', count: 1 })
  const [row] = await sql<{ newest: string }>(
    'select max(position) as newest from events where todo_id = $1',
    [late],
  )
  await tidy()
  const [{ after }] = (await sql<{ after: string }>(
    'select max(position) as after from events',
  )) as [{ after: string }]
  expect(after).toBe(before)
  const stop = new AbortController()
  const { from } = await app.services.watch.feed('now', null, stop.signal)
  expect(from).toBe(Number(row!.newest) + 1)
  const board = await openBoard(app, `after=${from}`)
  const next = await finish('kept')
  const seen = await board.until(({ json }) => json?.to === 'done')
  expect(seen.map(({ json }) => json.id)).toEqual(Array(seen.length).fill(next))
  expect(gapsIn(seen)).toEqual([])
  board.close()
})

test('whoever resumes the stream of a deleted task finds none, in each version', async () => {
  const id = await finish('short')
  const headers = { 'Last-Event-ID': '1' }
  await age(id)
  await tidy()
  const stream = await a2a('short').stream('SubscribeToTask', { id }, { headers })
  expect(stream.body.error.code).toBe(-32001)
  const old = await a2a('short').stream(
    'tasks/resubscribe',
    { id },
    { headers: { ...headers, 'A2A-Version': '0.3' } },
  )
  expect(old.body.error.code).toBe(-32001)
})

test('a stream whose task is deleted before its end was told ends with that, and does not hang', async () => {
  const id = await finish('short')
  const { watch } = app.services
  await age(id)
  // As a reader that was slow: it followed before, and reads on after.
  const following = watch.follow(id, 1, new AbortController().signal)[Symbol.asyncIterator]()
  await tidy()
  await expect(following.next()).rejects.toMatchObject({ kind: 'not_found' })
})
