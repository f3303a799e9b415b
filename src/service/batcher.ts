/**
 * Group commit: what arrives at one moment, or while statements are under way, shares the next one.
 * Nobody waits for company beyond that: what came alone goes by itself. Each item fails or succeeds
 * by itself: what a shared statement could not do is tried alone.
 */
import { Refusal } from '../domain/errors.ts'

export interface GatherParts<Item, Result> {
  one(item: Item): Promise<Result>
  /**
   * The results in the order of the items, undefined for what it left undone. Where it rejects, it
   * has done nothing.
   */
  many(items: readonly Item[]): Promise<(Result | undefined)[]>
  /** Only items of one key go into one statement. Without it, all may. */
  keyOf?(item: Item): string
  /** Items in one statement, at most. */
  most?: number
  /** Statements under way, at most. */
  underWay?: number
  /** How long an item may wait for its statement to begin, in ms; then it is refused: unavailable. */
  waitMs?: number
}

interface Waiting<Item, Result> {
  item: Item
  resolve(result: Result): void
  reject(error: unknown): void
  begun: boolean
  timer: NodeJS.Timeout | null
}

export const createGather = <Item, Result>({
  one,
  many,
  keyOf,
  most = 100,
  underWay = 2,
  waitMs = 5000,
}: GatherParts<Item, Result>): ((item: Item) => Promise<Result>) => {
  let waiting: Waiting<Item, Result>[] = []
  let running = 0
  let beginning = false

  const alone = async ({ item, resolve, reject }: Waiting<Item, Result>): Promise<void> => {
    try {
      resolve(await one(item))
    } catch (error) {
      reject(error)
    }
  }

  const together = async (batch: readonly Waiting<Item, Result>[]): Promise<void> => {
    try {
      const results = await many(batch.map(({ item }) => item))
      await Promise.all(
        batch.map((entry, index) => {
          const result = results[index]
          return result === undefined ? alone(entry) : entry.resolve(result)
        }),
      )
    } catch (error) {
      if (error instanceof Refusal && error.kind === 'unavailable') {
        for (const { reject } of batch) reject(error)
      } else await Promise.all(batch.map(alone))
    }
  }

  /** The first that waits, and those that may go with it, in order. */
  const nextBatch = (): Waiting<Item, Result>[] => {
    if (!keyOf) return waiting.splice(0, most)
    const key = keyOf(waiting[0]!.item)
    const batch = waiting.filter(({ item }) => keyOf(item) === key).slice(0, most)
    const taken = new Set(batch)
    waiting = waiting.filter((entry) => !taken.has(entry))
    return batch
  }

  /** Those who were answered together ask again together: the first of them waits for the others. */
  const beginSoon = (): void => {
    if (beginning || running >= underWay) return
    beginning = true
    setImmediate(() => {
      beginning = false
      begin()
    })
  }

  const begin = (): void => {
    while (running < underWay && waiting.length > 0) {
      const batch = nextBatch()
      for (const entry of batch) {
        entry.begun = true
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
      const entry: Waiting<Item, Result> = { item, resolve, reject, begun: false, timer: null }
      waiting.push(entry)
      beginSoon()
      entry.timer = setTimeout(() => {
        waiting = waiting.filter((other) => other !== entry)
        reject(new Refusal('unavailable', { retryAfterSeconds: 1 }))
      }, waitMs)
    })
}
