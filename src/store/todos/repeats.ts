/** What a holder's call has done, for one that is made again because its answer was lost. */
import type { State, Verb } from '../../domain/lifecycle.ts'
import type { Artifact, EventDetail, JsonObject, Message, Todo } from '../../domain/todo.ts'
import { type Session, statement } from '../postgres/database.ts'
import { readOne } from '../postgres/rows.ts'
import { $, sql } from '../postgres/sql.ts'

/** The event of a verb, with what it brought. */
export interface Done {
  seq: number
  state: State
  at: Date
  detail: EventDetail | null
  message: Message | null
  /** The todo's, as it stands now. */
  result: JsonObject | null
}

const doneStatement = statement<Done>(
  'todo_done',
  sql`select e.seq, e.to_state as state, e.at, e.detail, m.message, d.result
  from events e left join messages m on m.todo_id = e.todo_id and m.seq = e.seq
    left join details d on d.todo_id = e.todo_id
  where e.todo_id = ${$.id}::uuid and e.verb = ${$.verb} and e.fence = ${$.fence}::bigint
    and e.owner = ${$.endpoint}::uuid
    and (${$.message_id}::text is null or m.message_id = ${$.message_id}::text)
  order by e.seq desc limit 1`,
)

/** The newest event of this verb under this fence; the one that brought this message, if one is named. */
export const readDone = (
  session: Session,
  verb: Verb,
  held: { id: string; fence: string; endpoint: string; messageId: string | undefined },
): Promise<Done | null> => {
  const { id, fence, endpoint, messageId } = held
  return readOne(session, doneStatement, { id, verb, fence, endpoint, message_id: messageId })
}

const chunkStatement = statement<{ seq: number; artifact: Artifact }>(
  'artifact_chunk',
  sql`select a.seq, a.artifact from artifacts a
  where a.todo_id = ${$.id}::uuid and a.artifact_id = ${$.artifact_id}
    and (${$.chunk_key}::text is null or a.chunk_key = ${$.chunk_key}::text)
  order by a.seq desc limit 1`,
)

/** The newest chunk of an artifact; the one with this key, if one is named. */
export const readChunk = (
  session: Session,
  id: string,
  artifactId: string,
  key?: string,
): Promise<{ seq: number; artifact: Artifact } | null> =>
  readOne(session, chunkStatement, { id, artifact_id: artifactId, chunk_key: key })

const childrenStatement = statement<Pick<Todo, 'id' | 'queue'> & { message: Message }>(
  'children_made',
  sql`select t.id, t.queue, m.message from todos t
    join messages m on m.todo_id = t.id and m.seq = 1
    join unnest(${$.ids}::uuid[]) with ordinality as w(id, place) on w.id = t.id
  where t.parent_id = ${$.id}::uuid order by w.place`,
)

/** Those of these children of a todo that are there, in this order. */
export const readChildrenMade = (session: Session, id: string, ids: readonly string[]) =>
  session.run(childrenStatement, { id, ids })
