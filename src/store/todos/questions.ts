/** Open questions, what answered them, and the last progress notes. */

import { INTERRUPT_STATES } from '../../domain/lifecycle.ts'
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

/** A todo that asks, and the seq of its question. */
export interface OpenQuestion {
  id: string
  seq: number
}

/** The conversation of one author in a queue. */
export interface AuthorsConversation {
  queue: string
  contextId: string
  clientId: string | null
  author: string | null
}

/** More of one conversation are not told. */
const MAX_OPEN = 10

const openStatement = statement<OpenQuestion & { n: number }>(
  'questions_open',
  sql`select c.n::int as n, q.id, q.seq
  from unnest(${$.queues}::text[], ${$.contexts}::text[], ${$.clients}::uuid[],
      ${$.authors}::text[])
    with ordinality as c(queue, context_id, client_id, author, n)
  cross join lateral (
    select t.id, t.status_seq as seq from todos t
    where t.context_id = c.context_id and t.queue = c.queue
      and t.client_id is not distinct from c.client_id
      and t.author is not distinct from c.author
      and t.state in (${INTERRUPT_STATES.map((state) => `'${state}'`).join(', ')})
      and t.answered_at is null
    order by t.interrupted_at limit ${String(MAX_OPEN)}) q
  order by c.n`,
)

/** The open questions of each conversation, oldest first. */
export const readOpenQuestions = async (
  session: Session,
  conversations: readonly AuthorsConversation[],
): Promise<OpenQuestion[][]> => {
  const rows = await session.run(openStatement, {
    queues: conversations.map(({ queue }) => queue),
    contexts: conversations.map(({ contextId }) => contextId),
    clients: conversations.map(({ clientId }) => clientId),
    authors: conversations.map(({ author }) => author),
  })
  return conversations.map((_, index) =>
    rows.filter(({ n }) => n === index + 1).map(({ id, seq }) => ({ id, seq })),
  )
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
