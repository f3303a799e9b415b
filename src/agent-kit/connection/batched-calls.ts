/**
 * Calls over HTTP, several in one request where they come together: what is called while two
 * requests are in progress shares the next one, as a JSON-RPC batch. A call that waits for
 * something goes by itself. Each is answered, and fails, as if it had been alone.
 *
 * Not on json-rpc-2.0's client: it keeps only the message of a failed request, where the kit needs
 * the error and the HTTP status, and in a trial a call of a batch took 43 µs of CPU with it, and 37
 * without.
 */
import { ConnectionError } from '../errors.ts'
import { callText } from './document.ts'
import { parsed, resultOf, single } from './rpc-response.ts'

interface Post {
  method: string
  params: object
  timeoutMs: number
}

/** One try. Rejects with AgentApiError or ConnectionError. */
export type Send = (post: Post, signal: AbortSignal | undefined) => Promise<unknown>

const MAX_REQUESTS = 2
const MAX_BATCH = 50
/** A shared request holds no more than this, in characters; the server takes four times as much. */
const MAX_CHARACTERS = 1_000_000

/** Codes of failures that happen before a byte of the request has left. */
const NEVER_SENT = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'UND_ERR_CONNECT_TIMEOUT',
])

export const asConnectionError = (url: string, error: unknown): ConnectionError => {
  const cause = error instanceof Error && error.cause ? error.cause : error
  const code = String((cause as { code?: unknown } | null)?.code ?? '')
  const why = code || (cause instanceof Error ? cause.message : String(cause))
  return new ConnectionError(`Cannot reach ${url}: ${why}`, !NEVER_SENT.has(code), error)
}

interface Entry {
  id: number
  text: string
  timeoutMs: number
  resolve(result: unknown): void
  reject(error: unknown): void
}

const waits = ({ params }: Post): boolean => Number((params as { waitMs?: unknown }).waitMs) > 0

export const createSend = ({ url, token }: { url: string; token: string }): Send => {
  let lastId = 0
  let inProgress = 0
  let waiting: Entry[] = []

  const noAnswer = (ms: number, sent: boolean, cause?: unknown): ConnectionError =>
    new ConnectionError(`No answer from ${url} within ${ms} ms`, sent, cause)

  const request = async (body: string, timeoutMs: number, signal: AbortSignal | undefined) => {
    // Not AbortSignal.any: its listeners on a signal that lives for days are never collected.
    const controller = new AbortController()
    const abort = () => controller.abort()
    signal?.addEventListener('abort', abort, { once: true })
    const timer = setTimeout(abort, timeoutMs)
    try {
      const response = await fetch(url, {
        method: 'POST',
        headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
        body,
        signal: controller.signal,
        redirect: 'error',
      })
      return { response, answers: parsed(await response.text()) }
    } catch (error) {
      signal?.throwIfAborted()
      if (controller.signal.aborted) throw noAnswer(timeoutMs, true, error)
      throw asConnectionError(url, error)
    } finally {
      clearTimeout(timer)
      signal?.removeEventListener('abort', abort)
    }
  }

  const textOf = (id: number, { method, params }: Post): string => callText(id, method, params)

  const alone = async (post: Post, signal: AbortSignal | undefined): Promise<unknown> => {
    lastId += 1
    const { response, answers } = await request(textOf(lastId, post), post.timeoutMs, signal)
    return resultOf(response, single(answers))
  }

  const together = async (batch: readonly Entry[]): Promise<void> => {
    const texts = batch.map(({ text }) => text)
    const body = texts.length === 1 ? texts[0]! : `[${texts.join(',')}]`
    const timeoutMs = Math.max(...batch.map((entry) => entry.timeoutMs))
    try {
      const { response, answers } = await request(body, timeoutMs, undefined)
      const byId = new Map(Array.isArray(answers) ? answers.map((each) => [each.id, each]) : [])
      for (const { id, resolve, reject } of batch) {
        try {
          // A refusal of the whole is one object, whoever it is for.
          resolve(resultOf(response, byId.get(id) ?? single(answers)))
        } catch (error) {
          reject(error)
        }
      }
    } catch (error) {
      for (const { reject } of batch) reject(error)
    }
  }

  const nextBatch = (): Entry[] => {
    let characters = 0
    const over = waiting.findIndex(({ text }, index) => {
      characters += text.length
      return index > 0 && (characters > MAX_CHARACTERS || index >= MAX_BATCH)
    })
    return waiting.splice(0, over < 0 ? waiting.length : over)
  }

  const begin = (): void => {
    while (inProgress < MAX_REQUESTS && waiting.length > 0) {
      inProgress += 1
      void together(nextBatch()).finally(() => {
        inProgress -= 1
        begin()
      })
    }
  }

  const shared = (post: Post, signal: AbortSignal | undefined): Promise<unknown> =>
    new Promise((resolve, reject) => {
      signal?.throwIfAborted()
      lastId += 1
      const done = (settle: () => void): void => {
        clearTimeout(timer)
        signal?.removeEventListener('abort', abort)
        waiting = waiting.filter((other) => other !== entry)
        settle()
      }
      const entry: Entry = {
        id: lastId,
        text: textOf(lastId, post),
        timeoutMs: post.timeoutMs,
        resolve: (result) => done(() => resolve(result)),
        reject: (error) => done(() => reject(error)),
      }
      // Nobody waits for the result any more; whether the call was carried out is not known.
      const abort = (): void => entry.reject(signal?.reason)
      const timer = setTimeout(() => {
        entry.reject(noAnswer(post.timeoutMs, !waiting.includes(entry)))
      }, post.timeoutMs)
      signal?.addEventListener('abort', abort, { once: true })
      waiting.push(entry)
      begin()
    })

  return (post, signal) => (waits(post) ? alone(post, signal) : shared(post, signal))
}
