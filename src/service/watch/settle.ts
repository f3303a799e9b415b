/**
 * Waiting until a todo settles. A process has one reader for all of them: however many wait, the
 * todos woken at one moment are read in one statement.
 */

import { EVERYTHING } from '../../domain/endpoint.ts'
import { orNotFound } from '../../domain/errors.ts'
import { settled } from '../../domain/lifecycle.ts'
import type { TodoView } from '../../domain/todo.ts'
import type { Database } from '../../store/postgres/database.ts'
import { readSettled, readView } from '../../store/todos/view.ts'
import { topics } from '../../store/wake/topics.ts'
import type { Wakes } from '../../store/wake/wake.ts'

interface Waiter {
  id: string
  after: number
  done(view: TodoView): void
}

export const createSettle = (database: Database, isUnchanged: (id: string) => boolean) => {
  const waiting = new Map<string, Set<Waiter>>()
  let woken = new Set<string>()
  let reading = false

  const readWoken = async (): Promise<void> => {
    const waiters = [...woken].flatMap((id) => [...(waiting.get(id) ?? [])])
    woken = new Set()
    if (waiters.length === 0) return
    // Those who wait for one todo may have begun at different events: read from the earliest.
    const earliest = new Map<string, number>()
    for (const { id, after } of waiters) {
      earliest.set(id, Math.min(after, earliest.get(id) ?? after))
    }
    const views = await readSettled(
      database,
      [...earliest].map(([id, after]) => ({ id, after })),
    )
    for (const view of views) {
      for (const waiter of waiting.get(view.todo.id) ?? []) {
        if (view.todo.statusSeq > waiter.after) waiter.done(view)
      }
    }
  }

  const readAllWoken = async (): Promise<void> => {
    if (reading) return
    reading = true
    try {
      while (woken.size > 0) await readWoken()
    } catch {
      // The database is away: the poll asks for all of them again.
    } finally {
      reading = false
    }
  }

  const settle = async (id: string, after: number, signal: AbortSignal): Promise<TodoView> => {
    let off: () => void = () => {}
    const waited = new Promise<TodoView>((resolve, reject) => {
      const waiter: Waiter = { id, after, done: resolve }
      const waiters = waiting.get(id) ?? new Set()
      waiting.set(id, waiters.add(waiter))
      const onAbort = (): void => reject(signal.reason)
      signal.addEventListener('abort', onAbort, { once: true })
      off = () => {
        signal.removeEventListener('abort', onAbort)
        waiters.delete(waiter)
        if (waiters.size === 0) waiting.delete(id)
      }
    })
    waited.catch(() => {})
    try {
      signal.throwIfAborted()
      if (after === 1 && isUnchanged(id)) return await waited
      // The waiter was added first, so what happens during this read is not missed.
      const view = orNotFound(await readView(database, id, EVERYTHING))
      if (settled(view.todo) && view.todo.statusSeq > after) return view
      return await waited
    } finally {
      off()
    }
  }

  return {
    settle,
    poll: (): void => {
      for (const id of waiting.keys()) woken.add(id)
      if (woken.size > 0) void readAllWoken()
    },
    start: (wakes: Wakes): (() => void)[] => [
      wakes.onPrefix(topics.settled.prefix, (id) => {
        if (!waiting.has(id)) return
        woken.add(id)
        // Wakes of one moment share a read.
        if (woken.size === 1) setImmediate(() => void readAllWoken())
      }),
    ],
  }
}
