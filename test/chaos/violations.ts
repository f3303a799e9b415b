/** What was promised and did not hold, gathered instead of thrown: a run tells all of it. */

export interface Violation {
  what: string
  detail: string
}

export interface Violations {
  add(what: string, detail: string): void
  /** What the check throws is a violation. */
  check(what: string, check: () => void): void
  all(): readonly Violation[]
}

export const openViolations = (): Violations => {
  const found: Violation[] = []
  const add: Violations['add'] = (what, detail) => {
    found.push({ what, detail })
  }
  return {
    add,
    check: (what, check) => {
      try {
        check()
      } catch (error) {
        add(what, error instanceof Error ? error.message : String(error))
      }
    },
    all: () => found,
  }
}
