/**
 * Committed events, read by two cursors: a todo's own seq, and the feed's position. Seqs of one
 * todo become visible in order, since its row is locked while one is drawn. Positions are given
 * after the commit, by one sequencer at a time, because a number drawn inside a transaction can
 * become visible after a higher one and a cursor would then skip it for good.
 */

import { READ_BYTES } from '../../domain/budget.ts'
import type { Event, Fact, FeedEvent, Horizon } from '../../domain/todo.ts'
import { type Session, statement } from '../postgres/database.ts'
import { columnsOf } from '../postgres/rows.ts'
import { $, sql } from '../postgres/sql.ts'
import { topics } from '../wake/topics.ts'
import { BYTES_ON_PAGE } from './documents.ts'

const EVENT = columnsOf<Fact>()(
  ['todoId seq queue contextId author verb retrying attempt fence owner claimant ready detail at'],
  { from: (e) => `${e}.from_state`, to: (e) => `${e}.to_state` },
)

/** Positions are counted one by one, so they stay far below where a float loses whole numbers. */
const FEED_EVENT = `${EVENT.select('e')}, e.position::float8 as position`

/* ------------------------------------------------------- events of some todos */

/**
 * A chunk that an agent appends may be the one that begins its artifact: readers have nothing that
 * they could append it to. Looked up when it is read, since seqs become visible in order, while the
 * statement that writes a chunk may have begun before the chunk ahead of it was committed.
 */
const APPENDS = `a.append and exists (select from artifacts b where b.todo_id = a.todo_id
      and b.artifact_id = a.artifact_id and b.seq < a.seq)`

/** What the document of an event takes, if it has one. */
const CARRIED = `(case when m.seq is not null then ${BYTES_ON_PAGE('m', 'e.n', 'message')}
  when a.seq is not null then ${BYTES_ON_PAGE('a', 'e.n', 'artifact')} else 0 end)`

const afterStatement = statement<Event>(
  'events_after',
  sql`select ${EVENT.select('e')}, e.message, e.cut,
    case when e.chunk is not null then json_build_object(
      'artifact', e.chunk, 'append', e.appends, 'lastChunk', e.last_chunk) end as artifact
  from unnest(${$.ids}::uuid[], ${$.afters}::int[]) as w(id, after)
    cross join lateral (
      select s.*, lead(s.upto) over (order by s.seq) > ${READ_BYTES} as cut from (
        select e.*, m.message, a.artifact as chunk, a.last_chunk, ${APPENDS} as appends,
          ${CARRIED} as bytes, sum(${CARRIED}::float8) over (order by e.seq) as upto
        from (select e.*, row_number() over (order by e.seq) as n from events e where e.todo_id = w.id and e.seq > w.after
            order by e.seq limit ${$.limit}::int) e
          left join messages m on m.todo_id = e.todo_id and m.seq = e.seq
          left join artifacts a on a.todo_id = e.todo_id and a.artifact_id = e.artifact_id
            and a.seq = e.seq) s) e
  where e.upto <= ${READ_BYTES} or e.upto = e.bytes
  order by e.todo_id, e.seq`,
)

/**
 * For each todo its events after a seq, oldest first, at most `limit` a todo, and as far as their
 * documents fit into a page: the last one of a page that was cut short says so.
 */
export const readEvents = (
  session: Session,
  watched: readonly { id: string; after: number }[],
  limit: number,
): Promise<Event[]> =>
  session.run(afterStatement, {
    ids: watched.map(({ id }) => id),
    afters: watched.map(({ after }) => after),
    limit,
  })

const factsStatement = statement<Fact>(
  'events_facts',
  sql`select ${EVENT.select('e')} from events e
  where e.todo_id = ${$.id}::uuid and e.seq > ${$.after}::int order by e.seq limit ${$.limit}::int`,
)

/** The same of one todo, without their documents. */
export const readFacts = (
  session: Session,
  id: string,
  after: number,
  limit: number,
): Promise<Fact[]> => session.run(factsStatement, { id, after, limit })

/* -------------------------------------------------------------------- the feed */

/** One snapshot: an event that is missing because it was deleted lies before a horizon it shows. */
const feedStatement = statement<Omit<FeedEvent, 'deleted'> & { deleted: Horizon[] | null }>(
  'feed_after',
  sql`select ${FEED_EVENT},
    (select json_agg(h) from feed_horizons h where h.position >= ${$.after}::bigint) as deleted
  from events e where e.position >= ${$.after}::bigint
  order by e.position limit ${$.limit}::int`,
)

