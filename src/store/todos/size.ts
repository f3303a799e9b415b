/**
 * How much a todo holds, as SQL over its row. A row of before, which nobody has counted, is counted by
 * whoever asks.
 */
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
