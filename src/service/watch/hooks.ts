/**
 * Handlers in this process that are called with every event committed on any node: after the
 * commit, in order, at least once. Each has a cursor of its own in the feed, so one that is slow
 * holds up nobody, and one that throws loses only that one event. A worker runs them; while it is
 * away the cursors stay where they are.
 */
import { sleep } from '../../base/time.ts'
import type { FeedEvent } from '../../domain/todo.ts'
import type { Reports } from '../chores.ts'
import type { Parts } from '../parts.ts'
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
  /** Resolves once all that were added so far are open. */
  opened(): Promise<void>
  /** Runs the hooks until the signal fires. A handler that is at work then is not waited for. */
  run(signal: AbortSignal, health: Reports): Promise<void>
}

interface Added {
  handler: (event: FeedEvent) => unknown
  /** The first position that it has not handled. */
  cursor: number | 'now'
  off: AbortSignal
  /** It is open, or will never be. */
  onOpened(): void
}

export const createHooks = ({
  watch,
  log,
}: Pick<Parts, 'log'> & { watch: Pick<Watch, 'feed'> }): Hooks => {
  const hooks = new Map<Added, Promise<void>>()
  let running: { signal: AbortSignal; health: Reports } | null = null

  const call = async ({ handler }: Added, event: FeedEvent): Promise<void> => {
    try {
      await handler(event)
    } catch (error) {
      log.error({ err: error, position: event.position }, 'a handler of events failed')
    }
  }

  /** Calls the handler with what comes. Returns when the feed ends. */
  const follow = async (hook: Added, signal: AbortSignal, health: Reports): Promise<void> => {
    const { from, events } = await watch.feed(hook.cursor, null, signal)
    let cursor = hook.cursor === 'now' ? from : hook.cursor
    hook.cursor = cursor
    hook.onOpened()
    health.ok()
    for await (const event of events) {
      if (signal.aborted) return
      if ('gap' in event) {
        log.warn({ oldest: event.oldest }, 'events before this one are not kept any more')
        continue
      }
      // A cursor that stands on an event gets that event again.
      if (event.position < cursor) continue
      await call(hook, event)
      cursor = event.position + 1
      hook.cursor = cursor
    }
  }

  /** One that breaks off goes on by itself, where it was, and keeps no other from going on. */
  const keepFollowing = async (
    hook: Added,
    { signal, health }: NonNullable<typeof running>,
  ): Promise<void> => {
    const either = AbortSignal.any([hook.off, signal])
    while (!either.aborted) {
      try {
        await follow(hook, either, health)
      } catch (error) {
        if (either.aborted) break
        log.warn({ err: error }, 'the events cannot be read; trying again')
        health.failed()
      }
      await sleep(RETRY_MS, either).catch(() => {})
    }
    hook.onOpened()
  }

  return {
    add: (handler, after) => {
      const off = new AbortController()
      let onOpened: () => void = () => {}
      const opened = new Promise<void>((resolve) => {
        onOpened = resolve
      })
      const hook: Added = { handler, cursor: after, off: off.signal, onOpened }
      hooks.set(hook, opened)
      if (running) void keepFollowing(hook, running)
      return {
        opened,
        off: () => {
          off.abort()
          hooks.delete(hook)
          onOpened()
        },
      }
    },
    opened: async () => {
      await Promise.all(hooks.values())
    },
    run: async (signal, health) => {
      running = { signal, health }
      for (const hook of hooks.keys()) void keepFollowing(hook, running)
      await new Promise((resolve) => {
        if (signal.aborted) resolve(undefined)
        else signal.addEventListener('abort', resolve, { once: true })
      })
      running = null
    },
  }
}
