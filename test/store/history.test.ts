/** What a list reads of the todos, beside a history that is long: what is on its page, about. */
import { randomUUID } from 'node:crypto'
import { beforeAll, expect, test } from 'vitest'
import { EVERYTHING, type Scope } from '../../src/domain/endpoint.ts'
import { STATE_NAMES } from '../../src/domain/lifecycle.ts'
import type { TodoFilter } from '../../src/domain/todo.ts'
import type { Session } from '../../src/store/postgres/database.ts'
import { countTodos } from '../../src/store/todos/counts.ts'
import { sequenceEvents } from '../../src/store/todos/events.ts'
import { listTodos } from '../../src/store/todos/list.ts'
import { openStore } from '../support/database/store.ts'

const { database, add } = await openStore(2)
const CLIENT = randomUUID()
const HISTORY = 20_000
const EACH = 5

/** Rows and entries of indexes of the todos and their events that some work reads. */
const reading = <T>(work: (session: Session) => Promise<T>): Promise<{ read: number; done: T }> =>
  database.transaction(async (session) => {
    const readSoFar = async (): Promise<number> => {
      const [row] = await session.query<{ read: number }>(
        `select sum(pg_stat_get_xact_tuples_returned(r))::int as read from (
          select indexrelid as r from pg_index
            where indrelid in ('todos'::regclass, 'events'::regclass)
          union all values ('todos'::regclass::oid), ('events'::regclass)) r`,
        [],
      )
      return row!.read
    }
    const before = await readSoFar()
    const done = await work(session)
    return { read: (await readSoFar()) - before, done }
  })

const readBy = async (asked: Partial<TodoFilter>, scope: Scope) => {
  const page = { pageSize: 10, includeArtifacts: false }
  const { read, done } = await reading((session) =>
    listTodos(session, { ...page, ...asked }, scope),
  )
  return { read, listed: done.todos.length, totalSize: done.totalSize }
}

beforeAll(async () => {
  await database.query(
    `insert into todos (id, queue, context_id, client_id, state, max_attempts, finished_at)
    select gen_random_uuid(), 'q', 'c', $1, 'done', 5, now() from generate_series(1, $2::int)`,
    [CLIENT, HISTORY],
  )
  // All of them older than the history.
  await database.query(
    `insert into todos (id, queue, context_id, client_id, state, max_attempts, owner, fence, attempt,
      lease_expires_at, due_at, interrupted_at, next_retry_at, finished_at, status_at)
    select gen_random_uuid(), 'q', 'c', $1, s.state::todo_state, 5,
      case when s.state = 'claimed' then gen_random_uuid() end, 1, 1,
      case when s.state = 'claimed' then now() + interval '1 hour' end,
      case when s.state = 'pending' then now() end,
      case when s.state in ('input-required', 'auth-required') then now() end,
      case when s.retrying then now() end,
      case when s.state in ('canceled', 'rejected') or s.state = 'failed' and not s.retrying then now() end,
      now() - interval '1 day'
    from (select unnest($2::text[]) as state, false as retrying union all select 'failed', true) s
      cross join generate_series(1, ${EACH})`,
    [CLIENT, STATE_NAMES.filter((state) => state !== 'done')],
  )
  await database.query(
    `insert into events (todo_id, seq, position, queue, context_id, verb, to_state, attempt, fence, at)
    select id, 1, nextval('feed_position'), queue, context_id, 'send', state, 0, 0, now() from todos`,
    [],
  )
  await database.query('select recount_todos()', [])
  await database.query('vacuum analyze todos, events', [])
})

const scopes: Record<string, Scope> = {
  'a client': { kind: 'client', clientId: CLIENT, queue: 'q' },
  'an endpoint': { kind: 'queues', queues: ['q', 'r'] },
  'the operator': EVERYTHING,
}
/** As ListTasks and the operator ask for them. */
const FEW: readonly (Partial<TodoFilter> & { there?: number })[] = [
  { states: ['pending', 'failed'], retrying: 'only', joining: 'never', there: 2 * EACH },
  { states: ['claimed', 'pending'], joining: 'only' },
  { states: ['input-required'] },
  { states: ['auth-required'] },
  { states: ['failed'], retrying: 'never' },
  { states: ['canceled'] },
  { states: ['rejected'] },
]

for (const [who, scope] of Object.entries(scopes)) {
  test(`${who} lists the few of a state, and how many they are, without a walk through the history`, async () => {
    for (const { there = EACH, ...asked } of FEW) {
      const { read, ...found } = await readBy(asked, scope)
      expect({ asked, ...found }).toEqual({ asked, listed: there, totalSize: there })
      expect({ asked, walked: read > 300 && read }).toEqual({ asked, walked: false })
    }
  })

  test(`${who} lists the newest, and how many there are, by reading a page`, async () => {
    for (const asked of [{}, { states: ['done'] }] satisfies Partial<TodoFilter>[]) {
      const { read, listed, totalSize } = await readBy(asked, scope)
      expect({ asked, listed, totalSize }).toEqual({
        asked,
        listed: 10,
        totalSize: HISTORY + (asked.states ? 0 : STATE_NAMES.length * EACH),
      })
      expect({ asked, walked: read > 300 && read }).toEqual({ asked, walked: false })
    }
  })
}

test('a total that only a walk through the history would tell is counted to 10,000', async () => {
  for (const scope of Object.values(scopes)) {
    for (const asked of [{ contextId: 'c' }, { statusAfter: new Date(0) }]) {
      const { read, ...found } = await readBy(asked, scope)
      expect({ asked, ...found }).toEqual({ asked, listed: 10, totalSize: 10_000 })
      expect({ asked, walked: read > 15_000 && read }).toEqual({ asked, walked: false })
    }
  }
})

test('counting reads what has happened since, and nothing before it', async () => {
  const SINCE = 20
  for (let n = 0; n < SINCE; n += 1) await add()
  expect((await sequenceEvents(database, 1000))?.length).toBe(SINCE)
  const { read, done } = await reading((session) => countTodos(session, 5000))
  expect(done).toBe(SINCE)
  expect(read).toBeGreaterThanOrEqual(SINCE)
  expect(read).toBeLessThan(300)
})
