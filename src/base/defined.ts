type Loose<T> = { [K in keyof T]?: T[K] | undefined }

/**
 * The members of an object that are not undefined. With exactOptionalPropertyTypes an optional
 * member is either there or absent, so this is how one is passed on.
 */
export const defined = <T>(members: Loose<T>): T => {
  const kept: Loose<T> = {}
  for (const name in members) if (members[name] !== undefined) kept[name] = members[name]
  return kept as T
}
