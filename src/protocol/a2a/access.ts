/**
 * Who may do what on a queue's A2A face, the same in every version: senders see the tasks they
 * sent, people who answer (endpoints with the verb `answer`) may read any task of the queue and
 * reply to it, the admin token has no business here. A queue that does not exist and one that the
 * caller has no right on are one refusal.
 */

import { type Caller, may, type Scope } from '../../domain/endpoint.ts'
import { Refusal } from '../../domain/errors.ts'
import type { Queue } from '../../domain/queue.ts'
import type { QueueCall } from '../method.ts'
import { requireExtensions } from './extensions.ts'

/** `own`: everything with the tasks one has sent. `answering`: read any task and reply to it. */
type Use = 'own' | 'answering'

const NO_OPERATORS = 'The admin token does not open /a2a; use the token of a vended endpoint'

/**
 * The todos that `caller` may touch on `queue` (its name) for this use. Refuses: forbidden.
 * An endpoint with both verbs answers as widely as its `answer` allows.
 */
const scopeOn = (caller: Caller, queue: string, use: Use): Scope => {
  if (caller.kind === 'operator') throw new Refusal('forbidden', {}, NO_OPERATORS)
  if (use === 'answering' && may(caller, 'answer', queue)) {
    return { kind: 'queues', queues: [queue] }
  }
  if (may(caller, 'send', queue)) return { kind: 'client', clientId: caller.endpoint.id, queue }
  throw new Refusal('forbidden')
}

/** The queue, for a caller who may do anything there at all. Refuses: forbidden. */
export const enterQueue = (caller: Caller, queue: Queue | null): Queue => {
  scopeOn(caller, queue?.name ?? '', 'answering')
  if (!queue) throw new Refusal('forbidden')
  return queue
}

/** A row's right, and its scope: the same question asked twice gives the same answer. */
export const own = (ctx: QueueCall): Scope => scopeOn(ctx.caller, ctx.queue.name, 'own')
export const answering = (ctx: QueueCall): Scope => scopeOn(ctx.caller, ctx.queue.name, 'answering')

/** The rights of the two methods that send: also what the card requires of clients was asked for. */
export const sending = (ctx: QueueCall): Scope => {
  const scope = answering(ctx)
  requireExtensions(ctx)
  return scope
}
export const sendingOwn = (ctx: QueueCall): Scope => {
  const scope = own(ctx)
  requireExtensions(ctx)
  return scope
}
