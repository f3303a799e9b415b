/** Lists of todos, a page at a time, newest status first. Cursors are positions, never offsets. */
import knexFactory, { type Knex } from 'knex'
import { isUuid } from '../../base/uuid.ts'
import { ALONE_BYTES, PAGE_BYTES } from '../../domain/budget.ts'
import { EVERYTHING, type Scope } from '../../domain/endpoint.ts'
import { invalid } from '../../domain/errors.ts'
import { ENDED_STATES, STATE_NAMES, type State } from '../../domain/lifecycle.ts'
import type { Todo, TodoFilter, TodoPage, TodoView } from '../../domain/todo.ts'
import type { Session } from '../postgres/database.ts'
import { stateList } from '../postgres/literals.ts'
import { ALL, MESSAGE_BYTES } from './documents.ts'
import { TODO_COLUMNS } from './row.ts'
import { HELD_BYTES } from './size.ts'
import { documentsOf, toView, type ViewRow, wholeView } from './view.ts'

/** Where nothing is kept that knows the total, no more are counted. */
const COUNTED_TO = 10_000

/** Builds SQL only; it has no connection. */
const build = knexFactory({ client: 'pg' })

interface Cursor {
  at: string
  id: string
}

const encodeCursor = (todo: Todo): string =>
  Buffer.from(JSON.stringify([todo.statusAt.toISOString(), todo.id])).toString('base64url')

/** A moment just as encodeCursor writes it, in a year that the database knows too. */
const isMoment = (at: unknown): at is string =>
  typeof at === 'string' && /^(?!0000)\d{4}-/.test(at) && new Date(at).toISOString() === at

const decodeCursor = (token: string): Cursor => {
  try {
    const [at, id] = JSON.parse(Buffer.from(token, 'base64url').toString()) as unknown[]
    if (isMoment(at) && typeof id === 'string' && isUuid(id)) return { at, id }
  } catch {
    // Falls through: it is not a token of ours.
  }
  throw invalid('pageToken', 'is not a token this server gave out')
}

const scoped = (query: Knex.QueryBuilder, scope: Scope): Knex.QueryBuilder => {
  if (scope.kind === 'client') {
    return query.where({ 't.client_id': scope.clientId, 't.queue': scope.queue })
  }
  return scope.kind === 'queues' ? query.whereIn('t.queue', scope.queues) : query
}

/** From `todos` or their totals, which have the scope, the queue and the state in the same columns. */
const among = (table: string, filter: TodoFilter, scope: Scope): Knex.QueryBuilder => {
  const query = scoped(build(`${table} as t`), scope)
  if (filter.queue !== undefined) query.where('t.queue', filter.queue)
  if (filter.queues) query.whereIn('t.queue', filter.queues)
  return query
}

/** States as literals: a partial index serves only a query that names its states. */
const inStates = (query: Knex.QueryBuilder, states: readonly State[]): Knex.QueryBuilder => {
  const named = STATE_NAMES.filter((state) => states.includes(state))
  return query.whereRaw(named.length > 0 ? `t.state in (${stateList(named)})` : 'false')
}

const NOT_DONE: readonly State[] = ENDED_STATES.filter((state) => state !== 'done')

/** True where the index todos_not_done has all that match. */
const endedNotDone = ({ states, retrying }: TodoFilter): boolean =>
  states?.every((state) => NOT_DONE.includes(state)) === true &&
  (retrying === 'never' || !states.includes('failed'))

/** Spelled like the predicate of the index todos_claim. */
const inLiveStates = (query: Knex.QueryBuilder, states: readonly State[]): Knex.QueryBuilder =>
  query.where((either) => {
    inStates(
      either,
      states.filter((state) => state !== 'failed'),
    )
    if (states.includes('failed')) {
      either.orWhereRaw(`(t.state = 'failed' and t.next_retry_at is not null)`)
    }
  })

const matching = (filter: TodoFilter, scope: Scope): Knex.QueryBuilder => {
  const query = among('todos', filter, scope)
  if (filter.ids) query.whereIn('t.id', filter.ids.filter(isUuid))
  if (filter.contextId !== undefined) query.where('t.context_id', filter.contextId)
  if (filter.states && filter.retrying === 'only') inLiveStates(query, filter.states)
  else if (filter.states) inStates(query, filter.states)
  if (endedNotDone(filter)) query.whereNotNull('t.finished_at')
  if (filter.joining === 'only') {
    query.whereRaw(`(t.state <> 'pending' or t.join_until is not null)`)
  }
  if (filter.joining === 'never') query.whereNull('t.join_until')
  if (filter.retrying === 'only' && !filter.states) {
    query.whereRaw(`(t.state <> 'failed' or t.next_retry_at is not null)`)
  }
  if (filter.retrying === 'never') query.whereNull('t.next_retry_at')
  if (filter.statusAfter) query.where('t.status_at', '>=', filter.statusAfter)
  return query
}

const run = async <Row>(session: Session, query: Knex.QueryBuilder): Promise<Row[]> => {
  const { sql, bindings } = query.toSQL().toNative()
  return session.query<Row>(sql, bindings)
}

const newestFirst = (table: string) => [
  { column: `${table}.status_at`, order: 'desc' },
  { column: `${table}.id`, order: 'desc' },
]

