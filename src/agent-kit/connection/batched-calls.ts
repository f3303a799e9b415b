/**
 * Calls over HTTP, several in one request where they come together: what is called while two
 * requests are in progress shares the next one, as a JSON-RPC batch. A call that waits for
 * something goes by itself. Each is answered, and fails, as if it had been alone.
 *
 * `json-rpc-2.0` gives each call the answer that is its own. Three habits of its client (1.8.1) would
 * show, and are kept from showing here: it keeps only the message of a request that failed, knows nothing
 * of the HTTP answer, and waits for ever for an answer that is not there.
 */
import { JSONRPCClient, type JSONRPCResponse } from 'json-rpc-2.0'
import { ConnectionError } from '../errors.ts'
import { callText } from './document.ts'
import { type Answer, parsed, resultOf, single } from './rpc-response.ts'

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

/** One call, and what the library has no place for. */
interface Entry extends Post {
  id: number
  text: string
  signal: AbortSignal | undefined
  response?: Response
  failure?: { error: unknown }
}

interface Answered {
  response: Response
  answers: Answer | Answer[] | null
}

/** An entry in the line for a shared request. */
interface Waiting {
  entry: Entry
  /** Its request is over, and its answer has been received. */
  resolve(): void
  reject(error: unknown): void
}

const waits = ({ params }: Post): boolean => Number((params as { waitMs?: unknown }).waitMs) > 0

export const createSend = ({ url, token }: { url: string; token: string }): Send => {
  let inProgress = 0
  let waiting: Waiting[] = []

  const noAnswer = (ms: number, sent: boolean, cause?: unknown): ConnectionError =>
    new ConnectionError(`No answer from ${url} within ${ms} ms`, sent, cause)

  const request = async (
    body: string,
    timeoutMs: number,
    signal: AbortSignal | undefined,
  ): Promise<Answered> => {
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

  /** Hands the answers of a request to the library; a refusal of the whole is one object, for each of them. */
  const receive = (entries: readonly Entry[], { response, answers }: Answered): void => {
    for (const entry of entries) entry.response = response
    if (Array.isArray(answers)) client.receive(answers as JSONRPCResponse[])
    for (const { id } of entries) client.receive({ ...single(answers), id } as JSONRPCResponse)
  }

  const alone = async (entry: Entry): Promise<void> =>
    receive([entry], await request(entry.text, entry.timeoutMs, entry.signal))

  const together = async (batch: readonly Waiting[]): Promise<void> => {
    const entries = batch.map(({ entry }) => entry)
    const texts = entries.map(({ text }) => text)
    const body = texts.length === 1 ? texts[0]! : `[${texts.join(',')}]`
    const timeoutMs = Math.max(...entries.map((entry) => entry.timeoutMs))
    try {
      receive(entries, await request(body, timeoutMs, undefined))
      for (const { resolve } of batch) resolve()
    } catch (error) {
      for (const { reject } of batch) reject(error)
    }
  }

  const nextBatch = (): Waiting[] => {
    let characters = 0
    const over = waiting.findIndex(({ entry: { text } }, index) => {
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

  const shared = (entry: Entry): Promise<void> =>
    new Promise((resolve, reject) => {
      const { signal, timeoutMs } = entry
      signal?.throwIfAborted()
      const done = (settle: () => void): void => {
        clearTimeout(timer)
        signal?.removeEventListener('abort', abort)
        waiting = waiting.filter((other) => other !== mine)
        settle()
      }
      const mine: Waiting = {
        entry,
        resolve: () => done(resolve),
        reject: (error) => done(() => reject(error)),
      }
      // Nobody waits for the result any more; whether the call was carried out is not known.
      const abort = (): void => mine.reject(signal?.reason)
      const timer = setTimeout(() => {
        mine.reject(noAnswer(timeoutMs, !waiting.includes(mine)))
      }, timeoutMs)
      signal?.addEventListener('abort', abort, { once: true })
      waiting.push(mine)
      begin()
    })

  const client = new JSONRPCClient<Entry>(async (_call, entry) => {
    try {
      await (waits(entry) ? alone(entry) : shared(entry))
    } catch (error) {
      entry.failure = { error }
      throw error
    }
  })
  let lastId = 0

  return async (post, signal) => {
    lastId += 1
    const { method, params } = post
    const entry: Entry = { ...post, id: lastId, text: callText(lastId, method, params), signal }
    const call = { jsonrpc: '2.0' as const, id: lastId, method, params }
    const answer = await client.requestAdvanced(call, entry)
    if (entry.failure) throw entry.failure.error
    return resultOf(entry.response!, answer as Answer)
  }
}
