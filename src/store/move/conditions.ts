/**
 * The claim primitive: which rows are free, and locking them. Every condition of the lifecycle is
 * spelled here, once, over a todo named `t`; a phrase is a `select … for update` built from a
 * verb's row of the table. No other file locks a row for work or compares a lease.
 *
 * State names are literals of the lifecycle, not parameters: under a generic plan PostgreSQL does
 * not see that `state = any($1)` implies a partial index.
 */
import {
  type Condition,
  HELD_STATES,
  INTERRUPT_STATES,
  rule,
  type State,
  type Verb,
} from '../../domain/lifecycle.ts'
import { INTERRUPT_TTL } from '../../domain/policy.ts'
import { stateList } from '../postgres/literals.ts'

/**
 * A todo in one of these states. Held and interrupted ones have an index each, which PostgreSQL
 * combines only when they are named apart.
 */
export const inStates = (states: readonly State[]): string => {
  const held = states.filter((state) => HELD_STATES.includes(state))
  const rest = states.filter((state) => !HELD_STATES.includes(state))
  const apart = rest.length > 0 && rest.every((state) => INTERRUPT_STATES.includes(state))
  return held.length > 0 && apart
    ? `(t.state in (${stateList(held)}) or t.state in (${stateList(rest)}))`
    : `t.state in (${stateList(states)})`
}

/**
 * When a todo comes free; of a claimed one, when to look whether it has: never later than its lease
 * ends. The second half of the index todos_claim; both must read alike.
 */
const FREE_AT = `(case t.state when 'pending' then t.due_at when 'failed' then t.next_retry_at
  when 'claimed' then t.lease_probe_at end)`

/** The predicate of the index todos_claim. */
const UNCLAIMED_OR_LEASED = `(t.state in ('pending', 'claimed')
  or (t.state = 'failed' and t.next_retry_at is not null))`

/** When a todo's ready hook is due. The expression of the index todos_come_due. */
const COME_DUE_AT = 'coalesce(t.next_retry_at, t.due_at)'

/** Owed messages up to `:through`, not yet acknowledged: what an acknowledgement takes off. */
export const READ_NOW = `(select count(*) from messages m where m.todo_id = t.id and m.owed
  and m.seq > t.acknowledged_seq and m.seq <= coalesce(:through::int, 0))::int`

const CHILD = 'select from todos c where c.id = any(t.join_ids)'

/**
 * Each holds where no child lives: also where those that ended are not kept any more. `each` is told
 * of every child's end once.
 */
const JOIN_HOLDS = `(not exists (${CHILD} and c.finished_at is null) or case t.join_until
    when 'all' then false
    when 'any' then exists (${CHILD} and c.finished_at is not null)
    else exists (${CHILD} and c.finished_at is not null
        and c.id <> all(coalesce(t.join_seen, '{}'))) end)`

/** Parents whose children are done, and who were not told. */
export const STALLED_JOINS = `select t.id from todos t
  where t.join_until is not null and (${JOIN_HOLDS})
    and t.id <> all(coalesce(:except::uuid[], '{}')) limit :limit::int`

const UNCLAIMED_FRONT = 't.front and t.join_until is null and t.due_at <= now()'

/** Nobody else of its conversation is at work. */
export const LINE_FREE = `(t.line is null or t.front
    or not exists (select from todos f where f.line = t.line and f.front))`

/** Which limit of an attempt has passed, by the name of its error; null when none has. */
export const TIMED_OUT = `case
  when t.progress_at + make_interval(secs => t.heartbeat_seconds) <= now()
    then 'heartbeat_timeout'
  when t.started_at + make_interval(secs => t.start_to_close_seconds) <= now()
    then 'start_to_close_timeout' end`

/** Which limit of the whole todo has passed. */
export const OUT_OF_TIME = `case
  when t.close_at <= now() then 'schedule_to_close_timeout'
  when t.state = 'pending' and t.due_at + make_interval(secs => t.schedule_to_start_seconds) <= now()
    then 'schedule_to_start_timeout' end`

/** An endpoint named `e` that is neither revoked nor expired. */
export const LIVE = 'e.revoked_at is null and (e.expires_at is null or e.expires_at > now())'

