/** A Scope as a condition over a todo: no query of todos is without one. */
import type { Scope } from '../../domain/endpoint.ts'
import { $, type Sql, sql } from '../postgres/sql.ts'

/** For prepared statements; its values come from {@link scopeValues}. */
export const scopeSql = (alias: string): Sql => sql`(
  ${$.scope_kind}::text = 'all'
  or (${$.scope_kind}::text = 'queues' and ${alias}.queue = any(${$.scope_queues}::text[]))
  or (${$.scope_kind}::text = 'client' and ${alias}.client_id = ${$.scope_client}::uuid
    and ${alias}.queue = ${$.scope_queue}::text))`

export const scopeValues = (scope: Scope): Record<string, unknown> => ({
  scope_kind: scope.kind,
  scope_queues: scope.kind === 'queues' ? scope.queues : null,
  scope_client: scope.kind === 'client' ? scope.clientId : null,
  scope_queue: scope.kind === 'client' ? scope.queue : null,
})
