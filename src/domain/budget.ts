/**
 * How much one todo may hold, and how much of it one answer shows (docs/limits.md). Sizes are bytes of
 * JSON, as it is stored.
 */

export interface Holding {
  setting: string
  help: string
  standard: number
  min: number
  max: number
  /** What may come on top: the answers to its questions, and the message with which its holder ends it. */
  reserve: number
}

export const HOLDS = {
  /** Messages, and artifacts chunk by chunk. */
  documents: {
    setting: 'todo_max_documents',
    help: 'messages and chunks of artifacts that one todo may hold',
    standard: 20_000,
    min: 100,
    max: 1_000_000,
    reserve: 100,
  },
  bytes: {
    setting: 'todo_max_bytes',
    help: 'bytes that the messages and artifacts of one todo may come to',
    standard: 33_554_432,
    min: 1_048_576,
    max: 268_435_456,
    reserve: 8_388_608,
  },
} as const satisfies Record<string, Holding>

export const fitsHolding = ({ min, max }: Holding, value: string): boolean =>
  /^\d{1,10}$/.test(value) && Number(value) >= min && Number(value) <= max

/** Documents of the todos of one claim, and of one page of a list. */
export const PAGE_BYTES = 8_000_000

/** A todo with more than this is read by itself, where several are read in one statement. */
export const ALONE_BYTES = 256_000

/** Of a todo that is too large to be read with others: its newest messages up to this. */
export const HISTORY_BYTES = 8_000_000

/** All its artifacts, where they come to no more than this. */
export const ARTIFACT_BYTES = 33_554_432

/** Documents of one page of `todos.documents`, messages that a holder is handed at once, results of children. */
export const READ_BYTES = 4_000_000
