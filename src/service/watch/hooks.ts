/**
 * Handlers in this process that are called with every event committed on any node: after the
 * commit, in order, at least once. Each has a cursor of its own in the feed, so one that is slow
 * holds up nobody, and one that throws loses only that one event.
 */
import { sleep } from '../../base/time.ts'
import type { FeedEvent } from '../../domain/todo.ts'
import type { Parts } from '../parts.ts'
import type { OpenFeed } from './subscription.ts'
import type { Watch } from './watch.ts'

const RETRY_MS = 1000

export interface Hook {
  /** Resolves once the handler is sure to hear of everything committed from here on. */
  opened: Promise<void>
  off(): void
}

export interface Hooks {
  /** `after`: the position of the last event that was handled; `now`: from here on. */
  add(handler: (event: FeedEvent) => unknown, after: number | 'now'): Hook
  /** Opens the hooks that were added before there was a database to ask. */
  start(): Promise<void>
  stop(): void
}

export const createHooks = ({
  watch,
  log,
}: Pick<Parts, 'log'> & { watch: Pick<Watch, 'feed'> }): Hooks => {
  const ended = new AbortController()
  let start: () => void = () => {}
  const started = new Promise<void>((resolve) => {
    start = resolve
  })
  const opening = new Set<Promise<void>>()

  const call = async (handler: (event: FeedEvent) => unknown, event: FeedEvent) => {
    try {
      await handler(event)
    } catch (error) {
      log.error({ err: error, position: event.position }, 'a handler of events failed')
    }
  }

  /** Tries until it succeeds; null once nobody waits for it. */
  const open = async (after: number | 'now', signal: AbortSignal): Promise<OpenFeed | null> => {
    while (!signal.aborted) {
      try {
        return await watch.feed(after, null, signal)
      } catch (error) {
        log.warn({ err: error }, 'the events cannot be read; trying again')
        await sleep(RETRY_MS, signal).catch(() => {})
      }
    }
    return null
  }

  const follow = async (
    handler: (event: FeedEvent) => unknown,
    first: OpenFeed | null,
    signal: AbortSignal,
  ): Promise<void> => {
    let cursor = first?.from ?? 0
    for (let feed = first; feed; feed = await open(cursor, signal)) {
      try {
        for await (const event of feed.events) {
          if (signal.aborted) return
          if ('gap' in event) {
            log.warn({ oldest: event.oldest }, 'events before this one are not kept any more')
            continue
          }
          // A cursor that stands on an event gets that event again.
          if (event.position < cursor) continue
          await call(handler, event)
          cursor = event.position + 1
        }
      } catch (error) {
        if (!signal.aborted) log.warn({ err: error }, 'the events broke off; going on')
      }
      if (signal.aborted) return
      await sleep(RETRY_MS, signal).catch(() => {})
    }
  }

  return {
    add: (handler, after) => {
      const off = new AbortController()
      const signal = AbortSignal.any([off.signal, ended.signal])
      const opened = started.then(async () => {
        const feed = await open(after, signal)
        void follow(handler, feed, signal)
      })
      opening.add(opened)
      const forget = (): void => void opening.delete(opened)
      opened.then(forget, forget)
      return { opened, off: () => off.abort() }
    },
    start: async () => {
      start()
      await Promise.all(opening)
    },
    stop: () => ended.abort(),
  }
}
