/**
 * Conversations in line (docs/design/lifecycle-layer.md, section 6). Whoever leaves the front hands
 * it over in the same statement; this is for what that statement cannot do: an answer that waits is
 * resumed by its own, and a newcomer that came while the front was being left looks again, since
 * neither of the two could see the other. What is missed even so, the sweep finds.
 */

import { createHash } from 'node:crypto'
import type { Log } from '../../base/log.ts'
import type { Metrics } from '../../base/metrics.ts'
import { Refusal } from '../../domain/errors.ts'
import { INTERRUPT_STATES } from '../../domain/lifecycle.ts'
import type { Queue } from '../../domain/queue.ts'
import { type Moved, overtake, readStalledLines, transitionLine } from '../../store/move/move.ts'
import type { Database } from '../../store/postgres/database.ts'
import { topics } from '../../store/wake/topics.ts'
import type { Wakes } from '../../store/wake/wake.ts'
import { sweepEach } from '../sweep-each.ts'

export interface Conversations {
  /** A newcomer or an answer waits in this line: look whether its front is free after all. */
  recheckSoon(line: string): void
  /** Hands over every line whose front is free although somebody waits; how many. */
  sweep(): Promise<number>
  start(): void
  stop(): void
}

export interface ConversationsParts {
  database: Database
  wakes: Wakes
  metrics: Metrics
  log: Pick<Log, 'warn'>
}

/** A hand-over takes about a millisecond; by the last look it is long done. */
const LOOKS_MS = [0, 50, 500]

/**
 * The line of a conversation: of one client, in one queue. Null in a queue where the todos of a
 * conversation run side by side.
 */
export const lineOf = (
  queue: Pick<Queue, 'name' | 'policy'>,
  clientId: string | null,
  contextId: string,
): string | null => {
  if (queue.policy.contexts === 'parallel') return null
  const name = JSON.stringify([queue.name, clientId, contextId])
  const hex = createHash('sha256').update(name).digest('hex')
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12}).*$/, '$1-$2-$3-$4-$5')
}

export const createConversations = ({
  database,
  wakes,
  metrics,
  log,
}: ConversationsParts): Conversations => {
  let off: () => void = () => {}
  const timers = new Set<NodeJS.Timeout>()

  const count = (moved: Moved | null): boolean => {
    // A parked answer goes back to its queue, which ends the attempt that asked.
    if (moved?.todo.state === 'pending' && INTERRUPT_STATES.includes(moved.from)) {
      metrics.attemptsEnded.inc({ queue: moved.todo.queue, outcome: 'released' })
    }
    return moved !== null
  }

  const handOver = async (line: string): Promise<boolean> =>
    count(await transitionLine(database, line))

  /** Rare, and dearer than a look, which every newcomer takes three of: the sweep's alone. */
  const handOverOrOvertake = async (line: string): Promise<boolean> =>
    (await handOver(line)) || count(await overtake(database, line))

  const couldNotGoOn = (line: string, error: unknown): void => {
    if (!(error instanceof Refusal)) log.warn({ line, err: error }, 'a line could not go on')
  }

  const look = async (line: string): Promise<void> => {
    await handOver(line).catch((error: unknown) => couldNotGoOn(line, error))
  }

  return {
    recheckSoon: (line) => {
      for (const ms of LOOKS_MS) {
        const timer = setTimeout(() => {
          timers.delete(timer)
          void look(line)
        }, ms)
        timer.unref()
        timers.add(timer)
      }
    },
    sweep: () =>
      sweepEach((due) => readStalledLines(database, due), handOverOrOvertake, couldNotGoOn),
    start: () => {
      off = wakes.onPrefix(topics.line.prefix, (line) => void look(line))
    },
    stop: () => {
      off()
      for (const timer of timers) clearTimeout(timer)
    },
  }
}
