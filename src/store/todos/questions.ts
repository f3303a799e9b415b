/** Open questions, what answered one, and the last note of those at work. */
import type { EventDetail } from '../../domain/todo.ts'
import { type Session, type Statement, statement } from '../postgres/database.ts'

export interface AnswerRow {
  seq: number
  message_id: string
  /** The endpoint that sent it; null where an operator did, or somebody with a link. */
  sender: string | null
  metadata: { [key: string]: unknown } | null
  received_at: Date
}

const answerStatement: Statement<AnswerRow> = statement(
  'question_answer',
  `select m.seq, m.message_id, e.name as sender, m.message -> 'metadata' as metadata, m.received_at
  from messages m left join endpoints e on e.id = m.sender
  where m.todo_id = :id::uuid and m.answers = :question::int order by m.seq limit 1`,
)

/** What answered this question; null while nothing has. */
export const readAnswer = async (
  session: Session,
  id: string,
  question: number,
): Promise<AnswerRow | null> => (await session.run(answerStatement, { id, question }))[0] ?? null

interface QuestionRow {
  id: string
  schema: object | null
  /** The endpoint that asked; also of a parked question, which nobody holds. */
  asker: string | null
}

const questionsStatement: Statement<QuestionRow> = statement(
  'questions_read',
  `select w.id, m.schema, (select a.endpoint_id from attempts a
    where a.todo_id = w.id and a.ended_at is null) as asker
  from unnest(:ids::uuid[], :seqs::int[]) as w(id, seq)
  join messages m on m.todo_id = w.id and m.seq = w.seq`,
)

/** By todo: what the answer must look like, if anything, and who asked. */
export const readQuestions = async (
  session: Session,
  questions: readonly { id: string; seq: number }[],
): Promise<ReadonlyMap<string, QuestionRow>> => {
  const rows = await session.run(questionsStatement, {
    ids: questions.map(({ id }) => id),
    seqs: questions.map(({ seq }) => seq),
  })
  return new Map(rows.map((row) => [row.id, row]))
}

const notesStatement = statement<{ id: string; detail: EventDetail }>(
  'progress_notes',
  `select w.id, p.detail from unnest(:ids::uuid[]) as w(id) cross join lateral (
    select e.detail from events e where e.todo_id = w.id and e.verb = 'progress'
    order by e.seq desc limit 1) p where p.detail is not null`,
)

/** What the holder of each todo said of its progress last. */
export const readNotes = async (
  session: Session,
  ids: readonly string[],
): Promise<ReadonlyMap<string, EventDetail>> => {
  if (ids.length === 0) return new Map()
  const rows = await session.run(notesStatement, { ids })
  return new Map(rows.map(({ id, detail }) => [id, detail]))
}
