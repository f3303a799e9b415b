/** Ending a todo that has not ended, and all that lives below it, for whoever may. */
import type { Metrics } from '../../base/metrics.ts'
import type { Scope } from '../../domain/endpoint.ts'
import { Refusal } from '../../domain/errors.ts'
import { OPEN_STATES } from '../../domain/lifecycle.ts'
import type { TodoView } from '../../domain/todo.ts'
import {
  type Moved,
  readDue,
  transitionDue,
  transitionOne,
  tryTransition,
} from '../../store/move/move.ts'
import type { Database } from '../../store/postgres/database.ts'
import { readView } from '../../store/todos/view.ts'
import { sweepEach } from '../sweep-each.ts'

/** Ends a todo that has not ended; one canceled before is returned as it is. */
export const cancelTodo = async (
  database: Database,
  metrics: Metrics,
  id: string,
  scope: Scope,
): Promise<TodoView> => {
  const before = await readView(database, id, scope)
  if (!before) throw new Refusal('not_found')
  if (before.todo.state === 'canceled') return before
  try {
    count(metrics, await transitionOne(database, 'cancel', id, {}, scope))
  } catch (error) {
    if (!(error instanceof Refusal && error.kind === 'wrong_state')) throw error
    const now = await readView(database, id, scope)
    if (now?.todo.state === 'canceled') return now
    throw new Refusal('not_cancelable', {
      id,
      ...(error.detail.state && { state: error.detail.state }),
    })
  }
  await cancelBelow(database, metrics, [id])
  const after = await readView(database, id, scope)
  if (!after) throw new Refusal('not_found')
  return after
}

const count = (metrics: Metrics, { todo, from }: Moved): void => {
  metrics.todosFinished.inc({ queue: todo.queue, state: todo.state })
  if (OPEN_STATES.includes(from)) {
    metrics.attemptsEnded.inc({ queue: todo.queue, outcome: 'canceled' })
  }
}

const BATCH = 200

/**
 * Cancels all that lives below these canceled todos, a batch of children at a time and then what is
 * below that batch; how many. One that ends meanwhile is left as it ended, and its children live.
 * One that cannot be moved keeps no other from it; then the first failure is thrown.
 */
export const cancelBelow = async (
  database: Database,
  metrics: Metrics,
  parents: readonly string[],
): Promise<number> => {
  const failures: unknown[] = []
  let ended = 0

  const goOn = async (moved: readonly Moved[]): Promise<void> => {
    if (moved.length === 0) return
    for (const one of moved) count(metrics, one)
    ended += moved.length
    await below(moved.map(({ todo }) => todo.id))
  }

  const inBatches = async (above: readonly string[]): Promise<void> => {
    for (let full = true; full; ) {
      const moved = await transitionDue(database, 'cancel', { limit: BATCH }, { parents: above })
      await goOn(moved)
      full = moved.length === BATCH
    }
  }

  const cancelOne = async (id: string): Promise<boolean> => {
    const moved = await tryTransition(database, 'cancel', id, {})
    await goOn(moved ? [moved] : [])
    return moved !== null
  }

  const below = async (above: readonly string[]): Promise<void> => {
    await inBatches(above).catch((error: unknown) => {
      if (error instanceof Refusal && error.kind === 'unavailable') throw error
    })
    // Waited for: those that somebody was just writing to. One by one: a batch that failed.
    await sweepEach(
      (due) => readDue(database, 'cancel', due, { parents: above }),
      cancelOne,
      (_, error) => failures.push(error),
    )
  }

  await below(parents)
  if (failures.length > 0) throw failures[0]
  return ended
}
