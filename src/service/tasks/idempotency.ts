/**
 * The same send again: by which key it is known, what makes it the same, and what it is answered
 * with. A repeat is answered with what the first send made, as it stands now; nothing is made, moved
 * or canceled a second time. Only an accepted send is remembered, so a refused one can be corrected.
 */
import { createHash } from 'node:crypto'
import { canonicalJson } from '../../base/canonical-json.ts'
import { defined } from '../../base/defined.ts'
import type { Scope } from '../../domain/endpoint.ts'
import { orNotFound, Refusal } from '../../domain/errors.ts'
import { settled } from '../../domain/lifecycle.ts'
import { messageContent, nonEmpty } from '../../domain/message-content.ts'
import {
  IDEMPOTENCY_WINDOW,
  idempotencyWindowSeconds,
  type QueuePolicy,
  TIMEOUT_NAMES,
  type Timeouts,
} from '../../domain/policy.ts'
import type { JsonObject, Message, Todo } from '../../domain/todo.ts'
import { IDEMPOTENCY_MEMBER, WAIT_MEMBER } from '../../domain/todo.ts'
import type { Database } from '../../store/postgres/database.ts'
import type { KnownKey, SendKey } from '../../store/todos/idempotency.ts'
import { readMessageId, readView } from '../../store/todos/view.ts'
import type { Parts } from '../parts.ts'
import type { Send, Sent } from './client.ts'

/** The operator is one principal and no endpoint. */
export const OPERATOR = '00000000-0000-0000-0000-000000000000'

/** The metadata without the key itself, and without what is about the answer alone. */
const optionsIn = (metadata: JsonObject | undefined): JsonObject | undefined => {
  if (!metadata) return undefined
  const { [IDEMPOTENCY_MEMBER]: _key, [WAIT_MEMBER]: _wait, ...rest } = metadata
  return nonEmpty(rest)
}

/**
 * What makes two sends of one key the same: where the message goes, what it says, and the options
 * that come with it. Not its id, which some clients make anew at each try, and not how it is
 * answered.
 */
const digestOf = (send: Send, options: object): string => {
  const { taskId, contextId } = send.message
  const said = {
    taskId,
    contextId,
    ...messageContent(send.message),
    // The name stays: the digests of earlier sends are stored.
    wishes: optionsIn(send.metadata),
    ...options,
  }
  return createHash('sha256').update(canonicalJson(said)).digest('hex')
}

/** To the second, as a todo keeps its deadline as a moment. */
const closesWithin = ({ closeAt, createdAt, notBefore }: Todo): number | null =>
  closeAt &&
  Math.round((closeAt.getTime() - Math.max(+createdAt, notBefore ? +notBefore : 0)) / 1000)

/** The todo has what this send names. */
const fitting =
  ({ priority, timeouts = {} }: Send) =>
  (todo: Todo): boolean => {
    const has: Record<keyof Timeouts, number | null> = {
      scheduleToStart: todo.scheduleToStartSeconds,
      startToClose: todo.startToCloseSeconds,
      scheduleToClose: closesWithin(todo),
      heartbeat: todo.heartbeatSeconds,
    }
    return (
      (priority === undefined || priority === todo.priority) &&
      TIMEOUT_NAMES.every((name) => timeouts[name] === undefined || timeouts[name] === has[name])
    )
  }

/**
 * What an operator says beside the message, where a client would say it in the metadata. Of priority and
 * timeouts the digests of before know nothing, so a repeat across an upgrade is held against its todo.
 */
const digestsOf = (send: Send): Pick<SendKey, 'digest' | 'former'> => {
  if (send.metadata !== undefined) return { digest: digestOf(send, {}) }
  const { author, budget, notBefore, delaySeconds, priority, timeouts } = send
  const known = defined({ author, budget, notBefore: notBefore?.toISOString(), delaySeconds })
  const digest = digestOf(send, { ...known, ...defined({ priority, timeouts }) })
  if (priority === undefined && timeouts === undefined) return { digest }
  return { digest, former: { digest: digestOf(send, known), fits: fitting(send) } }
}

/** The one text of what a message says, and of who says it. */
export const contentText = (message: Message): string =>
  canonicalJson({ role: message.role, ...messageContent(message) })

export interface Keys {
  /**
   * The key under which this send is known: the one that it brings, else, if the queue's policy says
   * so, the id of a message that makes a todo. Null if it is a send of its own.
   */
  of(send: Send, policy: QueuePolicy | null, clientId: string | null): Promise<SendKey | null>
}

export const createKeys = ({ registry }: Pick<Parts, 'registry'>): Keys => ({
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
      ...digestsOf(send),
      seconds: idempotencyWindowSeconds(window),
    }
  },
})

/** What a message to a live todo, or a repeated send, is answered with. */
export type Replied = Sent & Required<Pick<Sent, 'receipt'>>

/**
 * The answer for a message that is there already. It waits for what its first sending waits for: a
 * status later than itself. The first message of a todo that was rejected at once has that status
 * itself. No webhook is made a second time.
 */
export const repeated = async (
  database: Database,
  id: string,
  seq: number,
  scope: Scope,
): Promise<Replied> => {
  const view = orNotFound(await readView(database, id, scope))
  const { messageId, answers } = (await readMessageId(database, id, seq)) ?? {
    messageId: '',
    answers: null,
  }
  const over = settled(view.todo) && (view.todo.statusSeq > seq || seq === 1)
  return { view, after: over ? 0 : seq, receipt: { messageId, seq, outcome: 'repeated', answers } }
}

/** Refuses: idempotency_conflict; not_found if what the first send made is gone, or not yours. */
export const replayed = async (
  database: Database,
  key: SendKey,
  known: KnownKey,
  scope: Scope,
): Promise<Replied> => {
  const isSame = known.digest === key.digest
  if (!isSame && known.digest !== key.former?.digest) throw new Refusal('idempotency_conflict')
  const replied = await repeated(database, known.todoId, known.seq, scope)
  if (!isSame && !key.former?.fits(replied.view.todo)) throw new Refusal('idempotency_conflict')
  return replied
}
