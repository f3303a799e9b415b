/** Short texts for one line on the board or in a log: bounded, and without control characters. */
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
