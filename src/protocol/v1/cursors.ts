/**
 * The ids of a stream's events. A subscription's are numbers, since its request names the task. A
 * send's name their task as well: a client that reconnects by itself posts the same send again with
 * `Last-Event-ID`, and only the id can tell that stream from a new one.
 */
import { canonicalJson } from '../../base/canonical-json.ts'
import { invalid } from '../../domain/errors.ts'
import type { TodoView } from '../../domain/todo.ts'
import type { SendMessageRequest } from './schema.ts'

const FIELD = 'Last-Event-ID'

/** A message as it came in. */
type Message = SendMessageRequest['message']

const NUMBER = /^\d{1,10}$/
const OF_SEND = /^([0-9a-f-]{36}):(\d{1,10})$/

/** Where a stream goes on: after this event of this task. */
export interface Cursor {
  taskId: string
  seq: number
}

export const sendEventId = (taskId: string, seq: number): string => `${taskId}:${seq}`

/** The seq that a subscription resumes after; null if there is none. Refuses: invalid. */
export const toCursor = (lastEventId: string | null, taskId: string): number | null => {
  if (lastEventId === null) return null
  if (NUMBER.test(lastEventId)) return Number(lastEventId)
  const [, named, seq] = OF_SEND.exec(lastEventId) ?? []
  if (named === taskId) return Number(seq)
  throw invalid(FIELD, 'must be the id of an event of this task')
}

/** Refuses: invalid, for an event that the task does not have yet. */
export const checkReached = (cursor: number, { todo }: TodoView): void => {
  if (cursor > todo.seq) throw invalid(FIELD, 'must be the id of an event of this task')
}

/**
 * The event that a repeated send goes on after; null for a send that opens a new stream. A number
 * alone will do where the message names its task. Refuses: invalid.
 */
export const toSendCursor = (lastEventId: string | null, message: Message): Cursor | null => {
  if (lastEventId === null) return null
  const { taskId } = message
  if (taskId !== undefined && NUMBER.test(lastEventId)) return { taskId, seq: Number(lastEventId) }
  const [, named, seq] = OF_SEND.exec(lastEventId) ?? []
  if (named !== undefined && (taskId === undefined || taskId === named)) {
    return { taskId: named, seq: Number(seq) }
  }
  throw notOfThisSend()
}

/** One refusal, whether the task is another's, is gone, or never had this message. */
export const notOfThisSend = () =>
  invalid(FIELD, 'must be the id of an event of the stream that this very message has opened')

const said = ({ parts, metadata }: Pick<Message, 'parts' | 'metadata'>): string =>
  canonicalJson({ parts, metadata })

/** Where this message is in the task, id and content. Refuses: invalid. */
export const placeOf = (message: Message, { messages }: TodoView): number => {
  const found = messages.find(
    (stored) =>
      stored.message.role === message.role &&
      stored.message.messageId === message.messageId &&
      said(stored.message) === said(message),
  )
  if (!found) throw notOfThisSend()
  return found.seq
}
