/**
 * How much a todo holds: what a document counts when it is written, and the sum as SQL over the row. A row
 * of before, which nobody has counted, is counted by whoever asks.
 */
import { stringEnd } from '../../base/exact-json.ts'
import { HOLDS } from '../../domain/budget.ts'

/** Its messages and chunks of artifacts. */
export const HELD_DOCUMENTS = (todo: string): string =>
  `coalesce(${todo}.documents, todo_documents(${todo}.id))`

/** What they come to, with its metadata and results. */
export const HELD_BYTES = (todo: string): string =>
  `coalesce(${todo}.document_bytes, todo_document_bytes(${todo}.id))`

/** What it may hold, by the setting; looked up once a statement, and only where it matters. */
export const MAY_HOLD = (of: keyof typeof HOLDS): string =>
  `(select setting_number('${HOLDS[of].setting}', ${HOLDS[of].standard}))`

/** What each takes of the memory of a process that reads it, by four: a text takes four times its size. */
const OBJECT_COUNTS = 16
const ARRAY_COUNTS = 10
const VALUE_COUNTS = 4
/** Any document may have so many small values. */
const FREE = 1000

const QUOTE = 34
const COMMA = 44
const COLON = 58
const OPEN_ARRAY = 91
const OPEN_OBJECT = 123

/** What its values count, whatever they say. */
const valuesCount = (json: string): number => {
  let count = 0
  let at = 0
  while (at < json.length) {
    const code = json.charCodeAt(at)
    if (code === QUOTE) {
      at = stringEnd(json, at)
      continue
    }
    if (code === OPEN_OBJECT) count += OBJECT_COUNTS
    else if (code === OPEN_ARRAY) count += ARRAY_COUNTS
    else if (code === COMMA || code === COLON) count += VALUE_COUNTS
    at += 1
  }
  return count
}

/**
 * What a document counts: its bytes as it is stored, or what its values count where they are so small
 * that their texts say little of the memory they take.
 */
export const sizeOf = (json: string | undefined): number =>
  json === undefined ? 0 : Math.max(Buffer.byteLength(json), valuesCount(json) - FREE)
