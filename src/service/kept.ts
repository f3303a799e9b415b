/** A map that forgets the oldest once there are too many, or they are too large together. */
export interface Kept<V> {
  get(key: string): V | undefined
  set(key: string, value: V, size: number): void
  /** How many there are, and how large they are together. */
  held(): { count: number; size: number }
}

export const createKept = <V>(maxCount: number, maxSize: number): Kept<V> => {
  const entries = new Map<string, { value: V; size: number }>()
  let total = 0
  const drop = (key: string): void => {
    total -= entries.get(key)?.size ?? 0
    entries.delete(key)
  }
  return {
    get: (key) => {
      const found = entries.get(key)
      if (!found) return undefined
      // The one that was used last is the youngest.
      entries.delete(key)
      entries.set(key, found)
      return found.value
    },
    set: (key, value, size) => {
      drop(key)
      entries.set(key, { value, size })
      total += size
      while (entries.size > maxCount || total > maxSize) drop(entries.keys().next().value!)
    },
    held: () => ({ count: entries.size, size: total }),
  }
}
