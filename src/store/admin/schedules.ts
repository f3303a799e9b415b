/** Schedules: what recurs, when it falls due next, and what came of it. */
import { exactText } from '../../base/exact-json.ts'
import type { Schedule } from '../../domain/sends/schedule.ts'
import { DUE_SCHEDULE, DUE_SCHEDULES } from '../move/pick.ts'
import { type Session, statement } from '../postgres/database.ts'
import { columnsOf, readOne } from '../postgres/rows.ts'
import { $, sql } from '../postgres/sql.ts'
import { plannedEachTime } from '../postgres/statement.ts'

const COLUMNS = columnsOf<Schedule>()(
  [
    'name id queue cron timeZone catchUp catchUpLimit message priority timeouts paused nextAt',
    'lastTickAt lastTodoId error createdAt updatedAt',
  ],
  { made: (s) => `${s}.made::float8`, skipped: (s) => `${s}.skipped::float8` },
).select('s')

/** What its maker says of a schedule. */
export type SchedulePut = Pick<
  Schedule,
  | 'name'
  | 'queue'
  | 'cron'
  | 'timeZone'
  | 'catchUp'
  | 'catchUpLimit'
  | 'message'
  | 'priority'
  | 'timeouts'
  | 'paused'
>

const read = plannedEachTime<Schedule>(
  'schedule_read',
  sql`select ${COLUMNS} from schedules s where s.name = ${$.name}`,
)

export const readSchedule = (session: Session, name: string): Promise<Schedule | null> =>
  readOne(session, read, { name })

const readAll = plannedEachTime<Schedule>(
  'schedules_read',
  `select ${COLUMNS} from schedules s order by s.name`,
)

export const readSchedules = (session: Session): Promise<Schedule[]> => session.run(readAll, {})

const count = plannedEachTime<{ count: number }>(
  'schedules_count',
  'select count(*)::int as count from schedules',
)

export const countSchedules = async (session: Session): Promise<number> =>
  (await session.run(count, {}))[0]!.count

/** "schedule" in ASCII, a number that nobody else locks. */
const begin = plannedEachTime<never>(
  'schedule_begin',
  'select pg_advisory_xact_lock(8314604121742470245)',
)

/** Those who put schedules come one after the other, so that each counts what the others have made. */
export const beginPut = async (session: Session): Promise<void> => {
  await session.run(begin, {})
}

/** The constraint that keeps a schedule from outliving its queue. */
export const SCHEDULE_HAS_QUEUE = 'schedule_has_its_queue'

const put = plannedEachTime<Schedule>(
  'schedule_put',
  sql`insert into schedules as s (name, queue, cron, time_zone, catch_up, catch_up_limit, message, priority,
    timeouts, paused, next_at)
  values (${$.name}, ${$.queue}, ${$.cron}, ${$.time_zone}, ${$.catch_up}, ${$.limit}::int, ${$.message}::json,
    ${$.priority}::smallint, ${$.timeouts}::json, ${$.paused}::boolean, ${$.next_at}::timestamptz)
  on conflict (name) do update set queue = excluded.queue, cron = excluded.cron,
    time_zone = excluded.time_zone, catch_up = excluded.catch_up,
    catch_up_limit = excluded.catch_up_limit, message = excluded.message, priority = excluded.priority,
    timeouts = excluded.timeouts, paused = excluded.paused, error = null, updated_at = now(),
    -- Ticks that are due already stay due, unless they are others now.
    next_at = case when s.cron = excluded.cron and s.time_zone = excluded.time_zone and not s.paused
      then coalesce(s.next_at, excluded.next_at) else excluded.next_at end
  returning ${COLUMNS}`,
)

export const putSchedule = async (
  session: Session,
  schedule: SchedulePut,
  next: Date,
): Promise<Schedule> => {
  const [row] = await session.run(put, {
    name: schedule.name,
    queue: schedule.queue,
    cron: schedule.cron,
    time_zone: schedule.timeZone,
    catch_up: schedule.catchUp,
    limit: schedule.catchUpLimit,
    message: exactText(schedule.message),
    priority: schedule.priority,
    timeouts: schedule.timeouts && JSON.stringify(schedule.timeouts),
    paused: schedule.paused,
    next_at: next,
  })
  return row!
}