/** Sequenced events from a position on, that one included; the first tells which are missing. */
export const readFeed = async (
  session: Session,
  from: number,
  limit: number,
): Promise<FeedEvent[]> =>
  (await session.run(feedStatement, { after: from, limit })).map(({ deleted, ...event }, n) =>
    n === 0 && deleted ? { ...event, deleted } : event,
  )

const recentStatement = statement<FeedEvent>(
  'feed_recent',
  sql`select * from (select ${FEED_EVENT} from events e
    where e.position <= ${$.to}::bigint order by e.position desc limit ${$.limit}::int) r
  order by position`,
)

/** The last sequenced events up to a position, oldest first. */
export const readRecentFeed = (session: Session, to: number, limit: number): Promise<FeedEvent[]> =>
  session.run(recentStatement, { to, limit })

const clockStatement = statement<{ now: Date }>('clock', 'select clock_timestamp() as now')

/** The one clock that events are stamped by. */
export const readClock = async (session: Session): Promise<Date> =>
  (await session.run(clockStatement, {}))[0]!.now

/** From one position to the next: the one between is that of a ready hook. */
export const STEP = 2

export interface FeedBounds {
  /** The first position kept; zero where there is no event. */
  oldest: number
  /** The last one ever given, as far as can be told. */
  newest: number
  /** From here on nothing of these queues is missing. */
  whole: number
}

const boundsStatement = statement<{
  oldest: number
  newest: number
  /** Up to where events of these queues, and of any queue, were deleted. */
  deleted: number
  deletedOfAny: number
}>(
  'feed_bounds',
  sql`select coalesce((select min(position) from events where position is not null), 0)::float8 as oldest,
    coalesce((select max(position) from events where position is not null), 0)::float8 as newest,
    coalesce(max(h.position), 0)::float8 as "deletedOfAny",
    coalesce(max(h.position) filter (where ${$.queues}::text[] is null
      or h.queue = any(${$.queues}::text[])), 0)::float8 as deleted
  from feed_horizons h`,
)

/** Where the feed of some queues begins and ends; null stands for all. */
export const readFeedBounds = async (
  session: Session,
  queues: readonly string[] | null = null,
): Promise<FeedBounds> => {
  const [bounds] = await session.run(boundsStatement, { queues })
  const { oldest, newest, deleted, deletedOfAny } = bounds!
  return {
    oldest,
    newest: Math.max(newest, deletedOfAny),
    // Where the beginning is gone and no queue's retention says why, it is gone for all.
    whole: Math.max(oldest > deletedOfAny + STEP ? oldest : 0, deleted > 0 ? deleted + STEP : 0),
  }
}

/**
 * One sequencer at a time: the lock is held to the end of the statement, so a sequencer that dies loses
 * nothing. A statement that began before another sequencer's had ended still sees the events that one
 * sequenced as they were: their rows are looked at again, and the last condition leaves them out.
 */
const sequenceStatement = statement<FeedEvent & { mine: boolean }>(
  'feed_place',
  sql`with turn as materialized (
    select pg_try_advisory_xact_lock(hashtext('switchboard feed')) as mine),
  next as materialized (
    select u.todo_id, u.seq, nextval('feed_position') as position
    from (select todo_id, seq from events where position is null and (select mine from turn)
      order by id limit ${$.limit}::int) u),
  sequenced as (
    update events e set position = p.position from next p
    -- Spelled so that each is found by its key, and not by going through all that have no position.
    where e.todo_id = p.todo_id and e.seq = p.seq and coalesce(e.position, 0) = 0
    returning e.*)
  select turn.mine, ${FEED_EVENT} from turn left join sequenced e on true order by e.position`,
)

/**
 * Gives positions to up to `limit` committed events. Returns these in their order, or null when it is
 * not our turn. Other processes are woken; the caller tells its own.
 */
export const sequenceEvents = async (
  session: Session,
  limit: number,
): Promise<FeedEvent[] | null> => {
  const rows = await session.run(sequenceStatement, { limit })
  if (!rows[0]?.mine) return null
  const sequenced = rows.filter(({ position }) => position !== null)
  if (sequenced.length > 0) {
    session.wake([{ topic: topics.sequenced, count: sequenced.length, only: 'elsewhere' }])
  }
  return sequenced
}
