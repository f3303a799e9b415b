/**
 * State names as SQL literals. They are constants of the lifecycle, so nothing can be injected. They are
 * not parameters because under a generic plan PostgreSQL does not see that `state = any($1)` implies the
 * predicate of a partial index.
 */
import type { State } from '../../domain/lifecycle.ts'

export const stateList = (states: readonly State[]): string =>
  states.map((state) => `'${state}'`).join(', ')

/** A moment inside a document, written as everywhere on the wire. */
export const wireMoment = (moment: string): string =>
  `to_char(${moment} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`
