/** Cancels a todo that has not ended, and everything alive below it. */
import type { Metrics } from '../../base/metrics.ts'
import { EVERYTHING, type Scope } from '../../domain/endpoint.ts'
import { isRefusal, orNotFound, Refusal } from '../../domain/errors.ts'
import type { TodoView } from '../../domain/todo.ts'
import type { Change } from '../../store/move/change.ts'
import {
  type Moved,
  readDue,
  transitionDue,
  transitionOne,
  tryTransition,
} from '../../store/move/move.ts'
import type { Database } from '../../store/postgres/database.ts'
import { readBrief, readView } from '../../store/todos/view.ts'
import { countEnded } from '../count-ended.ts'
import { sweepEach } from '../sweep-runner.ts'
import { truncate } from './text.ts'

/** Cancels a todo that has not ended; one canceled before is returned as it is. */
export const cancelTodo = async (
  database: Database,
  metrics: Metrics,
  id: string,
  scope: Scope,
  reason?: string,
): Promise<TodoView> => {
  await cancel(database, metrics, id, scope, reason)
  return orNotFound(await readView(database, id, scope))
}

/** It reads no documents: whatever the todo holds, it can be canceled. */
const cancel = async (
  database: Database,
  metrics: Metrics,
  id: string,
  scope: Scope,
  reason?: string,
): Promise<void> => {
  const change: Change = reason ? { detail: { text: truncate(reason) } } : {}
  const { todo } = orNotFound(await readBrief(database, id, scope))
  if (todo.state === 'canceled') return
  try {
    countEnded(metrics, await transitionOne(database, 'cancel', id, change, scope), 'canceled')
  } catch (error) {
    if (!isRefusal(error, 'wrong_state')) throw error
    const now = await readBrief(database, id, scope)
    if (now?.todo.state === 'canceled') return
    const { state } = error.detail
    throw new Refusal('not_cancelable', { id, ...(state && { state }) })
  }
  await cancelBelow(database, metrics, [id])
}

/** Like cancelTodo, but a todo that ends meanwhile is left as it ended. */
export const cancelIfLive = async (
  database: Database,
  metrics: Metrics,
  id: string,
): Promise<void> => {
  try {
    await cancel(database, metrics, id, EVERYTHING)
  } catch (error) {
    if (!isRefusal(error)) throw error
  }
}

const BATCH = 200

/**
 * Cancels all that lives below these canceled todos, a batch of children at a time and then what is
 * below that batch; returns how many. A child that ends meanwhile is left as it ended, and its own
 * children live. One that cannot be moved does not keep the others; the first failure is thrown at
 * the end.
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
    for (const one of moved) countEnded(metrics, one, 'canceled')
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
      if (isRefusal(error, 'unavailable')) throw error
    })
    // This waits for rows that somebody was just writing to, and redoes a failed batch one by one.
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
