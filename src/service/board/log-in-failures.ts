/**
 * Bounds failures to log in, by what was tried and by where it came from, over all nodes. What was tried
 * too often is not looked up again. An address that failed too often is told only that, however it goes on
 * failing; what is good still opens the board, since behind a proxy, or one office's router, many people
 * share it.
 */
import { Refusal } from '../../domain/errors.ts'
import { createRateLimit } from '../../store/admin/rate-limits.ts'
import type { Parts } from '../parts.ts'
import { hashOf } from './secret.ts'

const MAX_FAILURES = 10

export interface LogInFailures {
  /** Refuses: rate_limited, if this token or code has failed too often lately. */
  check(proof: string): Promise<void>
  /** Refuses: rate_limited. Neither an error nor a success is a failure, so they are not told. */
  add(proof: string, network: string): Promise<void>
}

const refuseIf = (waitMs: number): void => {
  if (waitMs === 0) return
  throw new Refusal('rate_limited', { retryAfterSeconds: Math.ceil(waitMs / 1000) })
}

export const createLogInFailures = ({ database }: Pick<Parts, 'database'>): LogInFailures => {
  const byProof = createRateLimit(database, 'log-in proof', MAX_FAILURES)
  const byNetwork = createRateLimit(database, 'log-in network', MAX_FAILURES)
  const keyOf = (proof: string): string => hashOf(proof).toString('base64url')
  return {
    check: async (proof) => refuseIf(await byProof.ask(keyOf(proof))),
    add: async (proof, network) => {
      refuseIf(await byNetwork.spend(network))
      // Told of next time, before it is looked up.
      await byProof.spend(keyOf(proof))
    },
  }
}
