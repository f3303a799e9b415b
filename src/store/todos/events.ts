/**
 * Committed events, read by two cursors: a todo's own seq, and the feed's position. Seqs of one
 * todo become visible in order, since its row is locked while one is drawn. Positions are given
 * after the commit, by one placer at a time, because a number drawn inside a transaction can
 * become visible after a higher one and a cursor would then skip it for good.
 */
import type { EventVerb, ReadyReason, State } from '../../domain/lifecycle.ts'
import type {
  Artifact,
  Event,
  EventDetail,
  FeedEvent,
  Horizon,
  Message,
} from '../../domain/todo.ts'
import { type Session, type Statement, statement } from '../postgres/database.ts'

interface EventRow {
  todo_id: string
  seq: number
  queue: string
  context_id: string
  verb: EventVerb
  from_state: State | null
  to_state: State
  retrying: boolean
  attempt: number
  fence: string
  owner: string | null
  claimant: string | null
  ready: ReadyReason | null
  detail: EventDetail | null
  at: Date
}

interface DocumentedRow extends EventRow {
  message: Message | null
  artifact: Artifact | null
  append: boolean | null
  last_chunk: boolean | null
}

const COLUMNS = `e.todo_id, e.seq, e.queue, e.context_id, e.verb, e.from_state, e.to_state,
  e.retrying, e.attempt, e.fence, e.owner, e.claimant, e.ready, e.detail, e.at`

const toEvent = (row: EventRow): Omit<Event, 'message' | 'artifact'> => ({
  todoId: row.todo_id,
  seq: row.seq,
  queue: row.queue,
  contextId: row.context_id,
  verb: row.verb,
  from: row.from_state,
  to: row.to_state,
  retrying: row.retrying,
  attempt: row.attempt,
  fence: row.fence,
  owner: row.owner,
  claimant: row.claimant,
  ready: row.ready,
  detail: row.detail,
  at: row.at,
})

const toDocumented = (row: DocumentedRow): Event => ({
  ...toEvent(row),
  message: row.message,
  artifact: row.artifact && {
    artifact: row.artifact,
    append: row.append ?? false,
    lastChunk: row.last_chunk ?? false,
  },
})

/* ------------------------------------------------------- events of some todos */

const afterStatement: Statement<DocumentedRow> = statement(
  'events_after',
  `select ${COLUMNS}, m.message, a.artifact, a.append, a.last_chunk
  from unnest(:ids::uuid[], :afters::int[]) as w(id, after)
    cross join lateral (select * from events e where e.todo_id = w.id and e.seq > w.after
      order by e.seq limit :limit::int) e
    left join messages m on m.todo_id = e.todo_id and m.seq = e.seq
    left join artifacts a on a.todo_id = e.todo_id and a.artifact_id = e.artifact_id
      and a.seq = e.seq
  order by e.todo_id, e.seq`,
)

/** For each todo its events after a seq, oldest first, at most `limit` a todo. */
export const readEvents = async (
  session: Session,
  watched: readonly { id: string; after: number }[],
  limit: number,
): Promise<Event[]> =>
  (
    await session.run(afterStatement, {
      ids: watched.map(({ id }) => id),
      afters: watched.map(({ after }) => after),
      limit,
    })
  ).map(toDocumented)

/* -------------------------------------------------------------------- the feed */

/** One snapshot: an event that is missing for having been deleted lies before a horizon it shows. */
const feedStatement: Statement<SequencedRow & { deleted: Horizon[] | null }> = statement(
  'feed_after',
  `select ${COLUMNS}, e.position,
    (select json_agg(h) from feed_horizons h where h.position >= :after::bigint) as deleted
  from events e where e.position >= :after::bigint
  order by e.position limit :limit::int`,
)

/** Placed events from a position on, that one included; the first says what is missing of them. */
export const readFeed = async (
  session: Session,
  from: number,
  limit: number,
): Promise<FeedEvent[]> =>
  (await session.run(feedStatement, { after: from, limit })).map((row, n) => ({
    ...toFeedEvent(row),
    ...(n === 0 && row.deleted && { deleted: row.deleted }),
  }))

type SequencedRow = EventRow & { position: string }

const toFeedEvent = (row: SequencedRow): FeedEvent => ({
  ...toEvent(row),
  position: Number(row.position),
})

const recentStatement: Statement<SequencedRow> = statement(
  'feed_recent',
  `select * from (select ${COLUMNS}, e.position from events e
    where e.position <= :to::bigint order by e.position desc limit :limit::int) r
  order by position`,
)

/** The last placed events up to a position, oldest first. */
export const readRecentFeed = async (
  session: Session,
  to: number,
  limit: number,
): Promise<FeedEvent[]> => (await session.run(recentStatement, { to, limit })).map(toFeedEvent)

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

interface BoundsRow {
  oldest: string | null
  newest: string | null
  deleted: string | null
  deleted_of_any: string | null
}

const boundsStatement: Statement<BoundsRow> = statement(
  'feed_bounds',
  `select (select min(position) from events where position is not null) as oldest,
    (select max(position) from events where position is not null) as newest,
    max(h.position) as deleted_of_any,
    max(h.position) filter (where :queues::text[] is null or h.queue = any(:queues::text[]))
      as deleted
  from feed_horizons h`,
)

/** Where the feed of some queues begins and ends; null stands for all. */
export const readFeedBounds = async (
  session: Session,
  queues: readonly string[] | null = null,
): Promise<FeedBounds> => {
  const [row] = await session.run(boundsStatement, { queues })
  const [oldest, newest, deleted, ofAny] = [
    row?.oldest,
    row?.newest,
    row?.deleted,
    row?.deleted_of_any,
  ].map((position) => Number(position ?? 0)) as [number, number, number, number]
  return {
    oldest,
    newest: Math.max(newest, ofAny),
    // Where the beginning is gone and no queue's retention says why, it is gone for all.
    whole: Math.max(oldest > ofAny + STEP ? oldest : 0, deleted > 0 ? deleted + STEP : 0),
  }
}

/**
 * One placer at a time: the lock is held to the end of the statement, so a dead placer loses
 * nothing. A statement that began before another placer's had ended still sees the events it
 * placed as they were: their rows are looked at again, and the last condition leaves them out.
 */
const sequenceStatement = statement<{ mine: boolean } & SequencedRow>(
  'feed_place',
  `with turn as materialized (
    select pg_try_advisory_xact_lock(hashtext('switchboard feed')) as mine),
  next as materialized (
    select u.todo_id, u.seq, nextval('feed_position') as position
    from (select todo_id, seq from events where position is null and (select mine from turn)
      order by id limit :limit::int) u),
  placed as (
    update events e set position = p.position from next p
    -- Spelled so that each is found by its key, and not by going through all unplaced ones.
    where e.todo_id = p.todo_id and e.seq = p.seq and coalesce(e.position, 0) = 0
    returning ${COLUMNS}, e.position)
  select turn.mine, e.* from turn left join placed e on true order by e.position`,
)

/**
 * Gives positions to up to `limit` committed events. The events, in their order, or null when it is
 * not our turn. The others are rung; whoever calls this tells its own process.
 */
export const sequenceEvents = async (
  session: Session,
  limit: number,
): Promise<FeedEvent[] | null> => {
  const rows = await session.run(sequenceStatement, { limit })
  if (!rows[0]?.mine) return null
  const placed = rows.filter((row) => row.position !== null).map(toFeedEvent)
  if (placed.length > 0) {
    session.wake([{ topic: 'placed', count: placed.length, only: 'elsewhere' }])
  }
  return placed
}
