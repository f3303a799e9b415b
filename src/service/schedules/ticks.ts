/**
 * What the clock makes of schedules: one todo for each tick, over all nodes. A schedule whose time has come
 * is locked, its todos are made under a key of their tick, and its next tick is written, all in one
 * transaction: a node that dies in it has made nothing, and another begins anew. A clock that steps back
 * finds the next tick written; ticks that a step forward made too early are not made again.
 */
import { createHash } from 'node:crypto'
import { isRefusal } from '../../domain/errors.ts'
import { IDEMPOTENCY_WINDOW } from '../../domain/policy.ts'
import type { Queue } from '../../domain/queue.ts'
import { madeOf, type Schedule } from '../../domain/sends/schedule.ts'
import type { Todo } from '../../domain/todo.ts'
import { readQueues } from '../../store/admin/queues.ts'
import {
  advanceSchedule,
  failSchedule,
  lockDueSchedule,
  readDueSchedules,
} from '../../store/admin/schedules.ts'
import { addTodoOnce } from '../../store/move/add.ts'
import type { Session } from '../../store/postgres/database.ts'
import type { SendKey } from '../../store/todos/idempotency.ts'
import type { Parts } from '../parts.ts'
import { sweepEach } from '../sweep-runner.ts'
import { OPERATOR } from '../tasks/idempotency.ts'
import type { Submitter } from '../tasks/submit.ts'
import { truncate } from '../tasks/text.ts'
import { nextTick, ticksAfter, ticksWithin } from './cron.ts'

interface TickerParts extends Pick<Parts, 'database' | 'metrics' | 'log' | 'stuckRows'> {
  submitter: Submitter
}

/** What one transaction has made of a schedule. */
interface Made {
  schedule: Schedule
  todos: Todo[]
  skipped: number
  /** There are more ticks to make. */
  more: boolean
}

/** Makes what is due; how many todos. */
export type Ticker = () => Promise<number>

/** Todos of one transaction, so that none takes long. */
const BATCH = 50
/** Beyond these the skipped ticks of one moment are not counted. */
const MAX_COUNTED = 200

/** How many ticks from `from` on lie before the first that is made, or up to now where none is. */
const skippedOf = (
  { cron, timeZone }: Schedule,
  from: Date,
  first: Date | null,
  now: Date,
): number => {
  const isSkipped = (tick: Date): boolean => (first ? tick < first : tick <= now)
  const since = new Date(from.getTime() - 1000)
  const oldest = nextTick(cron, timeZone, since)
  if (!oldest || !isSkipped(oldest)) return 0
  return ticksAfter(cron, timeZone, since, MAX_COUNTED).filter(isSkipped).length
}

const keyOf = ({ id, queue }: Schedule, tick: Date): SendKey => {
  const key = `schedule ${id} ${tick.toISOString()}`
  return {
    endpointId: OPERATOR,
    queue,
    source: 'key',
    key,
    // Whatever the schedule sends by then: a tick is made once.
    digest: createHash('sha256').update(key).digest('hex'),
    seconds: IDEMPOTENCY_WINDOW.defaultSeconds,
  }
}

export const createTicker = (parts: TickerParts): Ticker => {
  const { database, submitter, metrics, log, stuckRows } = parts

  const makeOne = async (
    session: Session,
    schedule: Schedule,
    queue: Queue,
    tick: Date,
  ): Promise<Todo | null> => {
    const { name, message, priority, timeouts } = schedule
    const todo = submitter.prepare(
      {
        queue: queue.name,
        message: { ...message, messageId: `${name} ${tick.toISOString()}` },
        priority,
        notBefore: tick,
        ...(timeouts && { timeouts }),
      },
      queue,
      name,
    )
    const added = await addTodoOnce(session, todo, keyOf(schedule, tick))
    if (!added) throw new Error(`there is no queue ${queue.name}`)
    return 'todoId' in added ? null : added
  }

  /** Makes the due ticks of one schedule, or the first of them; null where it is not due for us. */
  const makeDue = (id: string): Promise<Made | null> =>
    database.transaction(async (session) => {
      const locked = await lockDueSchedule(session, id)
      if (!locked) return null
      const { at, ...schedule } = locked
      const { cron, timeZone, nextAt, catchUpLimit } = schedule
      const from = nextAt ?? at
      const due = ticksWithin(cron, timeZone, { from, to: at }, Math.max(catchUpLimit, 2))
      const all = madeOf(schedule, due, at)
      const made = all.slice(0, BATCH)
      const queue = (await readQueues(session)).find(({ name }) => name === schedule.queue)
      if (!queue) throw new Error(`there is no queue ${schedule.queue}`)
      const todos: Todo[] = []
      for (const tick of made) {
        const todo = await makeOne(session, schedule, queue, tick)
        if (todo) todos.push(todo)
      }
      const skipped = skippedOf(schedule, from, all[0] ?? null, at)
      await advanceSchedule(session, id, {
        nextAt: all[BATCH] ?? nextTick(cron, timeZone, at),
        lastTickAt: made.at(-1) ?? null,
        lastTodoId: todos.at(-1)?.id ?? null,
        made: todos.length,
        skipped,
      })
      return { schedule, todos, skipped, more: all.length > BATCH }
    })

  const tell = ({ schedule: { name, queue }, todos, skipped }: Made): void => {
    todos.forEach(submitter.accepted)
    metrics.scheduleTicks.inc({ queue, outcome: 'made' }, todos.length)
    metrics.scheduleTicks.inc({ queue, outcome: 'skipped' }, skipped)
    if (skipped > 0) log.warn({ schedule: name, skipped }, 'ticks of a schedule were skipped')
  }

  const makeAll = async (id: string): Promise<number> => {
    for (let total = 0; ; ) {
      const made = await makeDue(id)
      if (!made) return total
      tell(made)
      total += made.todos.length
      if (!made.more) return total
    }
  }

  const failed = async (id: string, error: unknown): Promise<void> => {
    const text = truncate(error instanceof Error ? error.message : String(error))
    const queue = await failSchedule(database, id, text).catch(() => null)
    if (queue !== null) metrics.scheduleTicks.inc({ queue, outcome: 'failed' })
    stuckRows('schedule', { schedule: id }, 'a tick of a schedule could not be made', error)
  }

  return async () => {
    let total = 0
    await sweepEach(
      (due) => readDueSchedules(database, due),
      async (id) => {
        try {
          total += await makeAll(id)
        } catch (error) {
          if (isRefusal(error, 'unavailable')) throw error
          await failed(id, error)
        }
        return false
      },
      () => {},
    )
    return total
  }
}
