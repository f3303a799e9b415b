/** When a wait ends, by the settings in force now. The sweep decides by the same in SQL. */

import type { Endpoint } from '../../domain/endpoint.ts'
import {
  boundedInterruptTtl,
  INTERRUPT_MAX_WAIT_DEFAULT_SECONDS,
  interruptTtlSeconds,
} from '../../domain/policy.ts'
import type { Todo } from '../../domain/todo.ts'
import type { Registry } from '../registry.ts'

/** How long a live holder may extend a wait to, in seconds. */
export const longestWaitSeconds = (settings: ReadonlyMap<string, string>): number => {
  const value = Number(settings.get('interrupt_max_wait_seconds'))
  return Number.isSafeInteger(value) && value > 0 ? value : INTERRUPT_MAX_WAIT_DEFAULT_SECONDS
}

/** The moment an interrupted todo is taken back; null for one that may wait for ever. */
export const deadlineOf = async (
  registry: Pick<Registry, 'queue' | 'settings'>,
  todo: Todo,
  asker: Pick<Endpoint, 'interruptTtlSeconds'> | null,
): Promise<Date | null> => {
  if (todo.interruptedAt === null) return null
  const queue = await registry.queue(todo.queue)
  const setting = (await registry.settings()).get('interrupt_lease_ttl_seconds') ?? null
  const asked = asker?.interruptTtlSeconds ?? queue?.policy.interruptTtlSeconds
  const seconds =
    asked === undefined || asked === null
      ? interruptTtlSeconds(setting).seconds
      : boundedInterruptTtl(asked)
  if (seconds === null) return null
  const own = todo.interruptedAt.getTime() + seconds * 1000
  return new Date(Math.max(own, todo.interruptHeldUntil?.getTime() ?? 0))
}
