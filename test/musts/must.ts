/** One row of the table of what A2A's specification demands of a server, and how to write one. */

/** Files below test/, each with the exact titles of tests in it. */
export type Proof = Readonly<Record<string, readonly string[]>>

export interface Must {
  /** The number; where it demands several things, a letter for each: `10a`. */
  id: string
  /** Of the specification: of 1.0.1, of its proto (P), or of 0.3 and its JSON Schema (J). */
  section: string
  says: string
  proof: Proof | { why: string }
}

export const must = (id: string, section: string, says: string, proof: Proof): Must => ({
  id,
  section,
  says,
  proof,
})

/** One that has no test, and why. */
export const untested = (id: string, section: string, says: string, why: string): Must => ({
  id,
  section,
  says,
  proof: { why },
})
