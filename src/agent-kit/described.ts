/**
 * A thrown value as the server is told of it: a code and a bounded text, in which what cannot be
 * stored is replaced. Nothing that a handler throws may keep its failure from being reported.
 */
import { AgentApiError } from './errors.ts'

const MAX_TEXT = 2000
const MAX_CODE = 120
const NUL = String.fromCharCode(0)
const REPLACEMENT = '\ufffd'

/** Text that the server can store, cut between characters. */
const storable = (text: string, length: number): string =>
  text
    .slice(0, length)
    // An emoji at the cut is left out rather than halved.
    .replace(text.length > length ? /[\ud800-\udbff]$/ : /$^/, '')
    .replaceAll(NUL, REPLACEMENT)
    .toWellFormed()

/** What the getter or conversion returns; undefined where it throws. */
const attempt = <Value>(read: () => Value): Value | undefined => {
  try {
    return read()
  } catch {
    return undefined
  }
}

/** A refusal of the server with the members that it names, which its own text leaves out. */
const refusalText = ({ message, data }: AgentApiError): string => {
  const { violations, limit } = data as {
    violations?: { field: string; description: string }[]
    limit?: number
  }
  const named = (violations ?? []).map(({ field, description }) => `${field} ${description}`)
  if (typeof limit === 'number') named.push(`at most ${limit}`)
  return named.length === 0 ? message : `${message}: ${named.join('; ')}`
}

/** An error as the server is told of it: its code where it has one, and a bounded text. */
export const describe = (error: unknown): { code: string; message: string } => {
  const thrown = error as { code?: unknown; message?: unknown } | null | undefined
  if (error instanceof AgentApiError) {
    return {
      code: storable(error.reason, MAX_CODE),
      message: storable(refusalText(error), MAX_TEXT) || 'The server refused',
    }
  }
  const own = attempt(() => thrown?.message)
  const message = typeof own === 'string' ? own : attempt(() => String(error))
  const code = attempt(() => thrown?.code)
  return {
    code: (typeof code === 'string' && storable(code, MAX_CODE)) || 'handler_error',
    message: storable(message ?? '', MAX_TEXT) || 'The handler failed',
  }
}
