/**
 * What the caller of a verb brings, and the parameters it becomes: of a statement for one todo, or as the
 * rows of a batch.
 */
import { exactText } from '../../base/exact-json.ts'
import type { State } from '../../domain/lifecycle.ts'
import type { Amounts } from '../../domain/spend.ts'
import type {
  EventDetail,
  JoinUntil,
  JsonObject,
  Message,
  RequestFacts,
} from '../../domain/todo.ts'
import { $, joinSql, type ParamName, type Sql, sql } from '../postgres/sql.ts'
import { keyParameters, type SendKey } from '../todos/idempotency.ts'
import { sizeOf } from '../todos/size.ts'

/** Members that a verb does not use are ignored by its SQL. */
export interface Change {
  /** The endpoint that acts; for a holder's verbs it must own the row. */
  endpoint?: string
  fence?: string
  leaseSeconds?: number
  claimant?: string
  /** Interrupt: which of the two; and whether the holder keeps the row while it waits. */
  asked?: State
  park?: boolean
  holdSeconds?: number
  message?: Message
  /** What a todo keeps the message as, once; absent: its id. */
  keptAs?: string
  /** What a client said beside it. */
  request?: RequestFacts
  artifact?: {
    id: string
    json: string
    append: boolean
    lastChunk: boolean
    key?: string | undefined
  }
  detail?: EventDetail
  summary?: string
  cause?: string
  /** Fail: seconds until the next try; absent makes it a dead letter. */
  retrySeconds?: number
  /** Release: seconds until it may be claimed again. */
  dueSeconds?: number
  result?: JsonObject
  direct?: boolean
  maxWaitSeconds?: number
  /** Interrupt: what the data part of the answer must look like. */
  schema?: JsonObject
  /** Resume, answer: the seq of the question that was read when the answer was checked. */
  question?: number
  /** The idempotency key of a client's message. */
  key?: SendKey
  /** Join: for which children, and until when. */
  children?: readonly string[]
  joinUntil?: JoinUntil
  /** Join: how long at most, and whether the children that live by then are canceled. */
  joinSeconds?: number
  joinCancels?: boolean
  /** Adopt: the child that is made anew, and the one it is from now on. */
  retry?: { of: string; by: string }
  /** Spend: how much, under which key; and that all above the todo can afford it. */
  spend?: { amounts: Amounts; key?: string | undefined }
  afforded?: boolean
  /** Claim: only todos that may use all of these. */
  effects?: readonly string[]
  /** Messages up to this seq are handled. */
  through?: number
  /** Revoke: the queues it is settled for. */
  queues?: readonly string[]
  /** A cascading cancel: the parents whose children are canceled. */
  parents?: readonly string[]
  /** Sweeps: the instance-wide wait of an interrupt; null is unbounded. */
  ttlSeconds?: number | null
}

/** What a change writes, as JSON, and how many bytes that is; null where it brings nothing. */
interface Written {
  message: string | undefined
  request: string | undefined
  schema: string | undefined
  result: string | undefined
  bytes: number | null
  resultBytes: number | null
}

const NOTHING: Written = {
  message: undefined,
  request: undefined,
  schema: undefined,
  result: undefined,
  bytes: null,
  resultBytes: null,
}

const written = (change: Change): Written => {
  const { message, artifact, result, detail } = change
  const metadata = detail?.metadata
  if (!message && !artifact && !result && !metadata) return NOTHING
  const messageJson = message && exactText(message)
  const requestJson = change.request && exactText(change.request)
  const schemaJson = change.schema && exactText(change.schema)
  const resultJson = result && exactText(result)
  const beside = sizeOf(requestJson) + sizeOf(schemaJson) + sizeOf(metadata && exactText(metadata))
  const resultBytes = sizeOf(resultJson)
  return {
    message: messageJson,
    request: requestJson,
    schema: schemaJson,
    result: resultJson,
    bytes: sizeOf(messageJson) + sizeOf(artifact?.json) + beside + resultBytes,
    resultBytes,
  }
}

