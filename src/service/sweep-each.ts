/**
 * Sweeping one by one what cannot be moved in batches: what fails is handed to `failed` and left,
 * and everything behind it goes on.
 */
import { Refusal } from '../domain/errors.ts'
import type { Due } from '../store/move/move.ts'

const PAGE = 200

/** Until nothing is left that could be moved; how many were. */
export const sweepEach = async (
  read: (due: Due) => Promise<string[]>,
  move: (id: string) => Promise<boolean>,
  failed: (id: string, error: unknown) => void,
): Promise<number> => {
  const except: string[] = []
  let total = 0
  for (;;) {
    const found = await read({ limit: PAGE, except })
    for (const id of found) {
      const moved = await move(id).catch((error: unknown) => {
        if (error instanceof Refusal && error.kind === 'unavailable') throw error
        failed(id, error)
        return false
      })
      if (moved) total += 1
      // It cannot be moved, or is somebody else's just now.
      else except.push(id)
    }
    if (found.length < PAGE) return total
  }
}
