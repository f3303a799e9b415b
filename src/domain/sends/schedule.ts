/** Recurring sends: what a schedule is, and which of its ticks are made when several are due. */
import type { Timeouts } from '../policy.ts'
import type { Message } from '../todo.ts'

/**
 * What becomes of ticks that nobody made in time, as while every node was down. `skip`: nothing. `one`:
 * the newest is made, for all of them. `all`: each is made, the newest of them up to a limit.
 */
export const CATCH_UPS = ['skip', 'one', 'all'] as const
type CatchUp = (typeof CATCH_UPS)[number]

export const SCHEDULES = {
  setting: 'max_schedules',
  standard: 100,
  /** A list of them all is one answer. */
  max: 1000,
  /** The JSON of a schedule's message. */
  messageBytes: 262_144,
  cronLength: 200,
  /** Ticks that `all` makes at most. Reckoning one takes a third of a millisecond. */
  catchUp: { standard: 100, max: 200 },
  /** A tick that is later than this has been missed: restarts and slow moments take less. */
  missedAfterMs: 60_000,
} as const

const readMax = (value: string): number | null => {
  const count = /^\d{1,4}$/.test(value) ? Number(value) : Number.NaN
  return count <= SCHEDULES.max ? count : null
}

export const isMaxSchedules = (value: string): boolean => readMax(value) !== null

/** An absent or unfit value keeps the default. */
export const maxSchedules = (value: string | undefined): number =>
  (value === undefined ? null : readMax(value)) ?? SCHEDULES.standard

export interface Schedule {
  name: string
  /** Of this life of the name: one that is removed and put again is another schedule. */
  id: string
  queue: string
  cron: string
  timeZone: string
  catchUp: CatchUp
  catchUpLimit: number
  /** What each tick sends, without an id. */
  message: Message
  priority: number
  timeouts: Timeouts | null
  paused: boolean
  nextAt: Date | null
  /** The newest tick that was made, and its todo. */
  lastTickAt: Date | null
  lastTodoId: string | null
  made: number
  skipped: number
  /** Why the tick that is due cannot be made; null where it can. */
  error: string | null
  createdAt: Date
  updatedAt: Date
}

/** Which of the ticks that are due, oldest first, are made. */
export const madeOf = (
  { catchUp, catchUpLimit }: Pick<Schedule, 'catchUp' | 'catchUpLimit'>,
  due: readonly Date[],
  now: Date,
): Date[] => {
  if (catchUp === 'all') return due.slice(-catchUpLimit)
  if (catchUp === 'one') return due.slice(-1)
  return due.filter((tick) => now.getTime() - tick.getTime() <= SCHEDULES.missedAfterMs)
}
