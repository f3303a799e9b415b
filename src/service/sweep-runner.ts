/**
 * Sweeping in bounded batches: each is one statement and one short transaction, so a hundred
 * thousand overdue rows lock nobody out. A batch that fails is done row by row; the row that
 * cannot be moved is logged and left, and everything behind it goes on.
 */

import type { Log } from '../base/log.ts'
import { Refusal } from '../domain/errors.ts'
import type { Change } from '../store/move/change.ts'
import { type Moved, readDue, transitionDue, tryTransition } from '../store/move/move.ts'
import type { SweepVerb } from '../store/move/verbs.ts'
import type { Database } from '../store/postgres/database.ts'

const BATCH = 200

export interface BatchParts {
  database: Database
  log: Pick<Log, 'error'>
}

export type SweepRunner = (
  verb: SweepVerb,
  change?: Change,
  each?: (moved: Moved) => void,
) => Promise<number>

/** Sweeps until nothing is due; answers with how many rows were moved. */
export const createSweepRunner = ({ database, log }: BatchParts): SweepRunner => {
  /** Those moved, and how many were looked at. What cannot be moved is added to `except`. */
  const oneByOne = async (verb: SweepVerb, change: Change, except: string[]) => {
    const ids = await readDue(database, verb, { limit: BATCH, except }, change)
    const moved: Moved[] = []
    for (const id of ids) {
      try {
        const one = await tryTransition(database, verb, id, change)
        if (one) moved.push(one)
      } catch (error) {
        if (error instanceof Refusal && error.kind === 'unavailable') throw error
        except.push(id)
        log.error({ todo: id, verb, err: error }, 'a todo could not be swept')
      }
    }
    return { moved, looked: ids.length }
  }

  const batch = async (verb: SweepVerb, change: Change, except: string[]) => {
    try {
      const moved = await transitionDue(database, verb, { limit: BATCH, except }, change)
      return { moved, looked: moved.length }
    } catch (error) {
      if (error instanceof Refusal && error.kind === 'unavailable') throw error
      return oneByOne(verb, change, except)
    }
  }

  return async (verb, change = {}, each = () => {}) => {
    const except: string[] = []
    let total = 0
    for (;;) {
      const { moved, looked } = await batch(verb, change, except)
      moved.forEach(each)
      total += moved.length
      if (looked < BATCH) return total
    }
  }
}
