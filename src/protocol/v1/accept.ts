/**
 * What a queue's card promises, and so what a request may ask of it (spec 3.3.4, 3.1.1): streams,
 * the extended card, media types. Checked after the params and before a service is asked.
 */
import { invalid, Refusal } from '../../domain/errors.ts'
import type { Queue } from '../../domain/queue.ts'
import type { Part } from '../../domain/todo.ts'
import { inputModesOf } from '../a2a/card.ts'
import { offersPush, offersStreaming } from '../a2a/interfaces.ts'
import { INLINE_PUSH } from './push.ts'
import type { SendMessageRequest } from './schema.ts'

/** Refuses: unsupported, where the card switches streaming off. */
export const acceptStream = (queue: Queue): void => {
  if (!offersStreaming(queue.card)) throw new Refusal('unsupported')
}

const essence = (mediaType: string): string => (mediaType.split(';')[0] ?? '').trim().toLowerCase()

/** `image/png` is in `image/png`, `image/*` and `*` + `/*`; parameters do not count. */
const isIn = (mediaType: string, modes: readonly string[]): boolean => {
  const asked = essence(mediaType)
  return modes.map(essence).some((mode) => {
    if (mode === '*/*' || mode === asked) return true
    return mode.endsWith('/*') && asked.startsWith(mode.slice(0, -1))
  })
}

const acceptPart = (part: Pick<Part, 'mediaType'>, modes: readonly string[]): void => {
  if (part.mediaType && !isIn(part.mediaType, modes)) throw new Refusal('content_type')
}

/** Refuses: push_unsupported, where the card switches push notifications off. */
export const acceptPush = (queue: Queue): void => {
  if (!offersPush(queue.card)) throw new Refusal('push_unsupported')
}

/** A config that came with a message is for the task of that message and no other. */
const acceptInline = ({ message, configuration }: SendMessageRequest): void => {
  const taskId = configuration?.taskPushNotificationConfig?.taskId
  if (taskId !== undefined && taskId !== message.taskId) {
    throw invalid(`${INLINE_PUSH}.taskId`, 'must be left out, or be the task of the message')
  }
}

/**
 * Refuses: push_unsupported also for an inline push config (a client that waits for a call that
 * never comes is worse off than one that is told), content_type for a part whose media type the
 * card leaves out. A queue that declares no input modes takes any.
 */
export const acceptSend = (queue: Queue, request: SendMessageRequest): void => {
  if (request.configuration?.taskPushNotificationConfig) acceptPush(queue)
  acceptInline(request)
  const modes = inputModesOf(queue.card)
  if (modes) for (const part of request.message.parts) acceptPart(part, modes)
}
