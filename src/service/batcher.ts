/**
 * Group commit: items that arrive at one moment, or while statements are under way, share the next
 * statement. No item waits for company beyond that: one that came alone goes by itself. Each item
 * fails or succeeds by itself: what a shared statement could not do is tried alone.
 */
import { isRefusal, Refusal } from '../domain/errors.ts'

export interface BatcherParts<Item, Result> {
  runOne(item: Item): Promise<Result>
  /**
   * Resolves to the results in the order of the items, undefined for what it left undone. If it
   * rejects, it has done nothing.
   */
  runBatch(items: readonly Item[]): Promise<(Result | undefined)[]>
  /** Only items with the same key share a statement. Without it, all can. */
  keyOf?(item: Item): string
  /** The most items in one statement. */
  maxBatch?: number
  /** The most statements under way at once. */
  concurrency?: number
  /** How long an item may wait for its statement, in ms; then it is refused as unavailable. */
  waitMs?: number
}

interface Queued<Item, Result> {
  item: Item
  resolve(result: Result): void
  reject(error: unknown): void
  started: boolean
  timer: NodeJS.Timeout | null
}

export const createBatcher = <Item, Result>({
  runOne,
  runBatch,
  keyOf,
  maxBatch = 100,
  concurrency = 2,
  waitMs = 5000,
}: BatcherParts<Item, Result>): ((item: Item) => Promise<Result>) => {
  let waiting: Queued<Item, Result>[] = []
  let running = 0
  let beginning = false

  const alone = async ({ item, resolve, reject }: Queued<Item, Result>): Promise<void> => {
    try {
      resolve(await runOne(item))
    } catch (error) {
      reject(error)
    }
  }

  const together = async (batch: readonly Queued<Item, Result>[]): Promise<void> => {
    try {
      const results = await runBatch(batch.map(({ item }) => item))
      await Promise.all(
        batch.map((entry, index) => {
          const result = results[index]
          return result === undefined ? alone(entry) : entry.resolve(result)
        }),
      )
    } catch (error) {
      if (isRefusal(error, 'unavailable')) {
        for (const { reject } of batch) reject(error)
      } else await Promise.all(batch.map(alone))
    }
  }

  /** The first item that waits, and those that can go with it, in order. */
  const nextBatch = (): Queued<Item, Result>[] => {
    if (!keyOf) return waiting.splice(0, maxBatch)
    const key = keyOf(waiting[0]!.item)
    const batch = waiting.filter(({ item }) => keyOf(item) === key).slice(0, maxBatch)
    const chosen = new Set(batch)
    waiting = waiting.filter((entry) => !chosen.has(entry))
    return batch
  }

  /** Callers answered together ask again together, so the first waits one turn for the others. */
  const beginSoon = (): void => {
    if (beginning || running >= concurrency) return
    beginning = true
    setImmediate(() => {
      beginning = false
      begin()
    })
  }

  const begin = (): void => {
    while (running < concurrency && waiting.length > 0) {
      const batch = nextBatch()
      for (const entry of batch) {
        entry.started = true
        if (entry.timer) clearTimeout(entry.timer)
      }
      running += 1
      const work = batch.length === 1 ? alone(batch[0]!) : together(batch)
      void work.finally(() => {
        running -= 1
        beginSoon()
      })
    }
  }

  return (item) =>
    new Promise((resolve, reject) => {
      const entry: Queued<Item, Result> = { item, resolve, reject, started: false, timer: null }
      waiting.push(entry)
      beginSoon()
      entry.timer = setTimeout(() => {
        waiting = waiting.filter((other) => other !== entry)
        reject(new Refusal('unavailable', { retryAfterSeconds: 1 }))
      }, waitMs)
    })
}
