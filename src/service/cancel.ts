/** Ending a todo that has not ended, and all that lives below it, for whoever may. */
import type { Metrics } from '../base/metrics.ts'
import { Refusal } from '../domain/errors.ts'
import { OPEN_STATES } from '../domain/lifecycle.ts'
import { EVERYTHING, type Scope } from '../domain/scope.ts'
import type { TodoView } from '../domain/todo.ts'
import type { Database } from '../store/database.ts'
import { readLiveChildren } from '../store/families.ts'
import { transitionOne } from '../store/transition.ts'
import { readView } from '../store/views.ts'

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
    const { todo, from } = await transitionOne(database, 'cancel', id, {}, scope)
    metrics.todosFinished.inc({ queue: todo.queue, state: todo.state })
    if (OPEN_STATES.includes(from)) {
      metrics.attemptsEnded.inc({ queue: todo.queue, outcome: 'canceled' })
    }
    await cancelBelow(database, metrics, id)
  } catch (error) {
    if (!(error instanceof Refusal && error.kind === 'wrong_state')) throw error
    const now = await readView(database, id, scope)
    if (now?.todo.state === 'canceled') return now
    throw new Refusal('not_cancelable', {
      id,
      ...(error.detail.state && { state: error.detail.state }),
    })
  }
  const after = await readView(database, id, scope)
  if (!after) throw new Refusal('not_found')
  return after
}

const PAGE = 200

/** Live children go with their parent. One that ends meanwhile is left as it ended. */
const cancelBelow = async (database: Database, metrics: Metrics, id: string): Promise<void> => {
  for (let full = true; full; ) {
    const children = await readLiveChildren(database, id, PAGE)
    for (const child of children) {
      await cancelTodo(database, metrics, child.id, EVERYTHING).catch((error: unknown) => {
        if (!(error instanceof Refusal) || error.kind === 'unavailable') throw error
      })
    }
    full = children.length === PAGE
  }
}
