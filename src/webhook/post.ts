/**
 * One POST to a webhook, with a limit on everything: connecting, waiting, reading. At each
 * connection the name is resolved and all its addresses are vetted, and the connection goes to the
 * very address that was vetted. Redirects are not followed, and only what the caller gives is sent.
 */
import { lookup, Resolver } from 'node:dns/promises'
import { isIP } from 'node:net'
import { Agent, buildConnector, request } from 'undici'
import { retryAfterSeconds, type Tried } from '../domain/push.ts'
import type { Guard } from './guard.ts'

export interface PostOptions {
  guard: Guard
  /** How long connecting to one address may take. */
  connectMs: number
  /** All addresses of a name. */
  resolve?: (host: string) => Promise<string[]>
}

export interface Poster {
  /** `timeoutMs` limits the whole attempt. Rejects only when the signal fires. */
  post(
    url: string,
    headers: Record<string, string>,
    body: string,
    wait: { timeoutMs: number; signal: AbortSignal },
  ): Promise<Tried>
  close(): Promise<void>
}

/** How much of an answer is read at most; nobody looks at it. */
const ANSWER_BYTES = 64 * 1024
const HEADER_BYTES = 16 * 1024
/** How many answers that are none yet (1xx) may come before the one that counts. */
const INFORMATIONAL = 10

/** The target may not be connected to. */
class Forbidden extends Error {
  override name = 'Forbidden'
}

/**
 * Asks the name servers, not the C library, which has four threads for the whole process: a zone
 * that does not answer would block all of them.
 */
const askNameServers = async (host: string): Promise<string[]> => {
  const resolver = new Resolver({ timeout: 3000, tries: 2 })
  const answers = await Promise.allSettled([resolver.resolve4(host), resolver.resolve6(host)])
  const found = answers.flatMap((answer) => (answer.status === 'fulfilled' ? answer.value : []))
  if (found.length > 0) return found
  throw (answers[0] as PromiseRejectedResult).reason
}

/** Names that the operator listed are looked up by this machine, which alone may know them. */
const defaultResolve =
  (guard: Guard) =>
  async (host: string): Promise<string[]> =>
    guard.isListed(host)
      ? (await lookup(host, { all: true, verbatim: true })).map(({ address }) => address)
      : askNameServers(host)

type Connect = buildConnector.connector
type ConnectOptions = Parameters<Connect>[0]
type Connected = Parameters<Parameters<Connect>[1]>

/** Connects to the first address that answers, once all have been vetted. */
const vettedConnect = ({
  guard,
  connectMs,
  resolve = defaultResolve(guard),
}: PostOptions): Connect => {
  const connector = buildConnector({ timeout: connectMs, maxCachedSessions: 0 })
  const connectTo = (options: ConnectOptions, address: string): Promise<Connected[1]> =>
    new Promise((done, failed) => {
      // The certificate must still be that of the name.
      const to = { ...options, hostname: address, servername: options.servername ?? '' }
      connector(to, (...[error, socket]) => (error ? failed(error) : done(socket)))
    })

  const connect = async (options: ConnectOptions): Promise<Connected[1]> => {
    const host = options.hostname.replace(/^\[(.*)\]$/, '$1')
    const port = Number(options.port || (options.protocol === 'https:' ? 443 : 80))
    const addresses = isIP(host) ? [host] : await resolve(host)
    for (const address of addresses) {
      const problem = guard.addressProblem(host, address, port)
      if (problem) throw new Forbidden(`${host} leads to ${address}, which ${problem}`)
    }
    let last: unknown = new Error(`${host} has no address`)
    for (const address of addresses) {
      try {
        return await connectTo(options, address)
      } catch (error) {
        last = error
      }
    }
    throw last
  }
  return (options, callback) => {
    connect(options).then(
      (socket) => callback(null, socket as never),
      (error: Error) => callback(error, null),
    )
  }
}

const askedToWait = (headers: Record<string, unknown>): number | null => {
  const value = headers['retry-after']
  if (value === undefined) return null
  return retryAfterSeconds(String(value), String(headers.date ?? ''), new Date())
}

/** The receiver sends 1xx and no end. */
class Endless extends Error {
  override name = 'Endless'
  constructor() {
    super(`more than ${INFORMATIONAL} informational answers (1xx)`)
  }
}

/** What went wrong, in words that repeat nothing of the answer. */
const failureOf = (error: unknown, timedOut: boolean): Tried => {
  if (error instanceof Endless) return { failure: error.message }
  if (timedOut) return { failure: 'no answer in time' }
  if (error instanceof Forbidden) return { failure: error.message, final: true }
  const { code, cause } = error as { code?: unknown; cause?: { code?: unknown } }
  const word = code ?? cause?.code
  // Neither the network nor time has a part in it: the request itself is one that cannot be made.
  if (word === 'ERR_INVALID_URL' || word === 'UND_ERR_INVALID_ARG') {
    return { failure: `cannot be sent: ${(error as Error).message}`, final: true }
  }
  return { failure: `no connection${typeof word === 'string' ? `: ${word}` : ''}` }
}

export const createPoster = (options: PostOptions): Poster => {
  const agent = new Agent({
    connect: vettedConnect(options),
    // Each attempt has a time limit of its own.
    headersTimeout: 0,
    bodyTimeout: 0,
    maxHeaderSize: HEADER_BYTES,
    maxResponseSize: -1,
    pipelining: 1,
    // A connection kept longer would go on to an address after its name has come to mean another.
    keepAliveTimeout: 4000,
    keepAliveMaxTimeout: 30_000,
  })

  const post: Poster['post'] = async (url, headers, body, { timeoutMs, signal }) => {
    const limit = new AbortController()
    const timer = setTimeout(() => limit.abort(), timeoutMs)
    const stop = (): void => limit.abort()
    let informational = 0
    const onInfo = (): void => {
      informational += 1
      if (informational > INFORMATIONAL) limit.abort(new Endless())
    }
    signal.addEventListener('abort', stop, { once: true })
    try {
      signal.throwIfAborted()
      const answer = await request(url, {
        method: 'POST',
        headers,
        body,
        dispatcher: agent,
        signal: limit.signal,
        onInfo,
      })
      // Only the status counts. The rest is read and dropped, up to a limit of size and time.
      await answer.body.dump({ limit: ANSWER_BYTES, signal: limit.signal }).catch(() => {})
      const seconds = askedToWait(answer.headers)
      return {
        status: answer.statusCode,
        ...(seconds !== null && { retryAfterSeconds: seconds }),
      }
    } catch (error) {
      signal.throwIfAborted()
      return failureOf(error, limit.signal.aborted)
    } finally {
      clearTimeout(timer)
      signal.removeEventListener('abort', stop)
    }
  }
  return { post, close: () => agent.destroy() }
}
