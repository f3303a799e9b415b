/**
 * Waiting until a todo settles. A process has one reader for all of them: however many wait, the
 * todos woken at one moment are read in one statement. What only the poll finds is counted: its wake
 * was lost, or late by seconds.
 */

import { lookUntil, Waiter } from '../../base/wait/waiter.ts'
import { EVERYTHING } from '../../domain/endpoint.ts'
import { orNotFound } from '../../domain/errors.ts'
import { settled } from '../../domain/lifecycle.ts'
import type { TodoView } from '../../domain/todo.ts'
import type { Database } from '../../store/postgres/database.ts'
import { readSettled, readView } from '../../store/todos/view.ts'
import { topics } from '../../store/wake/topics.ts'
import type { Wakes } from '../../store/wake/wake.ts'

/** How soon a read that failed is repeated: the wakes behind it have been spent. */
const AGAIN_MS = 250
/** A wake that comes so soon after the poll was on its way, and not lost. */
const ON_ITS_WAY_MS = 1000

interface SettleParts {
  database: Database
  isUnchanged: (id: string) => boolean
  /** Called for an answer that no wake announced. */
  onFoundByPoll: () => void
}

/** Somebody who waits for a todo to be settled by an event after `after`. */
class SettleWaiter extends Waiter {
  readonly id: string
  readonly after: number
  /** Its own first read is over. What it would have found came before anybody waited for a wake. */
  looked: boolean
  /** What the reader has found for it. */
  view: TodoView | null = null

  constructor(id: string, after: number, looked: boolean) {
    super()
    this.id = id
    this.after = after
    this.looked = looked
  }
}

const isThere = (view: TodoView | null): boolean => view !== null

/** Counts what the poll found, unless its wake comes a moment later. */
const createPollFinds = (onFoundByPoll: () => void) => {
  const unannounced = new Map<string, NodeJS.Timeout>()
  return {
    found: (id: string): void => {
      const count = (): void => {
        unannounced.delete(id)
        onFoundByPoll()
      }
      if (!unannounced.has(id)) unannounced.set(id, setTimeout(count, ON_ITS_WAY_MS).unref())
    },
    woken: (id: string): void => {
      clearTimeout(unannounced.get(id))
      unannounced.delete(id)
    },
  }
}

export const createSettle = ({ database, isUnchanged, onFoundByPoll }: SettleParts) => {
  const waiting = new Map<string, Set<SettleWaiter>>()
  const pollFinds = createPollFinds(onFoundByPoll)
  let woken = new Set<string>()
  /** Those that are being read. */
  let underWay: ReadonlySet<string> = new Set()
  /** Those that the poll asks about and no wake has come for since. */
  const polled = new Set<string>()
  let reading: Promise<void> | null = null
  let isDue = false

  const readWoken = async (): Promise<void> => {
    const ids = woken
    const waiters = [...ids].flatMap((id) => [...(waiting.get(id) ?? [])])
    woken = new Set()
    underWay = ids
    if (waiters.length === 0) return
    // Those who wait for one todo may have begun at different events: read from the earliest.
    const earliest = new Map<string, number>()
    for (const { id, after } of waiters) {
      earliest.set(id, Math.min(after, earliest.get(id) ?? after))
    }
    const watched = [...earliest].map(([id, after]) => ({ id, after }))
    try {
      for await (const view of readSettled(database, watched)) await hand(view)
    } catch (error) {
      for (const id of ids) woken.add(id)
      throw error
    }
  }

  const hand = async (view: TodoView): Promise<void> => {
    const { id, statusSeq } = view.todo
    const ended = [...(waiting.get(id) ?? [])].filter(({ after }) => statusSeq > after)
    if (polled.delete(id) && ended.some(({ looked }) => looked)) pollFinds.found(id)
    for (const [index, waiter] of ended.entries()) {
      // Each answer is written out before the next is made, since it may be large.
      if (index > 0) await new Promise((resolve) => setImmediate(resolve))
      waiter.view = view
      waiter.wake()
    }
  }

  const readAgain = (): void => {
    if (isDue) return
    isDue = true
    setTimeout(() => {
      isDue = false
      readNow()
    }, AGAIN_MS).unref()
  }

  /** One reading at a time, which goes on for as long as wakes come. Rejects where it failed. */
  const readAllWoken = (): Promise<void> => {
    if (woken.size === 0) return reading ?? Promise.resolve()
    reading ??= (async () => {
      try {
        while (woken.size > 0) await readWoken()
      } catch (error) {
        // The database is away, and the wakes are spent: they are read again soon, not at the poll.
        readAgain()
        throw error
      } finally {
        reading = null
        underWay = new Set()
      }
    })()
    return reading
  }

  /** For a wake. If it fails it is read again soon; the poll tells of it. */
  const readNow = (): void => {
    readAllWoken().catch(() => {})
  }

  /** What the reader has handed it; before that, once, what it reads itself. */
  const look = async (waiter: SettleWaiter): Promise<TodoView | null> => {
    if (waiter.view || waiter.looked) return waiter.view
    const view = orNotFound(await readView(database, waiter.id, EVERYTHING))
    waiter.looked = true
    return settled(view.todo) && view.todo.statusSeq > waiter.after ? view : waiter.view
  }

  const remove = (waiter: SettleWaiter): void => {
    const waiters = waiting.get(waiter.id)
    waiters?.delete(waiter)
    if (!waiters || waiters.size > 0) return
    waiting.delete(waiter.id)
    polled.delete(waiter.id)
  }

  const settle = async (id: string, after: number, signal: AbortSignal): Promise<TodoView> => {
    signal.throwIfAborted()
    const waiter = new SettleWaiter(id, after, after === 1 && isUnchanged(id))
    // It is added before it looks, so what happens during that read is not missed.
    const waiters = waiting.get(id) ?? new Set()
    waiting.set(id, waiters.add(waiter))
    try {
      const view = await lookUntil(waiter, {
        look: () => look(waiter),
        isEnough: isThere,
        signal,
      })
      if (view === null) throw signal.reason
      return view
    } finally {
      remove(waiter)
    }
  }

  const readAll = async (): Promise<void> => {
    for (const id of waiting.keys()) woken.add(id)
    await readAllWoken()
  }

  return {
    settle,
    /** Rejects where the read failed. */
    poll: async (): Promise<void> => {
      for (const id of waiting.keys()) {
        // What a wake has asked for is found by it, however long the read takes.
        if (!woken.has(id) && !underWay.has(id)) polled.add(id)
      }
      await readAll()
    },
    /** After wakes may have been missed, which is itself a wake for everybody. */
    lookAtAll: (): void => {
      polled.clear()
      readAll().catch(() => {})
    },
    start: (wakes: Wakes): (() => void)[] => [
      wakes.onPrefix(topics.settled.prefix, (id) => {
        pollFinds.woken(id)
        polled.delete(id)
        if (!waiting.has(id)) return
        woken.add(id)
        // Wakes of one moment share a read.
        if (woken.size === 1) setImmediate(readNow)
      }),
    ],
  }
}