/** Nobody holds the row, or its holder's lease has lapsed. */
export const FREE = 'lease_free(t.owner, t.lease_expires_at)'

/**
 * The end of a lease of no length: what lapsed by then has lapsed. A bound for the indexes, which
 * cannot be probed by lease_free; it stands beside it, never for it.
 */
const BY_NOW = 'lease_until(0)'

const CONDITIONS: Readonly<Record<Condition, string>> = {
  claimable: `${UNCLAIMED_OR_LEASED} and ${FREE_AT} <= ${BY_NOW}
    and ${FREE}
    and (t.state <> 'claimed' or t.attempt < t.max_attempts)`,
  // The holder, with the fence of its claim, while its lease runs: it may write.
  held: `t.owner = :endpoint::uuid and t.fence = :fence::bigint
    and not ${FREE}`,
  // The holder of an interrupted todo, whose lease has usually lapsed during the wait.
  holder: 't.owner = :endpoint::uuid and t.fence = :fence::bigint',
  attended: 't.owner is not null',
  parked: 't.owner is null',
  // The answer was checked against this very question; null where there was nothing to check.
  sameQuestion: 't.status_seq = coalesce(:question::int, t.status_seq)',
  // One question takes one answer, though the line may keep its todo from going on.
  unanswered: 't.answered_at is null',
  notAsking: `(not ${inStates(INTERRUPT_STATES)} or t.answered_at is not null)`,
  lineFree: LINE_FREE,
  lineBusy: `not ${LINE_FREE}`,
  // Answers come before newcomers; among each, who came first.
  nextInLine: `t.line is not null and not t.front and t.due_at is null and ${LINE_FREE} and not exists (select from todos w
      where w.line = t.line and not w.front and w.answered_at is not null)
    and not exists (select from todos w where w.line = t.line and not w.front
      and w.state = 'pending' and w.lined_at < t.lined_at)`,
  // Not one that waits for its children, or for a moment of its holder's choice.
  unclaimedFront: UNCLAIMED_FRONT,
  joinHolds: `t.join_until is not null and (${JOIN_HOLDS})`,
  answeredLater: `t.answered_at is not null and ${LINE_FREE} and not exists (select from todos w
      where w.line = t.line and not w.front and w.answered_at < t.answered_at)`,
  unfinished: 't.finished_at is null',
  leaseLapsed: `${FREE} and t.lease_probe_at <= ${BY_NOW}`, // todos_lease
  // Past its own deadline and, if a live holder asked for longer, past that too.
  // The first line bounds the probe by the shortest wait anyone has; the second is the row's own:
  // its endpoint's, else its queue's (zero or less: unbounded), else the instance's.
  interruptExpired: `t.interrupted_at <= now() - make_interval(secs => (select least(
      :ttl_seconds::double precision,
      (select min(greatest(interrupt_ttl_seconds, ${INTERRUPT_TTL.minSeconds}))
        from endpoints where interrupt_ttl_seconds > 0),
      (select min(greatest((policy->>'interruptTtlSeconds')::int, ${INTERRUPT_TTL.minSeconds}))
        from queues where (policy->>'interruptTtlSeconds')::int > 0))))
    and t.interrupted_at <= now() - make_interval(secs => (
      select case when own.ttl is null then :ttl_seconds::double precision
        when own.ttl > 0 then greatest(own.ttl, ${INTERRUPT_TTL.minSeconds}) end
      from (select coalesce(
        (select e.interrupt_ttl_seconds from attempts a join endpoints e on e.id = a.endpoint_id
          where a.todo_id = t.id and a.seq = t.attempts_total),
        (select (q.policy->>'interruptTtlSeconds')::int from queues q where q.name = t.queue)
      ) as ttl) own))
    and (t.interrupt_held_until is null or t.interrupt_held_until <= now())
    and t.answered_at is null`,
  silentOrOverdue: `t.alarm_at <= now() and (${TIMED_OUT}) is not null`,
  outOfTime: `t.alarm_at <= now() and (${OUT_OF_TIME}) is not null`,
  comeDue: `t.ready_reason is not null and ${COME_DUE_AT} <= now()`,
  ownedBy: 't.owner = :endpoint::uuid and t.queue = any(:queues::text[])',
  // Held, or parked on its question: what is lost with the endpoint where nobody else may claim.
  leftBy: `t.queue = any(:queues::text[]) and (t.owner = :endpoint::uuid or (t.owner is null
    and exists (select from attempts a where a.todo_id = t.id and a.seq = t.attempts_total
      and a.ended_at is null and a.endpoint_id = :endpoint::uuid)))`,
  readAll: `(t.unread = 0 or t.unread = ${READ_NOW})`,
}

