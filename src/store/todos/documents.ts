/**
 * The documents of one todo that is too large to be read whole, chosen by the size that stands beside
 * each: what fits into an answer, or one page after another. None that is left out is read.
 */
import type { ChunkOf } from '../../base/chunks.ts'
import { ARTIFACT_BYTES, HISTORY_BYTES, PAGE_BYTES, READ_BYTES } from '../../domain/budget.ts'
import type { Artifact, StoredDocument, StoredMessage } from '../../domain/todo.ts'
import { largeStatement, type Session, statement } from '../postgres/database.ts'
import { columnsOf, readOne } from '../postgres/rows.ts'
import { $, sql } from '../postgres/sql.ts'

export const MESSAGE = columnsOf<StoredMessage>()([
  'seq message receivedAt answers secret sender request',
])

/** What it takes, known from the row; of a row of before it has to be measured. */
export const MESSAGE_BYTES = (m: string): string =>
  `coalesce(${m}.bytes, octet_length(${m}.message::text))`
const CHUNK_BYTES = (a: string): string => `coalesce(${a}.bytes, octet_length(${a}.artifact::text))`

export type Chunk = ChunkOf<Artifact>

export const CHUNK_JSON = (a: string): string =>
  `json_build_object('append', ${a}.append, 'artifact', ${a}.artifact)`

/** As much of a todo as one answer shows. */
export interface Fitting {
  messages: StoredMessage[]
  /** Null where all of them would be too much, or where nobody has asked for them. */
  chunks: Chunk[] | null
  /** How many older messages there are. */
  left: number
  artifactBytes: number
}

const UNTIL = sql`coalesce(${$.through}::int, 2147483647)`

/** The first message and that of the status, then the newest ones. */
const fittingStatement = largeStatement<{
  messages: StoredMessage[] | null
  chunks: Chunk[] | null
  left: number
  artifactBytes: number
}>(
  'documents_fitting',
  'client_id',
  sql`select
    (select json_agg(${MESSAGE.json('s')} order by s.seq) from (
      select m.*, sum(${MESSAGE_BYTES('m')}) over (
        order by m.seq in (1, ${$.seq}::int) desc, m.seq desc) as upto
      from messages m where m.todo_id = ${$.id}::uuid and m.seq <= ${UNTIL}) s
      where s.upto <= ${$.history_bytes}::float8 or s.seq in (1, ${$.seq}::int)) as messages,
    (select count(*)::int from messages m where m.todo_id = ${$.id}::uuid and m.seq <= ${UNTIL}) as left,
    case when size.bytes <= ${$.artifact_bytes}::float8 then (
      select json_agg(${CHUNK_JSON('a')} order by a.seq) from artifacts a
      where a.todo_id = ${$.id}::uuid and a.seq <= ${UNTIL}) end as chunks,
    size.bytes as "artifactBytes"
  from (select coalesce(sum(${CHUNK_BYTES('a')}), 0)::float8 as bytes from artifacts a
    where ${$.artifact_bytes}::float8 > 0 and a.todo_id = ${$.id}::uuid and a.seq <= ${UNTIL}) size`,
)

/** How much of a todo is wanted, in bytes. */
export interface Wanted {
  historyBytes: number
  /** Zero: none are wanted. */
  artifactBytes: number
  /** As it was right after this event; null: right after the last one that its row knows. */
  through: number | null
}

export const ALL: Wanted = {
  historyBytes: HISTORY_BYTES,
  artifactBytes: ARTIFACT_BYTES,
  through: null,
}

/** One claim hands over half of what it may for messages, and half for artifacts. */
export const OF_CLAIM: Wanted = {
  historyBytes: PAGE_BYTES / 2,
  artifactBytes: PAGE_BYTES / 2,
  through: null,
}

export const readFitting = async (
  session: Session,
  todo: { id: string; statusSeq: number; clientId: string | null },
  { historyBytes, artifactBytes: mostBytes, through }: Wanted,
): Promise<Fitting> => {
  const row = await readOne(session, fittingStatement, {
    id: todo.id,
    client_id: todo.clientId,
    seq: todo.statusSeq,
    history_bytes: historyBytes,
    artifact_bytes: mostBytes,
    through,
  })
  const messages = MESSAGE.revive(row?.messages ?? [])
  const artifactBytes = row?.artifactBytes ?? 0
  return {
    messages,
    chunks: mostBytes > 0 && artifactBytes <= mostBytes ? (row?.chunks ?? []) : null,
    left: (row?.left ?? 0) - messages.length,
    artifactBytes,
  }
}

/** How many of one page at most. */
const PAGE_DOCUMENTS = 1000

/** A page measures no more rows of before than this: a page of them may be short, and reading all is no square. */
const PAGE_MEASURED = 16

/** The size of the `n`th row of a page, or one that ends the page where it is not to be measured. */
export const BYTES_ON_PAGE = (row: string, n: string, document: 'message' | 'artifact'): string =>
  `case when ${row}.bytes is null and ${n} > ${PAGE_MEASURED} then ${READ_BYTES + 1}
    else coalesce(${row}.bytes, octet_length(${row}.${document}::text)) end`

/** Of each table the rows that could be on the page: their sizes are known without reading them. */
const pageStatement = statement<StoredDocument & { more: boolean }>(
  'documents_page',
  sql`with next as materialized (
    select d.*, row_number() over (order by d.seq) as n,
      sum(d.bytes) over (order by d.seq) as upto, count(*) over () as found
    from (
      (select m.seq, ${BYTES_ON_PAGE('m', 'm.n', 'message')} as bytes, null as artifact_id
        from (select m.*, row_number() over (order by m.seq) as n from messages m
          where m.todo_id = ${$.id}::uuid and m.seq > ${$.after}::int
          order by m.seq limit ${PAGE_DOCUMENTS} + 1) m)
      union all
      (select a.seq, ${BYTES_ON_PAGE('a', 'a.n', 'artifact')}, a.artifact_id
        from (select a.*, row_number() over (order by e.seq) as n from events e join artifacts a
            on a.todo_id = e.todo_id and a.artifact_id = e.artifact_id and a.seq = e.seq
          where e.todo_id = ${$.id}::uuid and e.seq > ${$.after}::int and e.artifact_id is not null
          order by e.seq limit ${PAGE_DOCUMENTS} + 1) a)) d)
  select n.seq, case when m.seq is not null then ${MESSAGE.json('m')} end as message,
    coalesce(m.owed and m.seq > (select t.acknowledged_seq from todos t where t.id = ${$.id}::uuid), false)
      as owed,
    case when a.seq is not null then json_build_object(
      'artifact', a.artifact, 'append', a.append, 'lastChunk', a.last_chunk) end as artifact,
    n.n < n.found as more
  from next n
    left join messages m on m.todo_id = ${$.id}::uuid and m.seq = n.seq and n.artifact_id is null
    left join artifacts a on a.todo_id = ${$.id}::uuid and a.artifact_id = n.artifact_id and a.seq = n.seq
  where n.n = 1 or (n.upto <= ${READ_BYTES} and n.n <= ${PAGE_DOCUMENTS})
  order by n.seq`,
)

/** A page of all documents after this seq, and where the next one begins; null where there is none. */
export const readDocuments = async (
  session: Session,
  id: string,
  after: number,
): Promise<{ documents: StoredDocument[]; next: number | null }> => {
  const rows = await session.run(pageStatement, { id, after })
  const documents = rows.map(({ more: _, ...document }) => {
    if (document.message) MESSAGE.revive([document.message])
    return document
  })
  const last = rows.at(-1)
  return { documents, next: last?.more ? last.seq : null }
}
