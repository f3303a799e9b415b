/**
 * What a caller may do on a queue's A2A interface, the same in every version of the protocol:
 * senders see the tasks they sent; people who answer (endpoints with the verb `answer`) may read
 * any task of the queue and reply to it; the admin token has no business here. It is decided once
 * a call, and a missing queue is refused exactly like one the caller has no right to.
 */
import { type Caller, type Endpoint, may, type Scope } from '../../domain/endpoint.ts'
import { Refusal } from '../../domain/errors.ts'
import type { Queue } from '../../domain/queue.ts'

export interface Access {
  endpoint: Endpoint
  queue: Queue
  /** The tasks that the caller sent, for everything one may do with one's own. Refuses: forbidden. */
  own(): Scope
  /** The tasks that the caller may read and reply to: never fewer than its own. */
  answering: Scope
}

const NO_OPERATORS = 'The admin token does not open /a2a; use the token of a vended endpoint'

/** Refuses: forbidden, unless the caller may do something there. */
export const accessTo = (caller: Caller, queue: Queue | null): Access => {
  if (caller.kind === 'operator') throw new Refusal('forbidden', {}, NO_OPERATORS)
  const { endpoint } = caller
  const maySend = queue !== null && may(caller, 'send', queue.name)
  const mayAnswer = queue !== null && may(caller, 'answer', queue.name)
  if (!maySend && !mayAnswer) throw new Refusal('forbidden')
  const sent: Scope = { kind: 'client', clientId: endpoint.id, queue: queue.name }
  return {
    endpoint,
    queue,
    own: () => {
      if (maySend) return sent
      throw new Refusal('forbidden')
    },
    answering: mayAnswer ? { kind: 'queues', queues: [queue.name] } : sent,
  }
}
