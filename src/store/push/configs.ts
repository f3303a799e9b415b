/**
 * The webhooks of a todo. Every change of them locks the todo first, so that a move of the todo is
 * either announced to the webhooks as they were before the change, or to those there are after it.
 */

import { isUuid } from '../../base/uuid.ts'
import type { Scope } from '../../domain/endpoint.ts'
import { Refusal } from '../../domain/errors.ts'
import { type KeptPushConfig, PUSH_CONFIGS_AT_MOST, type PushConfig } from '../../domain/push.ts'
import { addingConfig, pushValues, WEBHOOKS_CHANGE } from '../move/effects.ts'
import { type Database, type Session, statement } from '../postgres/database.ts'
import { columnsOf, readOne } from '../postgres/rows.ts'
import { $, sql } from '../postgres/sql.ts'
import { plannedEachTime } from '../postgres/statement.ts'
import { scopeSql, scopeValues } from '../todos/scope.ts'
import { topics, wakeOf } from '../wake/topics.ts'

const COLUMNS = columnsOf<PushConfig>()(['todoId url token scheme dialect createdAt'], {
  id: (c) => `${c}.config_id`,
}).select('c')

const change = statement<{ id: string }>('push_change', WEBHOOKS_CHANGE)

const put = statement<PushConfig & { owes: boolean }>(
  'push_put',
  sql`${addingConfig(sql`${$.id}::uuid`)}
  where (select count(*) from push_configs o where o.todo_id = ${$.id}::uuid) < ${$.at_most}::int
    or exists (select from push_configs o where o.todo_id = ${$.id}::uuid and o.config_id = ${$.push_id})
  on conflict (todo_id, config_id) do update set endpoint_id = excluded.endpoint_id,
    dialect = excluded.dialect, url = excluded.url, host = excluded.host, token = excluded.token,
    scheme = excluded.scheme, credentials = excluded.credentials, secret = excluded.secret,
    previous_secret = null, previous_secret_until = null,
    -- What waits for another try is tried at once, at the new address.
    due_at = case when c.owed > 0 then now() end
  returning ${COLUMNS}, c.owed > 0 as owes`,
)
const startAnew = statement<never>(
  'push_start_anew',
  sql`update deliveries set attempts = 0
  where todo_id = ${$.id}::uuid and config_id = ${$.config} and state = 'pending' and attempts > 0`,
)

const lockTodo = async (session: Session, todoId: string, scope: Scope): Promise<void> => {
  const values = { id: todoId, ...scopeValues(scope) }
  const locked = isUuid(todoId) && (await session.run(change, values)).length > 0
  if (!locked) throw new Refusal('not_found')
}

/** Runs inside a transaction. Null where the todo has as many as it may. Refuses: not_found. */
export const putPushConfig = async (
  session: Session,
  todoId: string,
  config: KeptPushConfig,
  scope: Scope,
): Promise<PushConfig | null> => {
  await lockTodo(session, todoId, scope)
  const values = { id: todoId, at_most: PUSH_CONFIGS_AT_MOST, ...pushValues(config) }
  const kept = await readOne(session, put, values)
  // The tries that failed were those of the config that this one replaces.
  if (kept?.owes) await session.run(startAnew, { id: todoId, config: config.id })
  session.wake([wakeOf(topics.deliveries)])
  return kept
}

const read = statement<PushConfig>(
  'push_read',
  sql`select ${COLUMNS} from todos t join push_configs c on c.todo_id = t.id
  where t.id = ${$.id}::uuid and ${scopeSql('t')} and c.config_id = ${$.config}`,
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
  return readOne(session, read, values)
}

/** A todo without webhooks is one row of nulls, which tells it from a todo that is not there. */
const readAll = statement<PushConfig | { [Member in keyof PushConfig]: null }>(
  'push_read_all',
  sql`select ${COLUMNS} from todos t left join lateral (select * from push_configs o
    where o.todo_id = t.id and o.config_id > ${$.after} order by o.config_id limit ${$.limit}::int) c on true
  where t.id = ${$.id}::uuid and ${scopeSql('t')} order by c.config_id`,
)

/** The webhooks of one todo after an id, in the order of their ids. Refuses: not_found. */
export const readPushConfigs = async (
  session: Session,
  todoId: string,
  { after, limit }: { after: string; limit: number },
  scope: Scope,
): Promise<PushConfig[]> => {
  const values = { id: todoId, after, limit, ...scopeValues(scope) }
  const rows = isUuid(todoId) ? await session.run(readAll, values) : []
  if (rows.length === 0) throw new Refusal('not_found')
  return rows.filter((row) => row.id !== null)
}

const drop = statement<{ found: true }>(
  'push_drop',
  sql`delete from push_configs where todo_id = ${$.id}::uuid and config_id = ${$.config} returning true as found`,
)
// A statement of its own, so that it sees what became pending while the first one waited.
const abandon = plannedEachTime<never>(
  'push_abandon',
  sql`update deliveries set state = 'dead', reason = 'the config was deleted', settled_at = now()
  where todo_id = ${$.id}::uuid and config_id = ${$.config} and state = 'pending'`,
)

/** Deletes a webhook and gives up what it is still owed. Refuses: not_found, where there is no such todo. */
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

const rotate = plannedEachTime<{ until: Date }>(
  'push_rotate',
  sql`update push_configs set secret = ${$.secret}, previous_secret = secret,
    previous_secret_until = now() + make_interval(secs => ${$.overlap}::double precision)
  where todo_id = ${$.id}::uuid and config_id = ${$.config} returning previous_secret_until as until`,
)

/** Until when both secrets sign. Null where there is no such config. */
export const rotatePushSecret = async (
  session: Session,
  todoId: string,
  configId: string,
  { secret, overlapSeconds }: { secret: string; overlapSeconds: number },
): Promise<Date | null> => {
  if (!isUuid(todoId)) return null
  const values = { id: todoId, config: configId, secret, overlap: overlapSeconds }
  return (await readOne(session, rotate, values))?.until ?? null
}
