/** Open questions, what answered them, and the last progress notes. */

import type { EventDetail } from '../../domain/todo.ts'
import { type Session, statement } from '../postgres/database.ts'
import { readOne } from '../postgres/rows.ts'
import { $, sql } from '../postgres/sql.ts'

export interface AnswerRow {
  messageId: string
  /** The endpoint that sent it; null where an operator did, or somebody with a link. */
  sender: string | null
  metadata: { [key: string]: unknown } | null
  receivedAt: Date
}

const answerStatement = statement<AnswerRow>(
  'question_answer',
  sql`select m.message_id as "messageId", e.name as sender, m.message -> 'metadata' as metadata,
    m.received_at as "receivedAt"
  from messages m left join endpoints e on e.id = m.sender
  where m.todo_id = ${$.id}::uuid and m.answers = ${$.question}::int order by m.seq limit 1`,
)

/** The message that answered this question; null while there is none. */
export const readAnswer = (
  session: Session,
  id: string,
  question: number,
): Promise<AnswerRow | null> => readOne(session, answerStatement, { id, question })

interface Question {
  id: string
  schema: object | null
  /** The endpoint that asked, also where the question is parked and nobody holds the todo. */
  asker: string | null
}

const questionsStatement = statement<Question>(
  'questions_read',
  sql`select w.id, m.schema, (select a.endpoint_id from attempts a
    where a.todo_id = w.id and a.ended_at is null) as asker
  from unnest(${$.ids}::uuid[], ${$.seqs}::int[]) as w(id, seq)
  join messages m on m.todo_id = w.id and m.seq = w.seq`,
)

/** For each todo, the schema its answer must fit, if any, and who asked. */
export const readQuestions = async (
  session: Session,
  questions: readonly { id: string; seq: number }[],
): Promise<ReadonlyMap<string, Question>> => {
  const rows = await session.run(questionsStatement, {
    ids: questions.map(({ id }) => id),
    seqs: questions.map(({ seq }) => seq),
  })
  return new Map(rows.map((row) => [row.id, row]))
}

const notesStatement = statement<{ id: string; detail: EventDetail }>(
  'progress_notes',
  sql`select w.id, p.detail from unnest(${$.ids}::uuid[]) as w(id) cross join lateral (
    select e.detail from events e where e.todo_id = w.id and e.verb = 'progress'
    order by e.seq desc limit 1) p where p.detail is not null`,
)

/** The last progress note on each todo that has one. */
export const readNotes = async (
  session: Session,
  ids: readonly string[],
): Promise<ReadonlyMap<string, EventDetail>> => {
  if (ids.length === 0) return new Map()
  const rows = await session.run(notesStatement, { ids })
  return new Map(rows.map(({ id, detail }) => [id, detail]))
}
