/**
 * The rights of the A2A rows, all read from the access that was decided when the call came in. A
 * row's right is also its scope: the todos it may touch.
 */
import type { Scope } from '../../domain/endpoint.ts'
import type { QueueCall } from '../wire/method.ts'
import { requireExtensions } from './extensions.ts'

export const own = ({ access }: QueueCall): Scope => access.own()
export const answering = ({ access }: QueueCall): Scope => access.answering

/** A send must also have asked for every extension that the queue's card requires. */
export const sending = requireExtensions
export const sendingOwn = (ctx: QueueCall): void => {
  own(ctx)
  requireExtensions(ctx)
}
