/** What `Accept` says of the media types that we can answer with (RFC 9110 12.5.1). */

interface Range {
  type: string
  q: number
}

const Q = /^q=(0(?:\.\d{0,3})?|1(?:\.0{0,3})?)$/

/** Parameters but for `q` do not count; a `q` that is none is taken for 1. */
const rangeOf = (text: string): Range => {
  const [type = '', ...parameters] = text.split(';').map((each) => each.trim().toLowerCase())
  const q = parameters.map((each) => Q.exec(each)?.[1]).find((each) => each !== undefined)
  return { type, q: q === undefined ? 1 : Number(q) }
}

const rangesOf = (accept: string | undefined): Range[] =>
  (accept ?? '')
    .split(',')
    .map(rangeOf)
    .filter(({ type }) => type !== '')

/** What the most specific range says of this type; zero if none takes it. */
const qualityOf = (type: string, ranges: readonly Range[]): number => {
  const [family] = type.split('/')
  for (const range of [type, `${family}/*`, '*/*']) {
    const found = ranges.find((each) => each.type === range)
    if (found) return found.q
  }
  return 0
}

/**
 * Whether the answer is to be of this type and not of the plain one, which everybody gets who does
 * not care. A wildcard does not care: it has to be named, or preferred to the plain one.
 */
export const prefers = (accept: string | undefined, type: string, plain: string): boolean => {
  const ranges = rangesOf(accept)
  const [wanted, other] = [qualityOf(type, ranges), qualityOf(plain, ranges)]
  const isNamed = ranges.some((range) => range.type === type)
  return wanted > 0 && (isNamed ? wanted >= other : wanted > other)
}

/** Whether this type is all that the client takes. */
export const takesOnly = (accept: string | undefined, type: string): boolean => {
  // Most calls name another, and every call asks.
  if (!accept?.toLowerCase().includes(type)) return false
  const taken = rangesOf(accept).filter(({ q }) => q > 0)
  return taken.length > 0 && taken.every((range) => range.type === type)
}
