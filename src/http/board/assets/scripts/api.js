/**
 * What the page asks of its server, in the name of whoever is logged in. Every call carries a
 * header that no other site can send, and says in words what went wrong. The feed is read by fetch
 * and not by EventSource, which hides the server's comments and the status of a refusal: a
 * connection that has gone silent could not be told from one on which nothing happens.
 */

const urlOf = (path, query = {}) => {
  const url = new URL(`./${path}`, import.meta.url)
  for (const [name, value] of Object.entries(query)) {
    if (value !== null && value !== undefined && value !== '') url.searchParams.set(name, value)
  }
  return url
}

/** A double keeps any fifteen digits, unless an exponent takes them to its limits. */
const MANY_DIGITS = /\d[\d.]{15}|\d[eE][+-]?\d{3}/

/** The number as its text where the browser tells us that; it is shown and sent with its digits. */
const withDigits = (_key, value, context) => {
  const source = context?.source
  const isChanged =
    typeof value === 'number' && MANY_DIGITS.test(source) && String(value) !== source
  return isChanged && JSON.rawJSON ? JSON.rawJSON(source) : value
}

/** As JSON.parse, but that numbers which a double may change are raw JSON. */
export const parseJson = (text) =>
  MANY_DIGITS.test(text) ? JSON.parse(text, withDigits) : JSON.parse(text)

/** The digits of such a number; undefined for any other value. */
export const digitsOf = (value) => (JSON.isRawJSON?.(value) ? value.rawJSON : undefined)

class Refused extends Error {
  constructor(status, message, data) {
    super(message)
    this.status = status
    this.data = data
  }
}

const WITHIN_MS = 20_000

const ask = async (url, options, signal) => {
  const timeout = AbortSignal.timeout(WITHIN_MS)
  try {
    return await fetch(url, {
      cache: 'no-store',
      ...options,
      signal: signal ? AbortSignal.any([signal, timeout]) : timeout,
    })
  } catch (error) {
    if (signal?.aborted) throw error
    throw new Refused(0, 'The server cannot be reached')
  }
}

const wordsOf = ({ message, data }) => {
  const wrong = data?.violations ?? []
  return wrong.length > 0
    ? wrong.map(({ field, description }) => `${field} ${description}`).join('; ')
    : message
}

const bodyOf = async (answer) => {
  const body = await answer
    .text()
    .then(parseJson)
    .catch(() => null)
  if (body?.error) throw new Refused(answer.status, wordsOf(body.error), body.error.data)
  if (!answer.ok || body === null) throw new Refused(answer.status, `HTTP ${answer.status}`)
  return body
}

let loggedOut = () => {}

/** `listener` is called when the server answers any request with: nobody is logged in. */
export const onLoggedOut = (listener) => {
  loggedOut = listener
}

const ownBody = (answer) => {
  if (answer.status === 401) loggedOut()
  return bodyOf(answer)
}

/** How far the server's clock is ahead of ours, in ms. */
let aheadMs = 0

/** The server's time, so that ages and deadlines are right even where this clock is not. */
export const serverNow = () => Date.now() + aheadMs

export const read = async (path, query, signal) => {
  const answer = await ask(urlOf(path, query), {}, signal)
  const date = Date.parse(answer.headers.get('date'))
  // The header has whole seconds, so a smaller difference means nothing.
  if (Number.isFinite(date)) {
    const ahead = date + 500 - Date.now()
    aheadMs = Math.abs(ahead) > 1500 ? ahead : 0
  }
  return ownBody(answer)
}

const post = (path, body) =>
  ask(urlOf(path), {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', 'X-Switchboard-Board': '1' },
    body: JSON.stringify(body),
  })

/** One call of the operator API, as far as the board may make it. */
export const call = async (method, params) =>
  (await ownBody(await post('operator', { jsonrpc: '2.0', id: 1, method, params }))).result

export const login = async (token) => {
  const answer = await post('login', { token })
  if (!answer.ok) await bodyOf(answer)
}

