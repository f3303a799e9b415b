/** The operator's schedules: made, changed, looked at, paused, removed. What they send is in ticks.ts. */
import { exactText } from '../../base/exact-json.ts'
import { invalid, orNotFound, Refusal } from '../../domain/errors.ts'
import { maxSchedules, SCHEDULES, type Schedule } from '../../domain/sends/schedule.ts'
import { PRIORITY } from '../../domain/sends/send.ts'
import type { Message } from '../../domain/todo.ts'
import { readQueues } from '../../store/admin/queues.ts'
import {
  beginPut,
  countSchedules,
  pauseSchedule,
  putSchedule,
  readSchedule,
  readSchedules,
  removeSchedule,
  SCHEDULE_HAS_QUEUE,
  type SchedulePut,
} from '../../store/admin/schedules.ts'
import { readClock } from '../../store/postgres/clock.ts'
import { isReferenceViolation } from '../../store/postgres/database.ts'
import type { Parts } from '../parts.ts'
import { cronProblem, isTimeZone, nextTick, ticksAfter } from './cron.ts'

/** What is left out keeps its value, or has its default in a new schedule. */
type PutSchedule = Pick<SchedulePut, 'name'> & Partial<SchedulePut>

/** A schedule with its next ticks; none while it is paused. */
export interface ShownSchedule {
  schedule: Schedule
  upcoming: Date[]
}

export interface ScheduleService {
  /** Makes a schedule, or changes it. Refuses: invalid, limit. */
  putSchedule(put: PutSchedule): Promise<ShownSchedule>
  getSchedule(name: string): Promise<ShownSchedule>
  listSchedules(): Promise<Schedule[]>
  removeSchedule(name: string): Promise<void>
  /** Pauses it, or lets it go on from now: what fell due meanwhile is not caught up. */
  pauseSchedule(name: string, paused: boolean): Promise<ShownSchedule>
}

const UPCOMING = 3

const DEFAULTS = {
  timeZone: 'UTC',
  catchUp: 'one',
  catchUpLimit: SCHEDULES.catchUp.standard,
  priority: PRIORITY.normal,
  timeouts: null,
  paused: false,
} as const

const checkMessage = (message: Message): void => {
  if (message.taskId !== undefined) throw invalid('message.taskId', 'a schedule makes new tasks')
  const bytes = Buffer.byteLength(exactText(message))
  if (bytes <= SCHEDULES.messageBytes) return
  const { messageBytes: limit } = SCHEDULES
  throw new Refusal('limit', { limit }, `The message of a schedule has ${limit} bytes at most`)
}

/** Refuses: invalid, by the first member at fault; limit. */
const check = ({ cron, timeZone, message }: SchedulePut): void => {
  if (cron.length > SCHEDULES.cronLength) {
    throw invalid('cron', `must have ${SCHEDULES.cronLength} characters at most`)
  }
  const problem = cronProblem(cron)
  if (problem !== null) throw invalid('cron', problem)
  if (!isTimeZone(timeZone))
    throw invalid('timeZone', 'must be a name such as Europe/Berlin, or UTC')
  checkMessage(message)
}

const noQueue = (name: string): Refusal => invalid('queue', `there is no queue ${name}`)

const wholeOf = (put: PutSchedule, before: Schedule | null): SchedulePut => {
  const merged = { ...DEFAULTS, ...before, ...put }
  const { queue, cron, message } = merged
  for (const [name, value] of Object.entries({ queue, cron, message })) {
    if (value === undefined) throw invalid(name, 'must be there for a new schedule')
  }
  return merged as SchedulePut
}

export const createSchedules = ({
  database,
  registry,
}: Pick<Parts, 'database' | 'registry'>): ScheduleService => {
  const shown = async (schedule: Schedule): Promise<ShownSchedule> => {
    const { cron, timeZone, paused } = schedule
    if (paused) return { schedule, upcoming: [] }
    return { schedule, upcoming: ticksAfter(cron, timeZone, await readClock(database), UPCOMING) }
  }
  const find = async (name: string): Promise<Schedule> =>
    orNotFound(await readSchedule(database, name))

  return {
    putSchedule: async (put) => {
      const max = maxSchedules((await registry.settings()).get(SCHEDULES.setting))
      const schedule = await database.transaction(async (session) => {
        await beginPut(session)
        const before = await readSchedule(session, put.name)
        const whole = wholeOf(put, before)
        check(whole)
        if (!(await readQueues(session)).some(({ name }) => name === whole.queue)) {
          throw noQueue(whole.queue)
        }
        if (!before && (await countSchedules(session)) >= max) {
          const text = `There are ${max} schedules, which is the limit (setting ${SCHEDULES.setting})`
          throw new Refusal('limit', { limit: max }, text)
        }
        const next = nextTick(whole.cron, whole.timeZone, await readClock(session))
        if (!next) throw invalid('cron', 'names no moment that will ever come')
        return putSchedule(session, whole, next).catch((error: unknown) => {
          // It was removed a moment ago.
          throw isReferenceViolation(error, SCHEDULE_HAS_QUEUE) ? noQueue(whole.queue) : error
        })
      })
      return shown(schedule)
    },
    getSchedule: async (name) => shown(await find(name)),
    listSchedules: () => readSchedules(database),
    removeSchedule: async (name) => {
      if (!(await removeSchedule(database, name))) throw new Refusal('not_found')
    },
    pauseSchedule: async (name, paused) => {
      const { cron, timeZone } = await find(name)
      const next = nextTick(cron, timeZone, await readClock(database))
      return shown(orNotFound(await pauseSchedule(database, { name, paused, next })))
    },
  }
}
