/**
 * Budgets: what a todo may spend, in whole numbers by kind, and what it has spent with all that it forked.
 * A kind without a number has no limit.
 */

export const SPEND_KINDS = ['tokens', 'cents', 'calls'] as const
export type SpendKind = (typeof SPEND_KINDS)[number]

export type Amounts = { [Kind in SpendKind]?: number }

/** The most that one budget or one spend may name of a kind. */
export const MAX_AMOUNT = 1_000_000_000_000

/** How many spends of a todo are known again by their keys. */
export const SPEND_KEYS_KEPT = 20

/** The code of a todo that went past its budget. */
export const BUDGET_EXHAUSTED = 'budget_exhausted'

const amountsOf = (of: (kind: SpendKind) => number | undefined): Amounts =>
  Object.fromEntries(
    SPEND_KINDS.flatMap((kind) => {
      const amount = of(kind)
      return amount === undefined ? [] : [[kind, amount]]
    }),
  )

/** What a budget and its spending leave, of each kind that has a limit. */
export const leftOf = (budget: Amounts | null, spent: Amounts | null): Amounts =>
  amountsOf((kind) => {
    const most = budget?.[kind]
    return most === undefined ? undefined : Math.max(0, most - (spent?.[kind] ?? 0))
  })

/** The smaller of two limits, kind by kind. */
export const smaller = (a: Amounts, b: Amounts): Amounts =>
  amountsOf((kind) => {
    const both = [a[kind], b[kind]].filter((amount) => amount !== undefined)
    return both.length === 0 ? undefined : Math.min(...both)
  })

/** The kinds of which more is asked for than there is. */
export const kindsBeyond = (asked: Amounts, limit: Amounts): SpendKind[] =>
  SPEND_KINDS.filter((kind) => (asked[kind] ?? 0) > (limit[kind] ?? Number.POSITIVE_INFINITY))

export const isEmpty = (amounts: Amounts): boolean => Object.keys(amounts).length === 0

/** `300 of 1000 tokens, 2 calls`; empty where there is nothing to tell. */
export const spendText = (budget: Amounts | null, spent: Amounts | null): string =>
  SPEND_KINDS.flatMap((kind) => {
    const most = budget?.[kind]
    const used = spent?.[kind]
    if (most === undefined) return used === undefined ? [] : `${used} ${kind}`
    return `${used ?? 0} of ${most} ${kind}`
  }).join(', ')
