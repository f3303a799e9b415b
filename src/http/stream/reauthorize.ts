/**
 * The right to an open stream, checked at intervals: when a token is revoked, or may do less than
 * before, the streams that it opened end.
 */
import { Refusal } from '../../domain/errors.ts'
import { WireRefusal } from '../../protocol/wire/errors.ts'

/** The default interval between checks. */
export const RECHECK_MS = 30_000

export interface Reauthorization {
  /** Whether the right is the same as when the stream opened; a refusal means that it is not. */
  stillAllowed(): Promise<boolean>
  revoke(): void
  /** Gets errors that say nothing about the right, such as a database that is away. */
  onError?(error: unknown): void
  everyMs?: number
}

const isRefused = (error: unknown): boolean =>
  error instanceof WireRefusal || (error instanceof Refusal && error.kind === 'forbidden')

/** Checks until the function it returns is called. */
export const reauthorize = ({
  stillAllowed,
  revoke,
  onError,
  everyMs = RECHECK_MS,
}: Reauthorization): (() => void) => {
  const check = (): void => {
    stillAllowed().then(
      (same) => same || revoke(),
      (error: unknown) => (isRefused(error) ? revoke() : onError?.(error)),
    )
  }
  const timer = setInterval(check, everyMs)
  return () => clearInterval(timer)
}
