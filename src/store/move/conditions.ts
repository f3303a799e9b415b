/**
 * What must hold of a todo before a verb may move it. Every condition of the lifecycle is spelled here,
 * once, over a todo named `t`. Whether a row is free, for todos and for webhooks alike, is asked of
 * `lease_free` here and nowhere else; which rows are then picked and locked is in pick.ts.
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
import { $, joinSql, type Sql, sql } from '../postgres/sql.ts'
import { OUT_OF_TIME, TIMED_OUT } from './timeouts.ts'

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

/** Nobody holds the row, or its holder's lease has lapsed. */
export const FREE = 'lease_free(t.owner, t.lease_expires_at)'

/** Nobody delivers to this webhook `c`. */
export const WEBHOOK_FREE = 'lease_free(c.owner, c.lease_expires_at)'

/** An endpoint named `e` that is neither revoked nor expired. */
export const LIVE = 'e.revoked_at is null and (e.expires_at is null or e.expires_at > now())'

/** Some live endpoint may claim from this queue. */
export const isServed = (queue: string): string => `exists (select from endpoints e
    where ${queue} = any(e.queues) and 'work' = any(e.verbs) and ${LIVE})`

/**
 * The end of a lease of no length: what lapsed by then has lapsed. It bounds the probe of an index,
 * which lease_free cannot do; it stands beside lease_free and never in its place.
 */
const BY_NOW = 'lease_until(0)'

/**
 * When a todo comes free; of a claimed one, when to look whether it has: never later than its lease
 * ends. The second half of the index todos_claim; both must read alike.
 */
export const FREE_AT = `(case t.state when 'pending' then t.due_at when 'failed' then t.next_retry_at
  when 'claimed' then t.lease_probe_at end)`

/** The predicate of the index todos_claim. */
const UNCLAIMED_OR_LEASED = `(t.state in ('pending', 'claimed')
  or (t.state = 'failed' and t.next_retry_at is not null))`

/** When a todo's ready hook is due. The expression of the index todos_come_due. */
export const COME_DUE_AT = 'coalesce(t.next_retry_at, t.due_at)'

/** Owed messages up to `through` that are not yet acknowledged: what an acknowledgment takes off. */
export const READ_NOW = sql`(select count(*) from messages m where m.todo_id = t.id and m.owed
  and m.seq > t.acknowledged_seq and m.seq <= coalesce(${$.through}::int, 0))::int`

/** Nothing is owed beyond what `through` acknowledges. */
export const READ_ALL = sql`(t.unread = 0 or t.unread = ${READ_NOW})`

/**
 * Nothing has come from the holder since its claim, which stamped all three: each of its verbs stamps
 * one of them anew. They are kept to the millisecond, but for the one.
 */
export const NEVER_HEARD = `(t.state = 'claimed'
    and coalesce(t.last_heartbeat_at = t.started_at::timestamptz(3)
      and t.progress_at = t.started_at::timestamptz(3), false))`

/**
 * Nothing has come from the holder since its question was answered. Its verbs take the mark away; a node of
 * before leaves it, and stamps one of the two.
 */
export const UNHEARD = `(t.state = 'claimed' and coalesce(t.progress_at <= t.unheard_since
    and t.last_heartbeat_at <= t.unheard_since, false))`

/**
 * Such an attempt does not count: one that never started, unless the one before it did not either, and one
 * whose answer came to nobody.
 */
export const GIVEN_BACK = `(${NEVER_HEARD} and not never_started(t.id, t.attempts_total - 1)
    or ${UNHEARD})`

const CHILD = 'select from todos c where c.id = any(t.join_ids)'

/**
 * A join holds where no child lives, even if those that ended have been deleted since. `each` is told
 * of every child's end once.
 */
export const JOIN_HOLDS = `(not exists (${CHILD} and c.finished_at is null) or case t.join_until
    when 'all' then false
    when 'any' then exists (${CHILD} and c.finished_at is not null)
    else exists (${CHILD} and c.finished_at is not null
        and c.id <> all(coalesce(t.join_seen, '{}'))) end)`

/** Nobody has claimed the front, and it does not wait for children or a moment of its holder's choice. */
export const UNCLAIMED_FRONT = 't.front and t.join_until is null and t.due_at <= now()'

/** Nobody else of its conversation is at work. */
export const LINE_FREE = `(t.line is null or t.front
    or not exists (select from todos f where f.line = t.line and f.front))`

