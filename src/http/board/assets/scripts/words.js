/** How the board words spans, moments and states: in one file, so that it words them alike. */

export const span = (ms) => {
  const seconds = Math.max(0, Math.floor(ms / 1000))
  if (seconds < 60) return `${seconds} s`
  const minutes = Math.floor(seconds / 60)
  if (minutes < 10) return `${minutes} min ${seconds % 60} s`
  if (minutes < 60) return `${minutes} min`
  const hours = Math.floor(minutes / 60)
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} days`
}

/** When something comes that lies `ms` ahead. */
export const soon = (ms) => (ms > 0 ? `in ${span(ms)}` : 'now')

/** A span as short as the inside of a ring has room for. */
export const shortSpan = (ms) => {
  const seconds = Math.max(0, Math.ceil(ms / 1000))
  if (seconds < 60) return `${seconds} s`
  const minutes = Math.round(seconds / 60)
  if (minutes < 60) return `${minutes} m`
  const hours = Math.round(minutes / 60)
  return hours < 48 ? `${hours} h` : `${Math.round(hours / 24)} d`
}

export const clock = (time) => new Date(time).toLocaleTimeString([], { hour12: false })

export const moment = (time) =>
  new Date(time).toLocaleString([], { dateStyle: 'medium', timeStyle: 'medium', hour12: false })

/** The end of an id, since ids of one minute begin alike. */
export const shortId = (id) => id.slice(-8)

/** The words for states whose own names would not tell a person. */
const STATES = {
  pending: 'submitted',
  claimed: 'working',
  'input-required': 'waits for an answer',
  'auth-required': 'needs sign-in',
  failed: 'dead letter',
}

export const stateWord = ({ state, retryAt, nextRetryAt }) =>
  state === 'failed' && (retryAt ?? nextRetryAt) ? 'tries again' : (STATES[state] ?? state)

export const titleOf = ({ id, title }) => title || `todo ${shortId(id)}`

export const wrong = (error) =>
  error ? [error.code, error.message].filter(Boolean).join(': ') : ''

/** Messages that a dead letter holds and that nobody has read. */
export const owes = (count) =>
  count > 0 ? `owes an answer to ${count} message${count === 1 ? '' : 's'}` : ''

/** Silence this long is worth a color. */
export const QUIET_MS = 300_000

/** Shorter silence is not mentioned, as in the command line. */
const IDLE_MS = 30_000

/**
 * How long a holder has shown no progress, in ms; 0 where that is not worth mentioning. Progress
 * makes no event, so only a card that was read after the silence began can show it. `unsure` means
 * that the holder may have been silent since the card was read.
 */
export const idleOf = ({ phase, progressAt, readMs }, nowMs) => {
  if (phase !== 'held' || !progressAt) return { ms: 0, unsure: false }
  const since = Date.parse(progressAt)
  const silent = nowMs - since > IDLE_MS
  const known = readMs - since > IDLE_MS
  return { ms: silent && known ? nowMs - since : 0, unsure: silent && nowMs - readMs > IDLE_MS }
}
