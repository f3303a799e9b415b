/**
 * What the calls of late have shown of the database that a question of readiness would not: it answers
 * `select` while its disk is full and while its tables are locked.
 */
import { troubleOf } from './pg-errors.ts'

export interface Trouble {
  failed(statement: string, error: unknown): void
  succeeded(statement: string): void
  /** In a sentence for operators; null where all is well. */
  reason(): string | null
}

/** Nobody may come to a node that is not ready, so what it has seen is not believed for longer. */
const BELIEVED_MS = 15_000

export const createTrouble = (): Trouble => {
  /** By statement: one that waits may have met a single locked row. */
  const seen = new Map<string, { reason: string; statements: number; at: number }>()

  return {
    failed: (statement, error) => {
      const { reason, statements } = troubleOf(error) ?? {}
      if (reason === undefined || statements === undefined) return
      seen.set(statement, { reason, statements, at: performance.now() })
    },
    succeeded: (statement) => {
      const over = seen.size > 0 && seen.get(statement)?.reason
      if (!over) return
      // Where one gets through that did not, the others would too.
      for (const [name, { reason }] of seen) if (reason === over) seen.delete(name)
    },
    reason: () => {
      const since = performance.now() - BELIEVED_MS
      const recent = [...seen.values()].filter(({ at }) => at > since)
      const enough = recent.find(
        ({ reason, statements }) =>
          recent.filter((other) => other.reason === reason).length >= statements,
      )
      return enough?.reason ?? null
    },
  }
}
