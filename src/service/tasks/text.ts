/** Short texts for lines on the board and in logs: bounded, and free of what breaks a line. */
import type { Message } from '../../domain/todo.ts'

const EXCERPT = 280

/** At most `length` characters, control characters replaced (NUL cannot be stored in text). */
export const truncate = (text: string, length: number = EXCERPT): string => {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is removed
  const clean = text.toWellFormed().replace(/[\u0000-\u001f\u007f]+/g, ' ')
  return clean.length <= length ? clean : `${clean.slice(0, length - 1).toWellFormed()}…`
}

/** The first text of a message, or what it holds instead. */
export const excerpt = (message: Message): string => {
  const text = message.parts.find((part) => part.text !== undefined)?.text
  if (text !== undefined) return truncate(text.trim())
  const part = message.parts[0]
  return truncate(part?.filename ?? part?.mediaType ?? (part && 'data' in part ? 'data' : 'a file'))
}
