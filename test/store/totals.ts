/** Totals of lists, beside what a look at every row says in the same snapshot. */
import { expect } from 'vitest'
import { EVERYTHING, type Scope } from '../../src/domain/endpoint.ts'
import { STATE_NAMES, type State } from '../../src/domain/lifecycle.ts'
import type { TodoFilter } from '../../src/domain/todo.ts'
import type { Database } from '../../src/store/postgres/database.ts'
import { listTodos } from '../../src/store/todos/list.ts'

interface Row {
  queue: string
  client: string | null
  state: State
  retrying: boolean
  joining: boolean
}

/** By key, whoever is behind it; what came to nothing is left out. */
const differing = `select queue, client_id, state, retrying, sum(count)::int as too_many from (
    select queue, client_id, state, retrying, count from todo_totals
      where $1::uuid is null or client_id = $1
    union all
    select queue, coalesce(client_id, '00000000-0000-0000-0000-000000000000'), state,
      next_retry_at is not null, -1 from todos where $1::uuid is null or client_id = $1) n
  group by 1, 2, 3, 4 having sum(count) <> 0`

/** No key of the totals, or of those of one client, has one more or one less than there are rows. */
export const expectTotals = async (
  { query }: Pick<Database, 'query'>,
  client: string | null = null,
): Promise<void> => {
  expect(await query(differing, [client])).toEqual([])
}

type Asked = Pick<TodoFilter, 'queue' | 'queues' | 'states' | 'retrying' | 'joining'>

const ASKED: readonly Asked[] = [
  {},
  ...STATE_NAMES.map((state) => ({ states: [state] })),
  { states: ['failed'], retrying: 'never' },
  { states: ['pending', 'failed'], retrying: 'only', joining: 'never' },
  { states: ['claimed', 'pending'], joining: 'only' },
  { states: ['done', 'failed', 'canceled', 'rejected'], retrying: 'never' },
  { joining: 'never' },
  { retrying: 'only', joining: 'only' },
  { states: [] },
]

const isAsked = ({ queue, queues, states, retrying, joining }: Asked, row: Row): boolean =>
  (queue === undefined || row.queue === queue) &&
  (queues === undefined || queues.includes(row.queue)) &&
  (states === undefined || states.includes(row.state)) &&
  (retrying !== 'only' || row.state !== 'failed' || row.retrying) &&
  (retrying !== 'never' || !row.retrying) &&
  (joining !== 'only' || row.state !== 'pending' || row.joining) &&
  (joining !== 'never' || !row.joining)

const isSeen = (scope: Scope, row: Row): boolean => {
  if (scope.kind === 'client') return row.client === scope.clientId && row.queue === scope.queue
  return scope.kind === 'queues' ? scope.queues.includes(row.queue) : true
}

/**
 * The totals of every kind of list, by a client, by an endpoint and by the operator, or of those
 * `chosen`, are those of the rows in one snapshot; how many todos it was about.
 */
export const expectLists = (
  database: Database,
  clients: readonly string[],
  queues: readonly string[],
  chosen: () => boolean = () => true,
): Promise<number> =>
  database.transaction(async (session) => {
    await session.query('set transaction isolation level repeatable read', [])
    const rows = await session.query<Row>(
      `select queue, client_id as client, state, next_retry_at is not null as retrying,
        join_until is not null as joining from todos`,
      [],
    )
    await expectTotals(session)
    const scopes: Scope[] = [
      EVERYTHING,
      { kind: 'queues', queues: queues.slice(1) },
      { kind: 'queues', queues: [] },
      ...clients.map((clientId) => ({ kind: 'client', clientId, queue: queues[0]! }) as const),
    ]
    const filters = [...ASKED, { queue: queues[1]! }, { queues, states: ['done'] as const }]
    const page = { pageSize: 1, includeArtifacts: false }
    for (const scope of scopes) {
      for (const asked of filters.filter(chosen)) {
        const { totalSize } = await listTodos(session, { ...asked, ...page }, scope)
        const there = rows.filter((row) => isSeen(scope, row) && isAsked(asked, row))
        expect({ scope, asked, totalSize }).toEqual({ scope, asked, totalSize: there.length })
      }
    }
    return rows.length
  })