/** May `verb` move this row? State and conditions, as the row is when it is locked. */
const allows = (verb: Verb): string =>
  [inStates(rule(verb).from), ...conditionsOf(verb)].join('\n    and ')

const conditionsOf = (verb: Verb): string[] => rule(verb).when.map((name) => CONDITIONS[name])

/**
 * The same of a row that is named by its id. The states are spelled so that no index of a state
 * serves: while few rows are in one, a plan through all of them looks cheaper than the key, and it is
 * kept when they have become many.
 */
const allowsNamed = (verb: Verb): string =>
  [`coalesce(${inStates(rule(verb).from)}, false)`, ...conditionsOf(verb)].join('\n    and ')

/** That todo, if `verb` may move it and the caller may see it. Waits for its lock. */
export const one = (verb: Verb): string =>
  `where t.id = :id::uuid and ${allowsNamed(verb)} for update of t`

/**
 * The todos of `given`, each if `verb` may move it, in its order: two such statements never wait for
 * each other. Each is looked up by itself, so that no plan begins at the other end.
 */
export const several = (verb: Verb): string =>
  `from given g cross join lateral (
    select t.* from todos t where t.id = :id and ${allowsNamed(verb)} limit 1 for update of t) as t`

/** The order of its index, for each sweep that has one. */
const ORDER: Partial<Record<Verb, string>> = {
  reapLease: 't.lease_probe_at', // todos_lease
  reapInterrupt: 't.interrupted_at', // todos_interrupt
  comeDue: COME_DUE_AT, // todos_come_due
  timeOut: 't.alarm_at', // todos_alarm
  expire: 't.alarm_at',
}

const inOrder = (verb: Verb): string => (ORDER[verb] ? `order by ${ORDER[verb]}` : '')

/** Which todos, where the verb itself does not say it: a cascade's. Children stand in no line. */
const AMONG: Partial<Record<Verb, string>> = { cancel: 't.parent_id = any(:parents::uuid[])' }

const isDue = (verb: Verb): string =>
  AMONG[verb] ? `${AMONG[verb]} and ${allows(verb)}` : allows(verb)

/** Up to `:limit` todos for which a verb is due, skipping those being worked on. */
export const due = (verb: Verb): string => `where ${isDue(verb)}
    and t.id <> all(coalesce(:except::uuid[], '{}'))
  ${inOrder(verb)} limit :limit::int for update of t skip locked`

/** Who comes to the front of the line `f`: an answer before newcomers, each in their order. */
export const NEXT_OF_LINE = `
    select w.id, w.state from todos w where w.line = f.line and not w.front
      and (w.state = 'pending' or w.answered_at is not null)
    order by w.answered_at, w.lined_at limit 1 for update of w`

/** Whoever is next in this line, if it is free. */
export const nextInLine = (verb: Verb): string =>
  `where t.line = :line::uuid and not t.front and ${allows(verb)} limit 1 for update of t`

export const ANSWER_WAITS = `exists (select from todos w
    where w.line = t.line and not w.front and w.answered_at is not null)`

/** The front of this line; with ANSWER_WAITS, only where an answer waits behind it. */
export const frontOf = (verb: Verb, where = 'true'): string =>
  `where t.line = :line::uuid and t.front and ${where} and ${allows(verb)} for update of t`

/**
 * Lines where somebody waits although the front is free: a hand-over that was missed. Also where
 * an answer waits behind a front that was claimed when it came, and is not any more.
 */
export const STALLED_LINES = `select distinct w.line from todos w
  where w.line is not null and not w.front and (w.state = 'pending' or w.answered_at is not null)
    and not exists (select from todos t where t.line = w.line and t.front
      and not (w.answered_at is not null and t.state = 'pending' and ${UNCLAIMED_FRONT}))
    and w.line <> all(coalesce(:except::uuid[], '{}'))
  limit :limit::int`

