/**
 * An operator's retry of a dead letter: a new todo with the same conversation, sender and settings, and
 * no wider effects. It owes what the dead one owed; the artifacts come with it where they are wanted.
 * The dead one stays as it ended.
 */
import { defined } from '../../base/defined.ts'
import { newId } from '../../base/uuid.ts'
import { Refusal } from '../../domain/errors.ts'
import { isDeadLetter } from '../../domain/lifecycle.ts'
import type { Timeouts } from '../../domain/policy.ts'
import type { Message, Todo, TodoView } from '../../domain/todo.ts'
import { readQueues } from '../../store/admin/queues.ts'
import { type Database, isUniqueViolation } from '../../store/postgres/database.ts'
import type { ChildTasks } from './children.ts'
import type { Submitter } from './submit.ts'
import { excerpt } from './text.ts'

interface RetryParts {
  database: Database
  submitter: Pick<Submitter, 'add'>
  childTasks: Pick<ChildTasks, 'retry'>
}

/** Refuses: wrong_state, duplicate (it was retried before), not_found, limit. */
export type Retry = (dead: TodoView, withArtifacts: boolean) => Promise<Todo>

export const createRetry = ({ database, submitter, childTasks }: RetryParts): Retry => {
  const again = async (
    { todo, messages, metadata }: TodoView,
    withArtifacts: boolean,
  ): Promise<Todo | null> => {
    const queue = (await readQueues(database)).find(({ name }) => name === todo.queue)
    const first = messages[0]
    if (!queue || !first) return null
    const id = newId()
    const next = {
      id,
      queue: todo.queue,
      contextId: todo.contextId,
      clientId: todo.clientId,
      author: todo.author,
      priority: todo.priority,
      maxAttempts: todo.maxAttempts,
      message: { ...first.message, taskId: id, referenceTaskIds: refersTo(first.message, todo.id) },
      ...defined({
        request: first.request ?? undefined,
        metadata: metadata ?? undefined,
        effects: todo.effects ?? undefined,
        // Whoever retries it grants as much again.
        budget: todo.budget ?? undefined,
      }),
      timeouts: timeoutsOf(todo),
      detail: { text: excerpt(first.message) },
      retryOf: todo.id,
      carries: { artifacts: withArtifacts },
    }
    return todo.depth > 0 ? childTasks.retry(todo, next) : submitter.add(next, queue)
  }

  return async (dead, withArtifacts) => {
    const { id, queue, state } = dead.todo
    if (!isDeadLetter(dead.todo)) throw new Refusal('wrong_state', { id, state })
    try {
      const added = await again(dead, withArtifacts)
      if (!added) throw new Refusal('not_found', {}, `there is no queue ${queue} any more`)
      return added
    } catch (error) {
      if (!isUniqueViolation(error, 'todo_retried_once')) throw error
      throw new Refusal('duplicate', { id }, 'This todo was retried before')
    }
  }
}

/** What the message refers to already, and the dead one that it redoes. */
const refersTo = ({ referenceTaskIds = [] }: Message, dead: string): string[] => [
  ...referenceTaskIds.filter((id) => id !== dead),
  dead,
]

/** The timeouts of the dead one, counted anew: they ran from its send, or from a later moment that it named. */
const timeoutsOf = ({ closeAt, createdAt, notBefore, ...limits }: Todo): Timeouts => {
  const began = Math.max(createdAt.getTime(), notBefore?.getTime() ?? 0)
  return defined({
    scheduleToStart: limits.scheduleToStartSeconds ?? undefined,
    startToClose: limits.startToCloseSeconds ?? undefined,
    heartbeat: limits.heartbeatSeconds ?? undefined,
    scheduleToClose: closeAt
      ? Math.max(1, Math.round((closeAt.getTime() - began) / 1000))
      : undefined,
  })
}
