/**
 * JSON in its one canonical form (RFC 8785): members in the order of their names, no blanks. Two
 * documents that say the same are the same text, however they were written, so it can be hashed.
 */

/** Members that are undefined are left out, as by JSON.stringify. Takes what came out of JSON. */
export const canonicalJson = (value: unknown): string => {
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(',')}]`
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  const members = value as Record<string, unknown>
  const written = Object.keys(members)
    .filter((name) => members[name] !== undefined)
    // By UTF-16 code units, which is how sort compares.
    .sort()
    .map((name) => `${JSON.stringify(name)}:${canonicalJson(members[name])}`)
  return `{${written.join(',')}}`
}