/** What the messages of a todo take that are read, `which` of them. */
const messageBytes = (which = 'true'): string =>
  `coalesce((select sum(${MESSAGE_BYTES('m')}) from messages m where m.todo_id = f.id and ${which}), 0)`

/** What is read of a todo takes about so many bytes; of most it is known without a look at the documents. */
const bytesOf = ({ includeArtifacts, documents }: TodoFilter): string => {
  if (documents === 'ends') {
    const result = 'coalesce(d.bytes, octet_length(d.result::text))'
    return `${messageBytes('m.seq in (1, f.status_seq)')}
      + coalesce((select ${result} from details d where d.todo_id = f.id), 0)`
  }
  if (includeArtifacts) return HELD_BYTES('f')
  return `case when f.document_bytes <= ${ALONE_BYTES} then f.document_bytes else ${messageBytes()} end`
}

/**
 * The todos found, each whole, until the page is full: it ends early where its documents come to more than
 * PAGE_BYTES. It always has one todo, and what is left out follows behind the page's token.
 */
const pageOf = (found: Knex.QueryBuilder, filter: TodoFilter): Knex.QueryBuilder => {
  const sized = build
    .select('f.*', build.raw(`(${bytesOf(filter)})::float8 as bytes`))
    .from(found.as('f'))
  const summed = build
    .select('b.*', build.raw('count(*) over () as found'))
    .select(build.raw('sum(b.bytes) over (order by b.status_at desc, b.id desc) as upto'))
    .from(sized.as('b'))
  const large = filter.documents === 'ends' ? 'true' : `p.bytes > ${PAGE_BYTES}`
  return build
    .select(build.raw(TODO_COLUMNS('t')), 'p.found')
    .select(build.raw(documentsOf('t', String(filter.includeArtifacts), large).text))
    .from(summed.as('p'))
    .join('todos as t', 't.id', 'p.id')
    .whereRaw(`p.upto - p.bytes < ${PAGE_BYTES}`)
    .orderBy(newestFirst('p'))
}

/** The sum of the kept counts (counts.ts); how many todos join is known from the todos alone. */
const summed = (filter: TodoFilter, scope: Scope): Knex.QueryBuilder => {
  const { states, retrying, joining } = filter
  const some = among('todo_totals', filter, scope).sum('t.count')
  if (states) inStates(some, states)
  if (retrying === 'only') some.whereRaw(`(t.state <> 'failed' or t.retrying)`)
  if (retrying === 'never') some.whereRaw('not t.retrying')
  if (joining === 'only') some.whereRaw(`t.state <> 'pending'`)
  const joiners = among('todos', filter, scope).whereNotNull('t.join_until').count('*')
  const counts = joining !== undefined && (states?.includes('pending') ?? true)
  const others = !counts ? '0' : joining === 'only' ? '(?)' : '-(?)'
  return build.select(
    build.raw(`coalesce((?), 0) + ${others} as count`, counts ? [some, joiners] : [some]),
  )
}

/** True where the kept counts know all that the filter asks for. */
const isKept = ({ ids, contextId, statusAfter, countTo }: TodoFilter): boolean =>
  [ids, contextId, statusAfter, countTo].every((member) => member === undefined)

const counted = (filter: TodoFilter, scope: Scope): Knex.QueryBuilder => {
  if (isKept(filter)) return summed(filter, scope)
  const some = matching(filter, scope)
    .select('t.id')
    .limit(filter.countTo ?? COUNTED_TO)
  return build.count('* as count').from(some.as('s'))
}

/** The ids of the newest that match, without their documents. */
export const listIds = async (
  session: Session,
  filter: Omit<TodoFilter, 'includeArtifacts'>,
  scope: Scope,
): Promise<string[]> => {
  const found = matching({ ...filter, includeArtifacts: false }, scope)
    .select('t.id')
    .orderBy(newestFirst('t'))
    .limit(filter.pageSize)
  return (await run<{ id: string }>(session, found)).map(({ id }) => id)
}

/** One page, newest status first, ids breaking ties. Refuses a token that is not one of ours. */
export const listTodos = async (
  session: Session,
  filter: TodoFilter,
  scope: Scope = EVERYTHING,
): Promise<TodoPage> => {
  const found = matching(filter, scope)
    .select('t.id', 't.status_at', 't.status_seq', 't.document_bytes')
    .orderBy(newestFirst('t'))
    .limit(filter.pageSize + 1)
  if (filter.pageToken) {
    const { at, id } = decodeCursor(filter.pageToken)
    found.whereRaw('(t.status_at, t.id) < (?::timestamptz, ?::uuid)', [at, id])
  }
  const [rows, [total]] = await Promise.all([
    run<ViewRow & { found: string }>(session, pageOf(found, filter)),
    run<{ count: string }>(session, counted(filter, scope)),
  ])
  const { includeArtifacts, documents } = filter
  const wanted = includeArtifacts ? ALL : { ...ALL, artifactBytes: 0 }
  const todos: TodoView[] = []
  for (const row of rows.slice(0, filter.pageSize)) {
    const isLarge = row.large && documents !== 'ends'
    todos.push(isLarge ? await wholeView(session, row, wanted) : toView(row, includeArtifacts))
  }
  const last = todos.at(-1)
  return {
    todos,
    nextPageToken:
      Number(rows[0]?.found ?? 0) > todos.length && last ? encodeCursor(last.todo) : '',
    pageSize: filter.pageSize,
    totalSize: Number(total?.count ?? 0),
  }
}
