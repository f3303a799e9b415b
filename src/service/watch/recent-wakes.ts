/**
 * Which todos were woken recently. A caller that has just read or made a todo need not read it
 * again unless a wake has come for it since.
 */
import { topics } from '../../store/wake/topics.ts'
import type { Wakes } from '../../store/wake/wake.ts'
import type { Poll } from '../chores.ts'

/** How long a wake is remembered, at least, and how many are. */
const REMEMBERED_MS = 10_000
const MAX_REMEMBERED = 20_000

export const createRecentWakes = () => {
  let newer = new Set<string>()
  let older = new Set<string>()
  /** After a wake may have been missed, we know nothing about what was not read. */
  let unsureUntil = 0

  /** Forgets the older half. */
  const turn = (): void => {
    older = newer
    newer = new Set()
  }

  return {
    /** For a todo that was read or made this moment: no wake has come for it since. */
    isUnchanged: (id: string): boolean =>
      performance.now() > unsureUntil && !newer.has(id) && !older.has(id),
    polls: [{ everyMs: REMEMBERED_MS, look: async () => turn() }] satisfies Poll[],
    start: (wakes: Wakes): (() => void)[] => {
      return [
        wakes.onPrefix(topics.todo.prefix, (id) => {
          if (newer.size >= MAX_REMEMBERED) turn()
          newer.add(id)
        }),
        wakes.onLost(() => {
          unsureUntil = performance.now() + REMEMBERED_MS
        }),
      ]
    },
  }
}
