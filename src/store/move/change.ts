/** What the caller of a verb brings, and the parameters of the sentence it becomes. */
import type { State } from '../../domain/lifecycle.ts'
import type { EventDetail, JoinUntil, JsonObject, Message } from '../../domain/todo.ts'
import { keyParameters, type SendKey } from '../todos/idempotency.ts'

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
  artifact?: { id: string; json: string; append: boolean; lastChunk: boolean }
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
  /** Verbs of a client: the key that its message is sent under. */
  key?: SendKey
  /** Join: for which children, and until when. */
  children?: readonly string[]
  joinUntil?: JoinUntil
  /** Adopt: the child that is made anew, and the one it is from now on. */
  retry?: { of: string; by: string }
  /** Messages up to this seq are handled. */
  through?: number
  /** Revoke: the queues it is settled for. */
  queues?: readonly string[]
  /** Cancel, as a cascade: of whom the children are canceled. */
  parents?: readonly string[]
  /** Sweeps: the instance-wide wait of an interrupt; null is unbounded. */
  ttlSeconds?: number | null
}

export const parameters = (change: Change): Record<string, unknown> => ({
  endpoint: change.endpoint,
  fence: change.fence,
  lease_seconds: change.leaseSeconds,
  claimant: change.claimant,
  asked: change.asked,
  park: change.park,
  hold_seconds: change.holdSeconds,
  message: change.message && JSON.stringify(change.message),
  message_id: change.message?.messageId,
  artifact: change.artifact?.json,
  artifact_id: change.artifact?.id,
  append: change.artifact?.append,
  last_chunk: change.artifact?.lastChunk,
  detail: change.detail && JSON.stringify(change.detail),
  summary: change.summary,
  cause: change.cause,
  retry_seconds: change.retrySeconds,
  due_seconds: change.dueSeconds,
  result: change.result && JSON.stringify(change.result),
  direct: change.direct,
  max_wait_seconds: change.maxWaitSeconds,
  schema: change.schema && JSON.stringify(change.schema),
  question: change.question,
  children: change.children,
  join_until: change.joinUntil,
  retry_of: change.retry?.of,
  retry_by: change.retry?.by,
  through: change.through,
  ttl_seconds: change.ttlSeconds,
  queues: change.queues,
  parents: change.parents,
  ...keyParameters(change.key),
})
