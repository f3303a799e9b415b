/**
 * The webhooks of a todo. Every change of them locks the todo first: a move of it that is under way
 * either has been told of before, or is told of to the webhooks as they are from then on.
 */

import { isUuid } from '../../base/uuid.ts'
import type { Scope } from '../../domain/endpoint.ts'
import { Refusal } from '../../domain/errors.ts'
import type { Dialect, KeptPushConfig, PushConfig } from '../../domain/push.ts'
import { PUSH_CONFIGS_AT_MOST } from '../../domain/push.ts'
import { addingConfig, pushValues, WEBHOOKS_CHANGE } from '../move/effects.ts'
import { type Database, type Session, type Statement, statement } from '../postgres/database.ts'
import { scopeSql, scopeValues } from '../todos/scope.ts'

interface PushConfigRow {
  todo_id: string
  config_id: string
  url: string
  token: string | null
  scheme: string | null
  dialect: Dialect
  created_at: Date
}

const COLUMNS = 'c.todo_id, c.config_id, c.url, c.token, c.scheme, c.dialect, c.created_at'

const toConfig = (row: PushConfigRow): PushConfig => ({
  todoId: row.todo_id,
  id: row.config_id,
  url: row.url,
  token: row.token,
  scheme: row.scheme,
  dialect: row.dialect,
  createdAt: row.created_at,
})

const change = statement<{ id: string }>('push_change', WEBHOOKS_CHANGE)

const put: Statement<PushConfigRow & { owes: boolean }> = statement(
  'push_put',
  `${addingConfig(':id::uuid')}
  where (select count(*) from push_configs o where o.todo_id = :id::uuid) < :at_most::int
    or exists (select from push_configs o where o.todo_id = :id::uuid and o.config_id = :push_id)
  on conflict (todo_id, config_id) do update set endpoint_id = excluded.endpoint_id,
    dialect = excluded.dialect, url = excluded.url, host = excluded.host, token = excluded.token,
    scheme = excluded.scheme, credentials = excluded.credentials, secret = excluded.secret,
    previous_secret = null, previous_secret_until = null,
    -- What waits for another try is tried at once where it goes from now on.
    due_at = case when c.owed > 0 then now() end
  returning ${COLUMNS}, c.owed > 0 as owes`,
)
const startAnew = statement<never>(
  'push_start_anew',
  `update deliveries set attempts = 0
  where todo_id = :id::uuid and config_id = :config and state = 'pending' and attempts > 0`,
)

const lockTodo = async (session: Session, todoId: string, scope: Scope): Promise<void> => {
  const values = { id: todoId, ...scopeValues(scope) }
  const locked = isUuid(todoId) && (await session.run(change, values)).length > 0
  if (!locked) throw new Refusal('not_found')
}

/** Inside a transaction. Null where the todo has as many as it may. Refuses: not_found. */
export const putPushConfig = async (
  session: Session,
  todoId: string,
  config: KeptPushConfig,
  scope: Scope,
): Promise<PushConfig | null> => {
  await lockTodo(session, todoId, scope)
  const values = { id: todoId, at_most: PUSH_CONFIGS_AT_MOST, ...pushValues(config) }
  const [row] = await session.run(put, values)
  // The tries that failed were those of the config before it.
  if (row?.owes) await session.run(startAnew, { id: todoId, config: config.id })
  session.wake([{ topic: 'deliveries', count: 1 }])
  return row ? toConfig(row) : null
}

const read: Statement<PushConfigRow & { found: boolean }> = statement(
  'push_read',
  `select ${COLUMNS} from todos t join push_configs c on c.todo_id = t.id
  where t.id = :id::uuid and ${scopeSql('t')} and c.config_id = :config`,
)

/** Null where there is none, or none within the scope. */
export const readPushConfig = async (
  session: Session,
  todoId: string,
  configId: string,
  scope: Scope,
): Promise<PushConfig | null> => {
  if (!isUuid(todoId)) return null
  const values = { id: todoId, config: configId, ...scopeValues(scope) }
  const [row] = await session.run(read, values)
  return row ? toConfig(row) : null
}

const readAll: Statement<{ [K in keyof PushConfigRow]: PushConfigRow[K] | null }> = statement(
  'push_read_all',
  `select ${COLUMNS} from todos t left join lateral (select * from push_configs o
    where o.todo_id = t.id and o.config_id > :after order by o.config_id limit :limit::int) c on true
  where t.id = :id::uuid and ${scopeSql('t')} order by c.config_id`,
)

/** Those of one todo after an id, in the order of their ids. Refuses: not_found. */
export const readPushConfigs = async (
  session: Session,
  todoId: string,
  { after, limit }: { after: string; limit: number },
  scope: Scope,
): Promise<PushConfig[]> => {
  const values = { id: todoId, after, limit, ...scopeValues(scope) }
  const rows = isUuid(todoId) ? await session.run(readAll, values) : []
  if (rows.length === 0) throw new Refusal('not_found')
  return rows.flatMap((row) => (row.config_id === null ? [] : [toConfig(row as PushConfigRow)]))
}

const drop = statement<{ config_id: string }>(
  'push_drop',
  'delete from push_configs where todo_id = :id::uuid and config_id = :config returning config_id',
)
// A statement of its own: it sees what became pending while the first one waited.
const abandon = statement<never>(
  'push_abandon',
  `update deliveries set state = 'dead', reason = 'the config was deleted', settled_at = now()
  where todo_id = :id::uuid and config_id = :config and state = 'pending'`,
)

/** It is gone, and with it what it was still owed. Refuses: not_found, where there is no such todo. */
export const deletePushConfig = (
  database: Database,
  todoId: string,
  configId: string,
  scope: Scope,
): Promise<void> =>
  database.transaction(async (session) => {
    await lockTodo(session, todoId, scope)
    const values = { id: todoId, config: configId }
    if ((await session.run(drop, values)).length > 0) await session.run(abandon, values)
  })

const rotate = statement<{ previous_secret_until: Date }>(
  'push_rotate',
  `update push_configs set secret = :secret, previous_secret = secret,
    previous_secret_until = now() + make_interval(secs => :overlap::double precision)
  where todo_id = :id::uuid and config_id = :config returning previous_secret_until`,
)

/** Both secrets sign until the moment that is answered. Null where there is no such config. */
export const rotatePushSecret = async (
  session: Session,
  todoId: string,
  configId: string,
  { secret, overlapSeconds }: { secret: string; overlapSeconds: number },
): Promise<Date | null> => {
  if (!isUuid(todoId)) return null
  const values = { id: todoId, config: configId, secret, overlap: overlapSeconds }
  return (await session.run(rotate, values))[0]?.previous_secret_until ?? null
}
