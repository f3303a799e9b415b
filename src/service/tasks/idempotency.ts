/**
 * The same send again: by which key it is known, what makes it the same, and what it is answered
 * with. What the first one made is answered as it stands now; nothing is made, moved or canceled a
 * second time. Only a send that was taken is remembered, so one that was refused may be corrected.
 */
import { createHash } from 'node:crypto'
import { canonicalJson } from '../../domain/canonical-json.ts'
import type { Scope } from '../../domain/endpoint.ts'
import { Refusal } from '../../domain/errors.ts'
import { settled } from '../../domain/lifecycle.ts'
import {
  IDEMPOTENCY_WINDOW,
  idempotencyWindowSeconds,
  type QueuePolicy,
} from '../../domain/policy.ts'
import type { JsonObject, TodoView } from '../../domain/todo.ts'
import { IDEMPOTENCY_MEMBER, WAIT_MEMBER } from '../../domain/todo.ts'
import type { Database } from '../../store/postgres/database.ts'
import type { KnownKey, SendKey } from '../../store/todos/idempotency.ts'
import { readView } from '../../store/todos/view.ts'
import type { Registry } from '../registry.ts'
import type { Send, Sent } from './client.ts'

/** The operator is one principal and no endpoint. */
const OPERATOR = '00000000-0000-0000-0000-000000000000'

/** Absent and empty are the same, as everywhere in A2A. */
const some = <T extends object>(value: T | undefined): T | undefined =>
  value && Object.keys(value).length > 0 ? value : undefined

/** Without the key itself, and without what is about the answer alone. */
const wishesIn = (metadata: JsonObject | undefined): JsonObject | undefined => {
  if (!metadata) return undefined
  const { [IDEMPOTENCY_MEMBER]: _key, [WAIT_MEMBER]: _wait, ...rest } = metadata
  return some(rest)
}

/**
 * What makes two sends of one key the same: where the message goes, what it says, and what is wished
 * for with it. Not its id, which some clients make anew at each try, and not how it is answered.
 */
const digestOf = ({ message, metadata }: Pick<Send, 'message' | 'metadata'>): string => {
  const { taskId, contextId, parts } = message
  const said = {
    taskId,
    contextId,
    parts,
    metadata: some(message.metadata),
    extensions: some(message.extensions),
    referenceTaskIds: some(message.referenceTaskIds),
    wishes: wishesIn(metadata),
  }
  return createHash('sha256').update(canonicalJson(said)).digest('hex')
}

export interface Keys {
  /**
   * Under which key this send is known: the one that it brings, else, where the queue's policy says
   * so, the id of a message that makes a todo. Null: it is a send of its own.
   */
  of(send: Send, policy: QueuePolicy | null, clientId: string | null): Promise<SendKey | null>
}

export const createKeys = ({ registry }: { registry: Pick<Registry, 'settings'> }): Keys => ({
  of: async (send, policy, clientId) => {
    const byMessage = send.idempotencyKey === undefined && policy?.dedupe === 'messageId'
    const key = byMessage ? send.message.messageId : send.idempotencyKey
    if (key === undefined) return null
    const window = (await registry.settings()).get(IDEMPOTENCY_WINDOW.setting) ?? null
    return {
      endpointId: clientId ?? OPERATOR,
      queue: send.queue,
      source: byMessage ? 'messageId' : 'key',
      key,
      digest: digestOf(send),
      seconds: idempotencyWindowSeconds(window),
    }
  },
})

/** What a repeated send is answered with: no webhook comes with it a second time. */
type Repeated = Sent & Required<Pick<Sent, 'receipt'>>

/**
 * A message that is there already, and what its first sending waits for: a status later than itself.
 * The first message of a todo that was rejected at once has that status itself.
 */
export const repeated = (view: TodoView, seq: number): Repeated => {
  const { message, answers = null } = view.messages.find((stored) => stored.seq === seq) ?? {}
  const over = settled(view.todo) && (view.todo.statusSeq > seq || seq === 1)
  return {
    view,
    after: over ? 0 : seq,
    receipt: { messageId: message?.messageId ?? '', seq, outcome: 'repeated', answers },
  }
}

/** Refuses: idempotency_conflict; not_found where what it made is not there, or yours, any more. */
export const replayed = async (
  database: Database,
  key: SendKey,
  known: KnownKey,
  scope: Scope,
): Promise<Repeated> => {
  if (known.digest !== key.digest) throw new Refusal('idempotency_conflict')
  const view = await readView(database, known.todoId, scope)
  if (!view) throw new Refusal('not_found')
  return repeated(view, known.seq)
}
