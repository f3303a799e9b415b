/**
 * Sends that wait for their time, and sends that recur. Every column is new and may be null, so a node of
 * before goes on beside this: a todo that waits for its time outside of its line is `pending` without a
 * due time, which no version hands out, and in no line, which no version takes it from.
 */
import type { Knex } from 'knex'

/** An index is built on live tables without locking them, which no transaction allows. */
export const config = { transaction: false }

/** Each step may be run again, since a kill between two of them leaves the first ones done. */
export const up = async (knex: Knex): Promise<void> => {
  await knex.raw(`
    alter table todos
      -- The moment that its sender, or its schedule, names; not before it may it be claimed.
      add column if not exists not_before timestamptz,
      -- The line that it enters at that moment; null once it has, and where todos run side by side.
      add column if not exists later_line uuid,
      -- The schedule that made it.
      add column if not exists schedule text;
    -- The priorities that an endpoint's sends may name; null leaves it to the queue.
    alter table endpoints
      add column if not exists highest_priority smallint
        constraint highest_priority_is_normal_or_before check (highest_priority between 0 and 1),
      add column if not exists lowest_priority smallint
        constraint lowest_priority_is_normal_or_after check (lowest_priority between 1 and 2);
    create table if not exists schedules (
      name text primary key,
      -- Of this life of the name: a schedule that is made again is another one.
      id uuid not null default gen_random_uuid(),
      queue text not null constraint schedule_has_its_queue references queues (name),
      cron text not null,
      time_zone text not null,
      catch_up text not null
        constraint catch_up_is_known check (catch_up in ('skip', 'one', 'all')),
      catch_up_limit integer not null,
      message json not null,
      priority smallint not null default 1,
      timeouts json,
      paused boolean not null default false,
      -- Null where there is no tick to come.
      next_at timestamptz,
      -- What the newest tick made, and what came of it.
      last_tick_at timestamptz,
      last_todo_id uuid,
      made bigint not null default 0,
      skipped bigint not null default 0,
      -- Why the tick that is due cannot be made; null where it can.
      error text,
      created_at timestamptz(3) not null default now(),
      updated_at timestamptz(3) not null default now());
    create index if not exists schedules_due on schedules (next_at) where not paused and next_at is not null;
    create index if not exists schedules_queue on schedules (queue);
  `)
  // A todo that waits for its time has no due time either.
  await knex.raw(`
    alter table todos drop constraint if exists pending_is_due_or_waits;
    alter table todos add constraint pending_is_due_or_waits
      check (state <> 'pending' or due_at is not null or join_until is not null
        or later_line is not null or (line is not null and not front)) not valid`)
  await knex.raw('alter table todos validate constraint pending_is_due_or_waits')
  // One that a kill left half built is not valid.
  await knex.raw('drop index concurrently if exists todos_later')
  await knex.raw(`create index concurrently todos_later on todos (not_before)
    where later_line is not null and state = 'pending'`)
}
