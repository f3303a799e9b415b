/**
 * What the page asks of its server, in the name of whoever is logged in. Every call carries a
 * header that no other site can send, and says in words what went wrong. The feed has a folder of
 * its own (feed/).
 */

export const urlOf = (path, query = {}) => {
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
