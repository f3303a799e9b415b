/**
 * What todos ask at the moment, with everything somebody needs to answer, and when each wait ends by
 * the settings in force now. The sweep decides by the same rule in SQL.
 */
import type { Endpoint } from '../../domain/endpoint.ts'
import { phaseOf } from '../../domain/lifecycle.ts'
import {
  boundedInterruptTtl,
  INTERRUPT_MAX_WAIT_DEFAULT_SECONDS,
  interruptTtlSeconds,
} from '../../domain/policy.ts'
import type { JsonObject, Todo } from '../../domain/todo.ts'
import { readEndpointsById } from '../../store/admin/endpoints.ts'
import type { Database } from '../../store/postgres/database.ts'
import { readQuestions } from '../../store/todos/questions.ts'
import type { Registry } from '../registry.ts'

/** An open question: its place in the todo's order, and until when it may be answered. */
export interface Question {
  seq: number
  deadline: Date | null
  /** What the data part of its answer must look like; null if anything goes. */
  schema: JsonObject | null
}

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
  const requested = asker?.interruptTtlSeconds ?? queue?.policy.interruptTtlSeconds ?? null
  const seconds =
    requested === null ? interruptTtlSeconds(setting).seconds : boundedInterruptTtl(requested)
  if (seconds === null) return null
  const own = todo.interruptedAt.getTime() + seconds * 1000
  return new Date(Math.max(own, todo.interruptHeldUntil?.getTime() ?? 0))
}

/** Interrupted, and not answered yet. */
export const asks = (todo: Todo): boolean =>
  phaseOf(todo) === 'interrupted' && todo.answeredAt === null

/** The question of each todo in turn, null if it asks nothing: three reads at most for all. */
export const questionsOf = async (
  database: Database,
  registry: Pick<Registry, 'queue' | 'settings'>,
  todos: readonly Todo[],
): Promise<(Question | null)[]> => {
  const asking = todos.filter(asks)
  if (asking.length === 0) return todos.map(() => null)
  const questions = await readQuestions(
    database,
    asking.map(({ id, statusSeq }) => ({ id, seq: statusSeq })),
  )
  const askers = [...questions.values()].flatMap(({ asker }) => asker ?? [])
  const endpoints = await readEndpointsById(database, [...new Set(askers)])
  const question = async (todo: Todo): Promise<Question> => {
    const row = questions.get(todo.id)
    const asker = endpoints.get(row?.asker ?? '') ?? null
    const deadline = await deadlineOf(registry, todo, asker)
    const schema = (row?.schema as JsonObject | null | undefined) ?? null
    return { seq: todo.statusSeq, deadline, schema }
  }
  return Promise.all(todos.map((todo) => (asks(todo) ? question(todo) : null)))
}
