/**
 * Streams that are made of other streams and keep nothing of what has passed. An async generator
 * keeps its variables while it waits, so one that lasts for hours would hold the large first event
 * as long; these are plain iterators, whose functions have ended by then.
 */

/** What one item is turned into; after the last of it the stream ends. */
export interface Translated<U> {
  made: U[]
  isLast?: boolean
}

export const translated = <T, U>(
  items: AsyncIterable<T>,
  translate: (item: T) => Translated<U> | Promise<Translated<U>>,
): AsyncIterable<U> => {
  const source = items[Symbol.asyncIterator]()
  let made: U[] = []
  let isLast = false

  const end = async (): Promise<IteratorResult<U>> => {
    made = []
    isLast = true
    await source.return?.()
    return { done: true, value: undefined }
  }
  const pull = async (): Promise<boolean> => {
    const item = await source.next()
    if (item.done) return false
    ;({ made, isLast = false } = await translate(item.value))
    return true
  }
  const next = async (): Promise<IteratorResult<U>> => {
    while (made.length === 0) {
      if (isLast) return end()
      const more = await pull().catch(async (error: unknown) => {
        await end()
        throw error
      })
      if (!more) return { done: true, value: undefined }
    }
    return { done: false, value: made.shift()! }
  }
  return { [Symbol.asyncIterator]: () => ({ next, return: end }) }
}

/** `first`, then what `rest` brings. */
export const firstThen = <T>(first: T, rest: AsyncIterable<T>): AsyncIterable<T> => {
  const source = rest[Symbol.asyncIterator]()
  const held = [first]
  return {
    [Symbol.asyncIterator]: () => ({
      next: async () =>
        held.length > 0 ? { done: false, value: held.pop()! } : await source.next(),
      return: async () => {
        held.length = 0
        await source.return?.()
        return { done: true, value: undefined }
      },
    }),
  }
}
