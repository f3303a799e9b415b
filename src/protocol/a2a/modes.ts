/**
 * The modes of a card: media types by the specification, often a bare `text` in the field. What a
 * part's media type is compared with.
 */

const TOP_LEVEL = new Set(
  'application audio font image message model multipart text video'.split(' '),
)

const essence = (mediaType: string): string => (mediaType.split(';')[0] ?? '').trim().toLowerCase()

/** A media type such as `text/plain`, with or without parameters, or a range such as `image/*`. */
export const isMediaRange = (mode: string): boolean =>
  /^[^\s/;,]+\/[^\s/;,]+(?:\s*;[^,]*)?$/.test(mode)

/** The range that a bare `text` or `image` stands for; null for any other text. */
export const topLevelRange = (mode: string): string | null =>
  TOP_LEVEL.has(essence(mode)) ? `${essence(mode)}/*` : null

/**
 * `image/png` matches `image/png`, `image/*`, `image` and `*` + `/*`; parameters do not count. A mode
 * that is neither a media type nor the beginning of one says nothing of media types, so it matches all.
 */
export const isIn = (mediaType: string, modes: readonly string[]): boolean => {
  const given = essence(mediaType)
  return modes.some((mode) => {
    const range = isMediaRange(mode) ? essence(mode) : topLevelRange(mode)
    if (range === null || range === '*/*' || range === given) return true
    return range.endsWith('/*') && given.startsWith(range.slice(0, -1))
  })
}