/** The ids of the same rows, without touching them. */
export const dueIds = (verb: Verb): string => `select t.id from todos t where ${isDue(verb)}
    and t.id <> all(coalesce(:except::uuid[], '{}'))
  ${inOrder(verb)} limit :limit::int`

/**
 * The claim: up to `limit` todos of `:queues`, queue by queue as they are named, each in
 * (priority, due time, id) order. One probe of todos_claim per queue and priority, made only as
 * long as rows are wanted: the scan stops at the first row that is not due. The limit is a literal:
 * with a parameter PostgreSQL expects hundreds of rows, and plans anew at every claim.
 */
export const next = (limit: number): string => `
  from unnest(:queues::text[]) with ordinality as wanted(queue, place)
    cross join (values (0::smallint), (1::smallint), (2::smallint)) as level(priority)
    cross join lateral (
      select t.* from todos t
      where t.queue = wanted.queue and t.priority = level.priority and ${allows('claim')}
      order by ${FREE_AT}, t.id
      limit ${limit} for update of t skip locked) as t
  where exists (select from endpoints e where e.id = :endpoint::uuid and ${LIVE})
  limit ${limit}`

/** Queues among `:queues` with something to claim, and how much of it, up to `:limit` each. */
export const CLAIMABLE_COUNTS = `
  select wanted.queue, count(t.id)::int as count
  from unnest(:queues::text[]) as wanted(queue)
    cross join (values (0::smallint), (1::smallint), (2::smallint)) as level(priority)
    cross join lateral (
      select t.id from todos t
      where t.queue = wanted.queue and t.priority = level.priority and ${allows('claim')}
      order by ${FREE_AT}, t.id
      limit :limit::int) as t
  group by wanted.queue`

/** Nobody delivers to this webhook `c`. */
export const WEBHOOK_FREE = 'lease_free(c.owner, c.lease_expires_at)'

const DUE_WEBHOOK = `c.due_at <= now() and ${WEBHOOK_FREE}`

/**
 * Lines of deliveries whose first is due: at most `:limit`, and of each host no more than it has
 * room for beside those it is busy with (`:hosts`, `:counts`). Those of `:full` hosts are passed
 * over, so that they do not stand before the others. Probes push_configs_due.
 */
export const DUE_WEBHOOKS = `
  from (select l.*, row_number() over (partition by l.host order by l.due_at) as place from (
      select c.todo_id, c.config_id, c.host, c.due_at from push_configs c
      where ${DUE_WEBHOOK} and c.host <> all(:full::text[])
      order by c.due_at limit 4 * :limit::int) l) w
    join push_configs c on c.todo_id = w.todo_id and c.config_id = w.config_id
  where ${DUE_WEBHOOK} and w.place <= :per_host::int - coalesce((select b.count
      from unnest(:hosts::text[], :counts::int[]) as b(host, count) where b.host = w.host), 0)
  limit :limit::int for update of c skip locked`

/**
 * Those of the ended todos of `batch` that nobody needs any more, locked. Not yet: one whose live
 * parent may still ask for it, the retry of one that is still there (it would be retried again), a
 * canceled one whose cascade was cut short, one that webhooks are owed, one with an event that the
 * feed has not told.
 */
export const FORGETTABLE = `
  from batch b join todos t on t.id = b.id and t.push_version = b.push_version
  where t.finished_at is not null
    and (t.parent_id is null or not exists (select from todos p
      where p.id = t.parent_id and p.finished_at is null))
    and (t.retry_of is null or not exists (select from todos d where d.id = t.retry_of))
    and (t.state <> 'canceled' or not exists (select from todos c
      where c.parent_id = t.id and c.finished_at is null))
    and (t.push_version = 0 or not exists (select from push_configs c
      where c.todo_id = t.id and c.owed > 0))
    and (select count(*) filter (where e.position is null) from events e where e.todo_id = t.id) = 0
  for update of t skip locked`

/** What is left of one deleted todo, locked; not where a new todo of its id has come so far. */
export const REMAINS = `
  from remains r where not exists (select from todos t
    where t.id = r.todo_id and t.seq >= r.from_seq)
  order by r.id limit 1 for update of r skip locked`
