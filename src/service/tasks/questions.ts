/** What todos ask at the moment, with everything somebody needs to answer: three reads at most, for all of them. */
import { phaseOf } from '../../domain/lifecycle.ts'
import type { JsonObject, Todo } from '../../domain/todo.ts'
import { readEndpointsById } from '../../store/admin/endpoints.ts'
import type { Database } from '../../store/postgres/database.ts'
import { readQuestions } from '../../store/todos/questions.ts'
import type { Registry } from '../registry.ts'
import { deadlineOf } from './question-deadline.ts'

/** An open question: its place in the todo's order, and until when it may be answered. */
export interface Question {
  seq: number
  deadline: Date | null
  /** What the data part of its answer must look like; null where anything goes. */
  schema: JsonObject | null
}

/** Interrupted, and not answered yet. */
export const asks = (todo: Todo): boolean =>
  phaseOf(todo) === 'interrupted' && todo.answeredAt === null

/** The question of each todo in turn; null for one that asks nothing. */
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
