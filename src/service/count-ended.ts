/** Counts what a move has ended, once the move is committed. */
import type { Metrics } from '../base/metrics.ts'
import { isDeadLetter, OPEN_STATES } from '../domain/lifecycle.ts'
import type { Moved } from '../store/move/move.ts'

/** The attempt, if one was open, and the todo, if it has ended too. */
export const countEnded = (metrics: Metrics, { todo, from }: Moved, outcome: string): void => {
  const { queue, state, finishedAt } = todo
  if (OPEN_STATES.includes(from)) metrics.attemptsEnded.inc({ queue, outcome })
  if (finishedAt) metrics.todosFinished.inc({ queue, state })
  if (isDeadLetter(todo) && todo.unread > 0) metrics.todosOwing.inc({ queue, state })
}