export const logout = () => post('logout', {})

export const feedUrl = (query) => urlOf('events', query)

/* ---------------------------------------------------------------- the feed */

/** The server sends something at least every 15 s, even if only a comment. */
const SILENCE_MS = 40_000
const MAX_RETRY_MS = 30_000

/** Splits an event stream into events; feed it text as it comes. */
export const createParser = (onEvent, onRetry) => {
  let rest = ''
  let event = {}

  const line = (text) => {
    if (text === '') {
      if (event.id !== undefined || event.data !== undefined) onEvent(event)
      event = {}
      return
    }
    const colon = text.indexOf(':')
    if (colon === 0) return
    const field = colon < 0 ? text : text.slice(0, colon)
    const value = colon < 0 ? '' : text.slice(colon + 1).replace(/^ /, '')
    if (field === 'data') event.data = event.data === undefined ? value : `${event.data}\n${value}`
    else if (field === 'retry') onRetry(Number(value))
    else if (field === 'id' || field === 'event') event[field] = value
  }

  return (text) => {
    const lines = (rest + text).split('\n')
    rest = lines.pop()
    for (const text of lines) line(text.replace(/\r$/, ''))
  }
}

/**
 * Reads the feed at `url` and keeps reading it: it reconnects, and resumes after the last id it
 * saw, until `signal` fires or the server refuses. Each callback is awaited before more is read.
 * `open(resumed)`: connected, with nothing missed if `resumed`; `event`: one event with its data
 * parsed; `lost(since)`: no connection since then, it will be tried again; `refused(status)`: the
 * end.
 */
export const follow = async (url, signal, { open, event, lost, refused }) => {
  let lastId = null
  let retryMs = 2000
  let failures = 0
  /** When anything was last received, even a comment. */
  let heardAt = Date.now()

  const readOnce = async () => {
    const attempt = new AbortController()
    const abort = () => attempt.abort()
    let watchdog
    const alive = () => {
      clearTimeout(watchdog)
      watchdog = setTimeout(abort, SILENCE_MS)
    }
    signal.addEventListener('abort', abort)
    globalThis.addEventListener('offline', abort)
    try {
      alive()
      const answer = await fetch(url, {
        headers: lastId === null ? {} : { 'Last-Event-ID': lastId },
        cache: 'no-store',
        signal: attempt.signal,
      })
      if (answer.status === 401 || answer.status === 403) return answer.status
      if (!answer.ok) throw new Error(`the feed answered ${answer.status}`)
      await open(lastId !== null)
      failures = 0

      const events = []
      const parse = createParser(
        (read) => events.push(read),
        (ms) => {
          if (ms >= 0) retryMs = ms
        },
      )
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader()
      for (;;) {
        alive()
        const { value, done } = await reader.read()
        if (done) return null
        heardAt = Date.now()
        parse(value)
        for (const { id, event: kind, data } of events.splice(0)) {
          if (data !== undefined) await event(kind ?? 'message', parseJson(data))
          if (id !== undefined) lastId = id
        }
      }
    } finally {
      clearTimeout(watchdog)
      signal.removeEventListener('abort', abort)
      globalThis.removeEventListener('offline', abort)
      attempt.abort()
    }
  }

  while (!signal.aborted) {
    const status = await readOnce().catch(() => null)
    if (signal.aborted) return
    if (status !== null) return refused(status)
    lost(heardAt)
    // Half of it is random, so that the boards of a restarted server do not all return at once.
    const waitMs = Math.min(MAX_RETRY_MS, retryMs * 2 ** failures++)
    await pause(waitMs / 2 + (waitMs / 2) * Math.random(), signal)
  }
}

/** A pause that ends early when the browser is online again. */
const pause = (ms, signal) =>
  new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer)
      signal.removeEventListener('abort', done)
      globalThis.removeEventListener('online', done)
      resolve()
    }
    const timer = setTimeout(done, ms)
    signal.addEventListener('abort', done)
    globalThis.addEventListener('online', done)
  })
