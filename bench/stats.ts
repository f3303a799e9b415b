/** Medians and percentiles, and numbers as people read them. Measures nothing itself. */

const sorted = (values: readonly number[]): number[] => [...values].sort((a, b) => a - b)

/** Nearest rank: a value that was measured, never one in between. */
export const percentile = (values: readonly number[], share: number): number =>
  sorted(values)[Math.max(0, Math.ceil(values.length * share) - 1)] ?? Number.NaN

export const median = (values: readonly number[]): number => {
  const all = sorted(values)
  const middle = Math.floor(all.length / 2)
  return all.length % 2 === 1 ? all[middle]! : (all[middle - 1]! + all[middle]!) / 2
}

/** Three significant digits, thousands apart. */
export const shown = (value: number): string =>
  Number.isFinite(value)
    ? Number(value.toPrecision(3)).toLocaleString('en-US', { maximumFractionDigits: 3 })
    : '-'

/** `median [lowest–highest]` */
export const spread = (values: readonly number[]): string =>
  `${shown(median(values))} [${shown(Math.min(...values))}–${shown(Math.max(...values))}]`
