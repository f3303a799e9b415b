/**
 * The right to an open stream, looked at again and again: a token that was revoked, or may do less
 * than before, ends what it opened.
 */
import { Refusal } from '../../domain/errors.ts'
import { WireRefusal } from '../../protocol/wire/errors.ts'

/** How often it is looked at, unless told otherwise. */
const RECHECK_MS = 30_000

export interface Reauthorization {
  /** Whether it is the same as when the stream was opened; a refusal says that it is not. */
  stillAllowed(): Promise<boolean>
  revoke(): void
  /** Told of what says nothing about a right, such as a database that is away. */
  onError?(error: unknown): void
  everyMs?: number
}

const isRefused = (error: unknown): boolean =>
  error instanceof WireRefusal || (error instanceof Refusal && error.kind === 'forbidden')

/** Looks until the answer is called. */
export const reauthorize = ({
  stillAllowed,
  revoke,
  onError,
  everyMs,
}: Reauthorization): (() => void) => {
  const look = (): void => {
    stillAllowed().then(
      (same) => same || revoke(),
      (error: unknown) => (isRefused(error) ? revoke() : onError?.(error)),
    )
  }
  const timer = setInterval(look, everyMs ?? RECHECK_MS)
  return () => clearInterval(timer)
}
