/**
 * What a queue's card promises, and so what a request may ask for (spec 3.3.4, 3.1.1): streams,
 * webhooks, media types. Checked after the params and before a service is called.
 */
import { invalid, Refusal } from '../../domain/errors.ts'
import type { Queue } from '../../domain/queue.ts'
import type { Part } from '../../domain/todo.ts'
import { inputModesOf } from '../a2a/card.ts'
import { offersPush, offersStreaming } from '../a2a/interfaces.ts'
import { isIn } from '../a2a/modes.ts'
import { INLINE_PUSH } from './push.ts'
import type { SendMessageRequest } from './schema.ts'

/** Refuses: unsupported, if the card switches streaming off. */
export const acceptStream = (queue: Queue): void => {
  if (!offersStreaming(queue.card)) throw new Refusal('unsupported')
}

const acceptPart = (part: Pick<Part, 'mediaType'>, modes: readonly string[]): void => {
  if (part.mediaType && !isIn(part.mediaType, modes)) throw new Refusal('content_type')
}

/** Refuses: push_unsupported, if the card switches push notifications off. */
export const acceptPush = (queue: Queue): void => {
  if (!offersPush(queue.card)) throw new Refusal('push_unsupported')
}

/** A config that comes with a message may be for that message's task only. */
const acceptInline = ({ message, configuration }: SendMessageRequest): void => {
  const taskId = configuration?.taskPushNotificationConfig?.taskId
  if (taskId !== undefined && taskId !== message.taskId) {
    throw invalid(`${INLINE_PUSH}.taskId`, 'must be left out, or be the task of the message')
  }
}

/**
 * Refuses: push_unsupported even for an inline push config (a client that is refused is better off
 * than one that waits for a call that never comes), content_type for a part whose media type the
 * card does not list. A queue that declares no input modes accepts any.
 */
export const acceptSend = (queue: Queue, request: SendMessageRequest): void => {
  if (request.configuration?.taskPushNotificationConfig) acceptPush(queue)
  acceptInline(request)
  const modes = inputModesOf(queue.card)
  if (modes) for (const part of request.message.parts) acceptPart(part, modes)
}
