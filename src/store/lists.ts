/** Lists of todos, a page at a time, newest status first. Cursors are positions, never offsets. */
import knexFactory, { type Knex } from 'knex'
import { invalid } from '../domain/errors.ts'
import { EVERYTHING, type Scope } from '../domain/scope.ts'
import type { Todo, TodoFilter, TodoPage } from '../domain/todo.ts'
import type { Session } from './database.ts'
import { TODO_COLUMNS, type TodoRow } from './todo-row.ts'
import { isUuid } from './uuid.ts'
import { type DocumentsRow, documentsOf, toView } from './views.ts'

/** Builds SQL only; it has no connection. */
const build = knexFactory({ client: 'pg' })

interface Cursor {
  at: string
  id: string
}

const encodeCursor = (todo: Todo): string =>
  Buffer.from(JSON.stringify([todo.statusAt.toISOString(), todo.id])).toString('base64url')

/** Just as encodeCursor writes it, in a year that the database has too. */
const isMoment = (at: unknown): at is string =>
  typeof at === 'string' && /^(?!0000)\d{4}-/.test(at) && new Date(at).toISOString() === at

const decodeCursor = (token: string): Cursor => {
  try {
    const [at, id] = JSON.parse(Buffer.from(token, 'base64url').toString()) as unknown[]
    if (isMoment(at) && typeof id === 'string' && isUuid(id)) return { at, id }
  } catch {
    // Falls through: whatever it was, it is not one of ours.
  }
  throw invalid('pageToken', 'is not a token this server gave out')
}

const scoped = (query: Knex.QueryBuilder, scope: Scope): Knex.QueryBuilder => {
  if (scope.kind === 'client') {
    return query.where({ 't.client_id': scope.clientId, 't.queue': scope.queue })
  }
  return scope.kind === 'queues' ? query.whereIn('t.queue', scope.queues) : query
}

const matching = (filter: TodoFilter, scope: Scope): Knex.QueryBuilder => {
  const query = scoped(build('todos as t'), scope)
  if (filter.queue !== undefined) query.where('t.queue', filter.queue)
  if (filter.contextId !== undefined) query.where('t.context_id', filter.contextId)
  if (filter.states) query.whereIn('t.state', filter.states)
  if (filter.joining === 'only') {
    query.whereRaw(`(t.state <> 'pending' or t.join_until is not null)`)
  }
  if (filter.joining === 'never') query.whereNull('t.join_until')
  if (filter.retrying === 'only') {
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

/** One page, newest status first, ids breaking ties. Refuses a token that is not one of ours. */
export const listTodos = async (
  session: Session,
  filter: TodoFilter,
  scope: Scope = EVERYTHING,
): Promise<TodoPage> => {
  const page = matching(filter, scope)
    .select(build.raw(TODO_COLUMNS('t')))
    .select(build.raw(documentsOf('t', filter.includeArtifacts ? 'true' : 'false')))
    .orderBy([
      { column: 't.status_at', order: 'desc' },
      { column: 't.id', order: 'desc' },
    ])
    .limit(filter.pageSize + 1)
  if (filter.pageToken) {
    const { at, id } = decodeCursor(filter.pageToken)
    page.whereRaw('(t.status_at, t.id) < (?::timestamptz, ?::uuid)', [at, id])
  }
  const [rows, [total]] = await Promise.all([
    run<TodoRow & DocumentsRow>(session, page),
    run<{ count: string }>(session, matching(filter, scope).count('* as count')),
  ])
  const todos = rows.slice(0, filter.pageSize).map((row) => toView(row, filter.includeArtifacts))
  const last = todos.at(-1)
  return {
    todos,
    nextPageToken: rows.length > filter.pageSize && last ? encodeCursor(last.todo) : '',
    pageSize: filter.pageSize,
    totalSize: Number(total?.count ?? 0),
  }
}
