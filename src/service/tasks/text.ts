/**
 * Short texts for one line on the board or in a log: bounded, and without control characters. And
 * the one text in a message that only the server may write: who answered by a link.
 */
import type { Message } from '../../domain/todo.ts'

const MAX_EXCERPT = 280

/** At most `length` characters; control characters are replaced (text cannot store NUL). */
export const truncate = (text: string, length: number = MAX_EXCERPT): string => {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is removed
  const clean = text.toWellFormed().replace(/[\u0000-\u001f\u007f]+/g, ' ')
  return clean.length <= length ? clean : `${clean.slice(0, length - 1).toWellFormed()}…`
}

/** The first text of a message, or the kind of what it holds instead. */
export const excerpt = (message: Message): string => {
  const text = message.parts.find((part) => part.text !== undefined)?.text
  if (text !== undefined) return truncate(text.trim())
  const part = message.parts[0]
  return truncate(part?.filename ?? part?.mediaType ?? (part && 'data' in part ? 'data' : 'a file'))
}

/** The metadata key under which an answer by a link says who gave it. */
export const ANSWERED_BY = 'answeredBy'

/** Whoever has a token is known by it: what it says here could be taken for somebody else. */
export const withoutAnswerer = (message: Message): Message => {
  if (message.metadata?.[ANSWERED_BY] === undefined) return message
  const { metadata, ...rest } = message
  const { [ANSWERED_BY]: _, ...kept } = metadata
  return Object.keys(kept).length > 0 ? { ...rest, metadata: kept } : rest
}
