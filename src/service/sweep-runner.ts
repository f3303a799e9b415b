/**
 * Sweeping in bounded batches: each is one statement and one short transaction, so a hundred
 * thousand overdue rows lock nobody out. A batch that fails is done row by row; a row that cannot be
 * moved is told of and left, and everything behind it goes on. What cannot be moved in batches at all
 * is swept one by one (`sweepEach`).
 */
import { isRefusal } from '../domain/errors.ts'
import type { Change } from '../store/move/change.ts'
import { type Due, type Moved, readDue, transitionDue, tryTransition } from '../store/move/move.ts'
import type { SweepVerb } from '../store/move/verbs.ts'
import type { Parts } from './parts.ts'

const BATCH = 200

/** Sweeps until nothing is due; answers with how many rows were moved. */
export type SweepRunner = (
  verb: SweepVerb,
  change?: Change,
  each?: (moved: Moved) => void,
) => Promise<number>

/** The sweep in which each verb is one step. */
const SWEEP_OF = {
  reapLease: 'reap',
  reapInterrupt: 'reap',
  park: 'reap',
  joinTimeOut: 'timeout',
  revoke: 'reap',
  strand: 'reap',
  cancel: 'reap',
  timeOut: 'timeout',
  expire: 'timeout',
  comeDue: 'come_due',
  enterLine: 'come_due',
} as const satisfies Record<SweepVerb, unknown>

export const createSweepRunner = ({
  database,
  stuckRows,
}: Pick<Parts, 'database' | 'stuckRows'>): SweepRunner => {
  /** The rows that were moved, and how many were read. Adds what cannot be moved to `except`. */
  const oneByOne = async (verb: SweepVerb, change: Change, except: string[]) => {
    const ids = await readDue(database, verb, { limit: BATCH, except }, change)
    const moved: Moved[] = []
    for (const id of ids) {
      try {
        const one = await tryTransition(database, verb, id, change)
        if (one) moved.push(one)
      } catch (error) {
        if (isRefusal(error, 'unavailable')) throw error
        except.push(id)
        stuckRows(SWEEP_OF[verb], { todo: id, verb }, 'a todo could not be swept', error)
      }
    }
    return { moved, scanned: ids.length }
  }

  const batch = async (verb: SweepVerb, change: Change, except: string[]) => {
    try {
      const moved = await transitionDue(database, verb, { limit: BATCH, except }, change)
      return { moved, scanned: moved.length }
    } catch (error) {
      if (isRefusal(error, 'unavailable')) throw error
      return oneByOne(verb, change, except)
    }
  }

  return async (verb, change = {}, each = () => {}) => {
    const except: string[] = []
    let total = 0
    for (;;) {
      const { moved, scanned } = await batch(verb, change, except)
      moved.forEach(each)
      total += moved.length
      if (scanned < BATCH) return total
    }
  }
}

/**
 * Sweeps one by one until nothing is left that could be moved; answers with how many were. A row
 * that fails is handed to `failed` and left, and everything behind it goes on.
 */
export const sweepEach = async (
  read: (due: Due) => Promise<string[]>,
  move: (id: string) => Promise<boolean>,
  failed: (id: string, error: unknown) => void,
): Promise<number> => {
  const except: string[] = []
  let total = 0
  for (;;) {
    const found = await read({ limit: BATCH, except })
    for (const id of found) {
      const moved = await move(id).catch((error: unknown) => {
        if (isRefusal(error, 'unavailable')) throw error
        failed(id, error)
        return false
      })
      if (moved) total += 1
      // It cannot be moved, or somebody else is at it just now.
      else except.push(id)
    }
    if (found.length < BATCH) return total
  }
}
