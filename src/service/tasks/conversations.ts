/**
 * Conversations in line (docs/design/lifecycle-layer.md, section 6). A todo that leaves the front
 * hands it over in the same statement. This file does what that statement cannot: it resumes an
 * answer that waits, and it rechecks for a newcomer that came while the front was being left, since
 * neither of the two could see the other. What is missed even so, the sweep finds.
 */

import { createHash } from 'node:crypto'
import { isRefusal } from '../../domain/errors.ts'
import { INTERRUPT_STATES } from '../../domain/lifecycle.ts'
import type { Queue } from '../../domain/queue.ts'
import { type Moved, overtake, readStalledLines, transitionLine } from '../../store/move/move.ts'
import { topics } from '../../store/wake/topics.ts'
import { type Checks, createChecks } from '../chores.ts'
import { countEnded } from '../count-ended.ts'
import type { Parts } from '../parts.ts'
import { sweepEach } from '../sweep-runner.ts'

export interface Conversations {
  /** A newcomer or an answer waits in this line: checks soon whether its front is free after all. */
  recheckSoon(line: string): void
  /** Hands over every line whose front is free although a todo waits; how many. */
  sweep(): Promise<number>
  /** The lines that are checked soon. */
  checks: Checks
  start(): void
  stop(): void
}

/** A hand-over takes about a millisecond; by the last check it is long done. */
const RECHECKS_MS = [1, 50, 500]
const AT_ONCE = [0]

/**
 * The line of a conversation in a queue: one for each client in it, or one for all of them, by the queue's
 * policy. Null in a queue where the todos of a conversation run side by side.
 */
export const lineOf = (
  queue: Pick<Queue, 'name' | 'policy'>,
  clientId: string | null,
  contextId: string,
): string | null => {
  if (queue.policy.contexts === 'parallel') return null
  const whose = queue.policy.line === 'context' ? [] : [clientId]
  const name = JSON.stringify([queue.name, ...whose, contextId])
  const hex = createHash('sha256').update(name).digest('hex')
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12}).*$/, '$1-$2-$3-$4-$5')
}

export const createConversations = ({
  database,
  wakes,
  metrics,
  stuckRows,
}: Pick<Parts, 'database' | 'wakes' | 'metrics' | 'stuckRows'>): Conversations => {
  let off: () => void = () => {}

  const count = (moved: Moved | null): boolean => {
    // A parked answer goes back to its queue, which ends the attempt that asked.
    if (moved?.todo.state === 'pending' && INTERRUPT_STATES.includes(moved.from)) {
      countEnded(metrics, moved, 'released')
    }
    return moved !== null
  }

  const handOver = async (line: string): Promise<boolean> =>
    count(await transitionLine(database, line))

  /** Expensive and rarely needed, so only the sweep does it; newcomers just check three times. */
  const handOverOrOvertake = async (line: string): Promise<boolean> =>
    (await handOver(line)) || count(await overtake(database, line))

  const checks = createChecks({ of: 'line', check: handOver })

  return {
    recheckSoon: (line) => checks.ask(line, RECHECKS_MS),
    checks,
    sweep: () =>
      sweepEach(
        (due) => readStalledLines(database, due),
        handOverOrOvertake,
        (line, error) => {
          if (!isRefusal(error)) stuckRows('reap', { line }, 'a line could not go on', error)
        },
      ),
    start: () => {
      off = wakes.onPrefix(topics.line.prefix, (line) => checks.ask(line, AT_ONCE))
    },
    stop: () => off(),
  }
}
