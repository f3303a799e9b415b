/** Keeps what was made of an object, once for each way, for as long as the object lives. */
export const createMemo = <Of extends object, Made>() => {
  const kept = new WeakMap<Of, Map<string, Made>>()
  return (of: Of, way: string, make: () => Made): Made => {
    const ways = kept.get(of) ?? new Map<string, Made>()
    kept.set(of, ways)
    const known = ways.get(way)
    if (known !== undefined) return known
    const made = make()
    ways.set(way, made)
    return made
  }
}
