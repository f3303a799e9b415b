/**
 * What a retry takes over from its dead letter: the conversation since its first message, what of it is
 * still owed an answer, and the artifacts where they are wanted. Each document keeps its seq, so that
 * answers keep their questions; the retry's own events begin behind the last of them. These are clauses
 * of the statement that adds the retry, `a` in `added`.
 */
import { $, sql } from '../../postgres/sql.ts'
import { MESSAGE_BYTES } from '../../todos/documents.ts'

const CHUNK_BYTES = 'coalesce(a.bytes, octet_length(a.artifact::text))'

/** The dead letter, and what of it the retry holds from the start. */
export const DEAD = sql`dead as materialized (
  select d.seq, d.unread, d.acknowledged_seq, s.documents, s.bytes
  from todos d cross join lateral (
    select count(*)::int as documents, coalesce(sum(h.bytes), 0)::int as bytes from (
      select ${MESSAGE_BYTES('m')} as bytes from messages m where m.todo_id = d.id and m.seq > 1
      union all
      select ${CHUNK_BYTES} from artifacts a where a.todo_id = d.id and ${$.with_artifacts}::boolean) h) s
  where d.id = ${$.retry_of}::uuid)`

/** A message names its task. Its other members are copied as text, so that numbers keep their digits. */
const RENAMED = `case when m.message -> 'taskId' is null then m.message else (
      select json_object_agg(k.key, case k.key when 'taskId' then to_json(a.id) else k.value end)
      from json_each(m.message) k) end`

/** Artifacts come as events, which readers of chunks and of streams go by; the rest is history. */
export const CARRIED = sql`,
said as (
  insert into messages (todo_id, seq, message_id, role, owed, sender, message, request, received_at,
    answers, secret, schema, bytes)
  select a.id, m.seq, m.message_id, m.role, m.owed, m.sender, ${RENAMED}, m.request, m.received_at,
    m.answers, m.secret, m.schema, ${MESSAGE_BYTES('m')}
  from added a join messages m on m.todo_id = a.retry_of and m.seq > 1),
made as (
  insert into artifacts (todo_id, artifact_id, seq, append, last_chunk, artifact, chunk_key, bytes)
  select n.id, a.artifact_id, a.seq, a.append, a.last_chunk, a.artifact, a.chunk_key, ${CHUNK_BYTES}
  from added n join artifacts a on a.todo_id = n.retry_of and ${$.with_artifacts}::boolean
  returning artifact_id, seq),
told as (
  insert into events (todo_id, seq, queue, context_id, verb, from_state, to_state, attempt, fence,
    artifact_id, at, author)
  select a.id, m.seq, a.queue, a.context_id, 'artifact', a.state, a.state, 0, 0, m.artifact_id,
    a.created_at, a.author
  from added a cross join made m)`
