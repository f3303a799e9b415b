/**
 * The right to an open stream, looked at again and again: a token that was revoked, or may do less
 * than before, ends what it opened.
 */
import { Refusal } from '../../domain/errors.ts'
import { WireRefusal } from '../../protocol/errors.ts'

/** How often it is looked at, unless told otherwise. */
const RECHECK_MS = 30_000

export interface Right {
  /** Whether it is the same as when the stream was opened; a refusal says that it is not. */
  holds(): Promise<boolean>
  withdraw(): void
  /** Told of what says nothing about a right, such as a database that is away. */
  onError?(error: unknown): void
  everyMs?: number
}

const isRefused = (error: unknown): boolean =>
  error instanceof WireRefusal || (error instanceof Refusal && error.kind === 'forbidden')

/** Looks until the answer is called. */
export const watchRight = ({ holds, withdraw, onError, everyMs }: Right): (() => void) => {
  const look = (): void => {
    holds().then(
      (same) => same || withdraw(),
      (error: unknown) => (isRefused(error) ? withdraw() : onError?.(error)),
    )
  }
  const timer = setInterval(look, everyMs ?? RECHECK_MS)
  return () => clearInterval(timer)
}
