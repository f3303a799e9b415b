/**
 * Reads an event stream, and keeps reading it. By fetch and not by EventSource, which hides the
 * server's comments and the status of a refusal: a connection that has gone silent could not be told
 * from one on which nothing happens.
 */
import { createParser } from './parser.js'

/** The server sends something at least every 15 s, even if only a comment. */
const SILENCE_MS = 40_000
const MAX_RETRY_MS = 30_000

/**
 * Reads the feed at `url` and keeps reading it: it reconnects, and resumes after the last id it
 * saw, until `signal` fires or the server refuses. Each callback is awaited before more is read.
 * `open(resumed)`: connected, with nothing missed if `resumed`; `event`: one event, with its data
 * as text; `lost(since)`: no connection since then, it will be tried again; `refused(status)`: the
 * end. While `isOnline` says that there is no network, nothing is tried.
 */
export const follow = async (
  url,
  signal,
  { open, event, lost, refused, isOnline = () => globalThis.navigator?.onLine !== false },
) => {
  let lastId = null
  let retryMs = 2000
  let failures = 0
  /** When anything was last received, even a comment. */
  let heardAt = Date.now()

  const readOnce = async () => {
    if (!isOnline()) throw new Error('there is no network')
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
          retryMs = ms
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
          if (data !== undefined) await event(kind ?? 'message', data)
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
