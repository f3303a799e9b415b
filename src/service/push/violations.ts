/** What is wrong with a push notification config: before it is kept, and before it is sent. */
import { defined } from '../../base/defined.ts'
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

interface Sent {
  token?: string | undefined
  scheme?: string | undefined
  credentials?: string | undefined
}

/** What of this cannot be sent as a header, by the name it has in a config. */
const headerProblems = ({ token, scheme, credentials }: Sent): [string, string | null][] => [
  ['token', textProblem(token, MAX_TOKEN, HEADER_VALUE)],
  ['authentication.scheme', textProblem(scheme, MAX_SCHEME, HEADER_TOKEN)],
  ['authentication.credentials', textProblem(credentials, MAX_CREDENTIALS, HEADER_VALUE)],
]

export const violationsOf = (
  { url, token, authentication, path }: NewPushConfig,
  urlProblem: (url: string) => string | null,
): Violation[] => {
  const problems = [['url', urlProblem(url)], ...headerProblems({ token, ...authentication })]
  return problems.flatMap(([name, description]) =>
    description ? [{ field: path ? `${path}.${name}` : `${name}`, description }] : [],
  )
}

/** Why a config that is kept cannot be sent with its headers, in words that repeat none; or null. */
export const unsendable = (kept: { [Member in keyof Sent]-?: string | null }): string | null => {
  const { token, scheme, credentials } = kept
  if (credentials !== null && scheme === null) {
    return 'authentication.scheme is missing, without which its credentials cannot be sent'
  }
  const sent = defined({
    token: token ?? undefined,
    scheme: scheme ?? undefined,
    credentials: credentials ?? undefined,
  })
  const [name, problem] = headerProblems(sent).find(([, found]) => found !== null) ?? []
  return problem ? `${name} ${problem}` : null
}