export const parameters = (change: Change): Record<string, unknown> =>
  withDocuments(change, written(change))

/** One literal, since what is spread at its beginning would make it slow. */
const withDocuments = (change: Change, documents: Written): Record<string, unknown> => ({
  message: documents.message,
  message_id: change.keptAs ?? change.message?.messageId,
  request: documents.request,
  artifact: change.artifact?.json,
  artifact_id: change.artifact?.id,
  append: change.artifact?.append,
  last_chunk: change.artifact?.lastChunk,
  chunk_key: change.artifact?.key,
  schema: documents.schema,
  result: documents.result,
  bytes: documents.bytes,
  result_bytes: documents.resultBytes,
  endpoint: change.endpoint,
  fence: change.fence,
  lease_seconds: change.leaseSeconds,
  claimant: change.claimant,
  asked: change.asked,
  park: change.park,
  hold_seconds: change.holdSeconds,
  detail: change.detail && exactText(change.detail),
  summary: change.summary,
  cause: change.cause,
  retry_seconds: change.retrySeconds,
  due_seconds: change.dueSeconds,
  direct: change.direct,
  max_wait_seconds: change.maxWaitSeconds,
  question: change.question,
  children: change.children,
  join_until: change.joinUntil,
  join_seconds: change.joinSeconds,
  join_cancels: change.joinCancels,
  retry_of: change.retry?.of,
  retry_by: change.retry?.by,
  through: change.through,
  spend: change.spend && JSON.stringify(change.spend.amounts),
  spend_key: change.spend?.key,
  afforded: change.afforded,
  effects: change.effects,
  ttl_seconds: change.ttlSeconds,
  queues: change.queues,
  parents: change.parents,
  ...keyParameters(change.key),
})

/* ---------------------------------------------------------------------- batches */

/** Parameters of the verbs that are batched, by their types. */
const BATCH_TYPES = {
  id: 'uuid',
  endpoint: 'uuid',
  fence: 'bigint',
  lease_seconds: 'int',
  due_seconds: 'double precision',
  message: 'text',
  message_id: 'text',
  artifact: 'text',
  artifact_id: 'text',
  append: 'boolean',
  last_chunk: 'boolean',
  chunk_key: 'text',
  detail: 'text',
  summary: 'text',
  cause: 'text',
  result: 'text',
  bytes: 'int',
  result_bytes: 'int',
  direct: 'boolean',
  through: 'int',
} as const satisfies Partial<Record<ParamName, string>>

const BATCHED = Object.entries(BATCH_TYPES) as [keyof typeof BATCH_TYPES, string][]
const column = (name: string): string => `batch_${name}`

/** The first `with` of a batch's statement: its rows in the order of their ids. */
export const BATCH_ROWS: Sql = sql`batch as materialized (
  select * from unnest(${joinSql(
    BATCHED.map(([name, type]) => sql`${$[name]}::${type}[]`),
    ', ',
  )})
    as b(${BATCHED.map(([name]) => column(name)).join(', ')}) order by ${column('id')})`

/** All of them, as columns of this alias. */
export const batchColumns = (alias: string): string =>
  BATCHED.map(([name]) => `${alias}.${column(name)}`).join(', ')

/** The fragment with each parameter read from the batch's row. Throws for one that a batch lacks. */
export const bindToBatch = (alias: string, fragment: Sql): Sql =>
  fragment.replaceParams(({ name }) => {
    if (!Object.hasOwn(BATCH_TYPES, name)) throw new Error(`a batch has no parameter ${name}`)
    return `${alias}.${column(name)}`
  })

/** Which todo, and what is brought to it. */
export interface BatchItem {
  id: string
  change: Change
}

/** The values of {@link BATCH_ROWS}. */
export const batchValues = (items: readonly BatchItem[]): Record<string, unknown[]> => {
  const rows = items.map(
    ({ id, change }): Record<string, unknown> => ({
      ...parameters(change),
      id,
    }),
  )
  return Object.fromEntries(BATCHED.map(([name]) => [name, rows.map((row) => row[name] ?? null)]))
}
