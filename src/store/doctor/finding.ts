/** What a check of the doctor finds. */
export interface Finding {
  check: string
  /** `unknown`: it could not be looked at from here; this counts as nothing wrong. */
  status: 'ok' | 'wrong' | 'unknown'
  /** What was found, in a sentence. */
  found: string
  /** What to do; one line each. */
  advice: string[]
}

export const ok = (check: string, found: string): Finding => ({
  check,
  status: 'ok',
  found,
  advice: [],
})

export const unknown = (check: string, found: string, ...advice: string[]): Finding => ({
  check,
  status: 'unknown',
  found,
  advice,
})

/** A fault, and what to do about it. */
export interface Fault {
  found: string
  advice: string
}

/** Wrong where there are faults; else `fine` says what was looked at. */
export const judged = (check: string, faults: readonly Fault[], fine: string): Finding =>
  faults.length === 0
    ? ok(check, fine)
    : {
        check,
        status: 'wrong',
        found: faults.map(({ found }) => found).join('; '),
        advice: [...new Set(faults.map(({ advice }) => advice))],
      }

/** The first few of a long list, and how many more there are. */
export const someOf = (names: readonly string[], most = 5): string => {
  const more = names.length - most
  return names.slice(0, most).join(', ') + (more > 0 ? ` and ${more} more` : '')
}