const CONDITIONS: Readonly<Record<Condition, Sql | string>> = {
  claimable: `${UNCLAIMED_OR_LEASED} and ${FREE_AT} <= ${BY_NOW}
    and ${FREE}
    and (t.state <> 'claimed' or t.attempt < t.max_attempts or ${GIVEN_BACK})`,
  // The holder, with the fence of its claim, may write while its lease runs.
  held: sql`t.owner = ${$.endpoint}::uuid and t.fence = ${$.fence}::bigint
    and not ${FREE}`,
  // The lease of the holder of an interrupted todo has usually lapsed during the wait.
  holder: sql`t.owner = ${$.endpoint}::uuid and t.fence = ${$.fence}::bigint`,
  attended: 't.owner is not null',
  parked: 't.owner is null',
  // The answer was checked against this very question; null where there was nothing to check.
  sameQuestion: sql`t.status_seq = coalesce(${$.question}::int, t.status_seq)`,
  // One question takes one answer, though the line may keep its todo from going on.
  unanswered: 't.answered_at is null',
  notAsking: `(not ${inStates(INTERRUPT_STATES)} or t.answered_at is not null)`,
  lineFree: LINE_FREE,
  lineBusy: `not ${LINE_FREE}`,
  // Answers come before newcomers; among each, who came first.
  nextInLine: `t.line is not null and not t.front and t.due_at is null and ${LINE_FREE}
    and not exists (select from todos w
      where w.line = t.line and not w.front and w.answered_at is not null)
    and not exists (select from todos w where w.line = t.line and not w.front
      and w.state = 'pending' and w.lined_at < t.lined_at)`,
  dueInLine: 't.later_line is not null and t.not_before <= now()',
  unclaimedFront: UNCLAIMED_FRONT,
  joinHolds: `t.join_until is not null and (${JOIN_HOLDS})`,
  joinOverdue: 't.alarm_at <= now() and t.join_until is not null and t.join_timeout_at <= now()',
  answeredLater: `t.answered_at is not null and ${LINE_FREE} and not exists (select from todos w
      where w.line = t.line and not w.front and w.answered_at < t.answered_at)`,
  unfinished: 't.finished_at is null',
  leaseLapsed: `${FREE} and t.lease_probe_at <= ${BY_NOW}`, // todos_lease
  // Past its own deadline and, if a live holder asked for longer, past that too
  // (docs/design/interrupt-deadline.md). The first half bounds the probe of the index by the shortest
  // wait anyone has; the second is the row's own: its endpoint's, else its queue's (zero or less:
  // unbounded), else the instance's.
  interruptExpired: sql`t.interrupted_at <= now() - make_interval(secs => (select least(
      ${$.ttl_seconds}::double precision,
      (select min(greatest(interrupt_ttl_seconds, ${INTERRUPT_TTL.minSeconds}))
        from endpoints where interrupt_ttl_seconds > 0),
      (select min(greatest((policy->>'interruptTtlSeconds')::int, ${INTERRUPT_TTL.minSeconds}))
        from queues where (policy->>'interruptTtlSeconds')::int > 0))))
    and t.interrupted_at <= now() - make_interval(secs => (
      select case when own.ttl is null then ${$.ttl_seconds}::double precision
        when own.ttl > 0 then greatest(own.ttl, ${INTERRUPT_TTL.minSeconds}) end
      from (select coalesce(
        (select e.interrupt_ttl_seconds from attempts a join endpoints e on e.id = a.endpoint_id
          where a.todo_id = t.id and a.seq = t.attempts_total),
        (select (q.policy->>'interruptTtlSeconds')::int from queues q where q.name = t.queue)
      ) as ttl) own))
    and (t.interrupt_held_until is null or t.interrupt_held_until <= now())
    and t.answered_at is null`,
  // Both the lease that its heartbeats gave it and the wait that they asked for are over.
  holderSilent: `t.wait_probe_at <= ${BY_NOW} and t.interrupt_held_until <= now() and ${FREE}`, // todos_wait
  silentOrOverdue: `t.alarm_at <= now() and (${TIMED_OUT}) is not null`,
  outOfTime: `t.alarm_at <= now() and (${OUT_OF_TIME}) is not null`,
  comeDue: `t.ready_reason is not null and ${COME_DUE_AT} <= now()`,
  ownedBy: sql`t.owner = ${$.endpoint}::uuid and t.queue = any(${$.queues}::text[])`,
  // Held, or parked on its question: what is lost with the endpoint where nobody else may claim.
  leftBy: sql`t.queue = any(${$.queues}::text[]) and (t.owner = ${$.endpoint}::uuid
    or (t.owner is null and exists (select from attempts a where a.todo_id = t.id
      and a.seq = t.attempts_total and a.ended_at is null and a.endpoint_id = ${$.endpoint}::uuid)))`,
  readAll: READ_ALL,
  // A child shares the budgets above it, which whoever says that it is afforded has locked.
  affordable: sql`(coalesce(${$.afforded}::boolean, false) or (t.parent_id is null
    and within_budget(t.budget, spent_more(t.spent, ${$.spend}::jsonb))))`,
  // A call that is made again under its key is counted once.
  spentOnce: sql`coalesce(${$.spend_key}::text <> all(t.spend_keys), true)`,
}

const AND = '\n    and '

const conditionsOf = (verb: Verb): readonly (Sql | string)[] =>
  rule(verb).when.map((name) => CONDITIONS[name])

/** May `verb` move this row? State and conditions, as the row is when it is locked. */
export const allows = (verb: Verb): Sql =>
  joinSql([inStates(rule(verb).from), ...conditionsOf(verb)], AND)

/**
 * The same of a row that is named by its id. The states are spelled so that no index of a state
 * serves: while few rows are in one, a plan through all of them looks cheaper than the key, and it is
 * kept when they have become many.
 */
export const allowsNamed = (verb: Verb): Sql =>
  joinSql([`coalesce(${inStates(rule(verb).from)}, false)`, ...conditionsOf(verb)], AND)
