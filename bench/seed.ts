/**
 * Rows as tasks leave them behind, made by one statement: a history of finished todos, and todos
 * that wait in every way there is. Measures nothing.
 */
import { randomUUID } from 'node:crypto'
import type { Lab } from './lab.ts'
import { newMessage, QUEUE } from './statements.ts'

/** Whose todos these are. */
export const CLIENT = '00000000-0000-0000-0000-00000000000c'
const HOLDER = '00000000-0000-0000-0000-00000000000b'

const ANSWER = JSON.stringify({
  messageId: 'answer',
  role: 'ROLE_AGENT',
  parts: [{ text: 'Booked; the others know.' }],
})

/** Two messages, three events with their places in the feed, one attempt each; a day's worth of them. */
const FINISHED = `
with made as (
  insert into todos (id, queue, context_id, client_id, state, attempt, max_attempts, attempts_total, fence,
    seq, status_seq, status_at, created_at, updated_at, finished_at)
  select gen_random_uuid(), '${QUEUE}', gen_random_uuid(), '${CLIENT}', 'done', 1, 5, 1, 1, 3, 3, at, at, at, at
  from generate_series(1, $1::int) i
    cross join lateral (select now() - make_interval(secs => i * 86400.0 / $1::int) as at) a
  returning id, context_id, finished_at),
said as (
  insert into messages (todo_id, seq, message_id, role, message, received_at)
  select id, s.seq, s.message->>'messageId', s.role, s.message, finished_at from made
    cross join (values (1, 'user', $2::json), (3, 'agent', $3::json)) as s(seq, role, message)),
tried as (
  insert into attempts (todo_id, seq, attempt, endpoint_id, claimed_at, ended_at, outcome, disposition)
  select id, 1, 1, '${HOLDER}', finished_at, finished_at, 'completed', 'done' from made)
insert into events (todo_id, seq, position, queue, context_id, verb, from_state, to_state, attempt, fence, at)
select id, s.seq, nextval('feed_position'), '${QUEUE}', context_id, s.verb, s.was::todo_state,
  s.became::todo_state, 1, 1, finished_at
from made cross join (values (1, 'send', null, 'pending'), (2, 'claim', 'pending', 'claimed'),
  (3, 'complete', 'claimed', 'done')) as s(seq, verb, was, became)`

/**
 * Of every four one is claimed by a live holder, one has asked, one is to be retried tomorrow, and
 * one is not due before then; all have a limit on their time. They wait since before the history.
 */
const WAITING = `
with made as (
  insert into todos (id, queue, context_id, client_id, state, attempt, max_attempts, attempts_total, fence,
    owner, lease_seconds, lease_expires_at, interrupted_at, due_at, next_retry_at, ready_reason,
    close_at, alarm_at, status_at)
  select gen_random_uuid(), '${QUEUE}', gen_random_uuid(), '${CLIENT}', s.state::todo_state, 1, 5, 1, 1,
    case when s.state = 'claimed' then '${HOLDER}'::uuid end,
    case when s.state = 'claimed' then 86400 end,
    case when s.state = 'claimed' then later end,
    case when s.state = 'input-required' then now() end,
    case when s.state = 'pending' then later end,
    case when s.state = 'failed' then later end,
    case when s.state in ('pending', 'failed') then 'retry' end,
    later, later, now() - interval '2 days'
  from generate_series(1, $1::int) i
    cross join lateral (select now() + interval '1 day' as later) l
    join (values (0, 'claimed'), (1, 'input-required'), (2, 'failed'), (3, 'pending'))
      as s(place, state) on s.place = i % 4
  returning id, state)
insert into attempts (todo_id, seq, attempt, endpoint_id, claimed_at, ended_at, outcome, disposition)
select id, 1, 1, '${HOLDER}', now(), e.at, case when e.at is not null then 'failed' end,
  case when e.at is not null then 'retry_scheduled' end
from made cross join lateral (select case when state in ('failed', 'pending') then now() end as at) e`

const holder = `insert into endpoints (id, name, token_sha256, queues, verbs) values
  ('${HOLDER}', 'holder', sha256('${randomUUID()}'), '{${QUEUE}}', '{work}')`

/** On a database that has the queue and nothing else. */
export const seed = async (
  lab: Lab,
  url: string,
  { finished, waiting }: { finished: number; waiting: number },
): Promise<void> => {
  await lab.sql(url, holder)
  await lab.sql(url, FINISHED, [finished, JSON.stringify(newMessage()), ANSWER])
  await lab.sql(url, WAITING, [waiting])
  await lab.sql(url, 'select recount_todos()')
  await lab.sql(url, 'vacuum analyze')
}
