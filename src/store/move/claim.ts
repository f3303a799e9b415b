/** The claim, together with everything the claimant needs to begin, in one statement. */

import { ANSWER_UNHEARD, NEVER_STARTED } from '../../domain/lifecycle.ts'
import type { Attempt, Child, StoredMessage, TodoView } from '../../domain/todo.ts'
import type { Session } from '../postgres/database.ts'
import { sql } from '../postgres/sql.ts'
import { ATTEMPT } from '../todos/attempts.ts'
import { OF_CLAIM } from '../todos/documents.ts'
import { documentsOf, toView, type ViewRow, wholeView } from '../todos/view.ts'
import type { Change } from './change.ts'
import { childrenOf } from './children.ts'
import { claimStatements, transitionClaim } from './move.ts'

export interface ClaimedRow {
  view: TodoView
  unread: StoredMessage[]
  priorAttempts: Attempt[]
  /** The lease of an earlier holder had lapsed, and this claim ended that holder's attempt. */
  tookOver: boolean
  /** And that holder was never heard of after its claim. */
  neverStarted: boolean
  /** Or not since its question had been answered. */
  unheard: boolean
  children: Child[]
}

const PRIOR_ATTEMPTS = 5

interface Extra extends ViewRow {
  children: Child[] | null
  prior: Attempt[] | null
  owed: number[] | null
}

/**
 * The statement sees the attempt that it closes as it was before, still open: what stood in the todo's
 * own row is the newest of it.
 */
const ofRow = (column: string, former: string): string =>
  `case when a.ended_at is null then m.${former} else a.${column} end`
const BEFORE_CLAIM = {
  lastHeartbeatAt: ofRow('last_heartbeat_at', 'former_heartbeat_at'),
  progressAt: ofRow('progress_at', 'former_progress_at'),
}

/**
 * On a first claim there is nothing but the message, so the rest is not even looked for; a retry may have
 * the artifacts of its dead letter.
 */
const claims = claimStatements<Extra>(sql`,
  case when m.attempts_total > 1 then ${childrenOf('m')} end as children,
  case when m.unread > 0 then (select json_agg(o.seq order by o.seq) from messages o
    where o.todo_id = m.id and o.owed and o.seq > m.acknowledged_seq) end as owed,
  case when m.attempts_total > 1 then (select json_agg(a order by a.seq desc) from (
    select ${ATTEMPT.select('a', BEFORE_CLAIM)} from attempts a where a.todo_id = m.id and a.seq < m.attempts_total
    order by a.seq desc limit ${PRIOR_ATTEMPTS}) a) end as prior,
  ${documentsOf('m', 'm.attempts_total > 1 or m.retry_of is not null', 'm.large')}`)

/** As the attempt that the claim has just closed reads from now on. */
const closedNow = (attempt: Attempt, at: Date, cause: string | null): Attempt =>
  attempt.endedAt
    ? attempt
    : {
        ...attempt,
        endedAt: at,
        outcome: 'lease_expired',
        disposition: 'requeued',
        died: true,
        cause,
      }

/** On a first claim there are no artifacts, unless it is a retry's. */
const largeView = (session: Session, extra: ViewRow): Promise<TodoView> =>
  wholeView(
    session,
    extra,
    extra.attemptsTotal > 1 || extra.retryOf ? OF_CLAIM : { ...OF_CLAIM, artifactBytes: 0 },
  )

export interface Claimed {
  claimed: ClaimedRow[]
  /** There may be more to claim. */
  more: boolean
}

/** Claims up to `limit` todos of these queues; none where none is due. */
export const readClaimed = async (
  session: Session,
  queues: readonly string[],
  limit: number,
  change: Change,
): Promise<Claimed> => {
  const { moved, more } = await transitionClaim(session, claims, queues, limit, change)
  const [first] = moved
  // What does not fit into a claim is claimed by itself.
  const large = first?.extra.large ? await largeView(session, first.extra) : null
  const claimed = moved.map(({ todo, from, neverStarted, unheard, extra }) => {
    const cause = neverStarted ? NEVER_STARTED : unheard ? ANSWER_UNHEARD : null
    const view = large ?? toView(extra, true)
    const owed = new Set(extra.owed ?? [])
    return {
      view,
      unread: view.messages.filter(({ seq }) => owed.has(seq)),
      priorAttempts: ATTEMPT.revive(extra.prior).map((attempt) =>
        closedNow(attempt, todo.updatedAt, cause),
      ),
      tookOver: from === 'claimed',
      neverStarted,
      unheard,
      children: extra.children ?? [],
    }
  })
  return { claimed, more }
}
