/**
 * Budgets that only shrink (docs/design/lifecycle-layer.md, section 8): a child may do what is
 * among its parent's effects, and no fixed catalog says otherwise. Depth and number are bounded.
 */
import { Refusal } from '../../domain/errors.ts'

export const DEPTH_AT_MOST = 8
export const LIVE_CHILDREN_AT_MOST = 1000

/** What both allow; null is everything. */
export const narrower = (
  a: readonly string[] | null,
  b: readonly string[] | null,
): string[] | null => {
  if (a === null || b === null) return (a ?? b)?.slice() ?? null
  return a.filter((effect) => b.includes(effect))
}

/**
 * The effects of a child: those asked for, else its parent's; null is everything. Refuses:
 * forbidden, naming what the parent may not do itself.
 */
export const shrink = (
  parent: readonly string[] | null,
  asked: readonly string[] | undefined,
): readonly string[] | null => {
  if (asked === undefined) return parent
  const refused = parent === null ? [] : asked.filter((effect) => !parent.includes(effect))
  if (refused.length === 0) return [...new Set(asked)]
  throw new Refusal('forbidden', { refused }, `The budget has no ${refused.join(', ')} to give`)
}
