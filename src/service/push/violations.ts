/** What is wrong with a push notification config before it is kept. */
import type { Violation } from '../../domain/errors.ts'
import type { NewPushConfig } from '../../domain/push.ts'

const MAX_TOKEN = 4096
const MAX_CREDENTIALS = 8192
const MAX_SCHEME = 64

/** Sent as the value of a header: visible ASCII, with spaces between. */
const HEADER_VALUE = /^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/
const HEADER_TOKEN = /^[!#$%&'*+.^_`|~\w-]+$/

const textProblem = (text: string | undefined, max: number, pattern: RegExp): string | null => {
  if (text === undefined) return null
  if (text.length > max) return `must be at most ${max} characters`
  return pattern.test(text) ? null : 'must hold only what an HTTP header can carry'
}

export const violationsOf = (
  { url, token, authentication, path }: NewPushConfig,
  urlProblem: (url: string) => string | null,
): Violation[] => {
  const { scheme, credentials } = authentication ?? {}
  const problems: [string, string | null][] = [
    ['url', urlProblem(url)],
    ['token', textProblem(token, MAX_TOKEN, HEADER_VALUE)],
    ['authentication.scheme', textProblem(scheme, MAX_SCHEME, HEADER_TOKEN)],
    ['authentication.credentials', textProblem(credentials, MAX_CREDENTIALS, HEADER_VALUE)],
  ]
  return problems.flatMap(([name, description]) =>
    description === null ? [] : [{ field: path ? `${path}.${name}` : name, description }],
  )
}