const pause = plannedEachTime<Schedule>(
  'schedule_pause',
  sql`update schedules s set paused = ${$.paused}::boolean, updated_at = now(),
    next_at = case when s.paused and not ${$.paused}::boolean then ${$.next_at}::timestamptz else s.next_at end
  where s.name = ${$.name} returning ${COLUMNS}`,
)

export const pauseSchedule = (
  session: Session,
  { name, paused, next }: { name: string; paused: boolean; next: Date | null },
): Promise<Schedule | null> => readOne(session, pause, { name, paused, next_at: next })

const remove = plannedEachTime<{ name: string }>(
  'schedule_remove',
  sql`delete from schedules s where s.name = ${$.name} returning s.name`,
)

/** False where there is none. */
export const removeSchedule = async (session: Session, name: string): Promise<boolean> =>
  (await readOne(session, remove, { name })) !== null

/* ---------------------------------------------------------------- their ticks */

const due = statement<{ id: string }>('schedules_due', DUE_SCHEDULES)

/** Those whose time has come, without touching them. */
export const readDueSchedules = async (
  session: Session,
  { limit, except }: { limit: number; except?: readonly string[] },
): Promise<string[]> => (await session.run(due, { limit, except })).map(({ id }) => id)

const lock = statement<Schedule & { at: Date }>(
  'schedule_lock',
  sql`select ${COLUMNS}, now() as at ${DUE_SCHEDULE}`,
)

/** The schedule, locked, and the moment; null where it is not due, or another node is at it. */
export const lockDueSchedule = (
  session: Session,
  id: string,
): Promise<(Schedule & { at: Date }) | null> => readOne(session, lock, { id })

const advance = statement<never>(
  'schedule_advance',
  sql`update schedules s set next_at = ${$.next_at}::timestamptz, error = null,
    last_tick_at = coalesce(${$.last_tick_at}::timestamptz, s.last_tick_at),
    last_todo_id = coalesce(${$.todo_id}::uuid, s.last_todo_id),
    made = s.made + ${$.made}::int, skipped = s.skipped + ${$.skipped}::int
  where s.id = ${$.id}::uuid`,
)

/** What came of the ticks that were due, and when the next one is. */
export const advanceSchedule = async (
  session: Session,
  id: string,
  came: Pick<Schedule, 'nextAt' | 'lastTickAt' | 'lastTodoId' | 'made' | 'skipped'>,
): Promise<void> => {
  await session.run(advance, {
    id,
    next_at: came.nextAt,
    last_tick_at: came.lastTickAt,
    todo_id: came.lastTodoId,
    made: came.made,
    skipped: came.skipped,
  })
}

const fail = plannedEachTime<{ queue: string }>(
  'schedule_fail',
  sql`update schedules s set error = ${$.detail} where s.id = ${$.id}::uuid returning s.queue`,
)

/** Says why its tick could not be made; its queue, or null where it is gone. */
export const failSchedule = async (
  session: Session,
  id: string,
  error: string,
): Promise<string | null> => (await readOne(session, fail, { id, detail: error }))?.queue ?? null

interface ScheduleGauges {
  active: number
  paused: number
  failing: number
  overdueSeconds: number | null
}

const gauges = statement<ScheduleGauges>(
  'schedules_gauges',
  `select count(*) filter (where not paused and error is null)::int as active,
    count(*) filter (where paused)::int as paused,
    count(*) filter (where not paused and error is not null)::int as failing,
    extract(epoch from now() - min(next_at) filter (where not paused and next_at <= now()))::float8
      as "overdueSeconds" from schedules`,
)

/** How many there are, and how long the tick that is due longest has been so. */
export const readScheduleGauges = async (session: Session): Promise<ScheduleGauges> =>
  (await session.run(gauges, {}))[0]!
