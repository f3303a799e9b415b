/**
 * The taxonomy of timeouts (system.md section 6). Each todo carries its own limits, fixed when it
 * is sent; `alarm_at` is the earliest moment at which one of them can have passed, and null for the
 * many todos that have none, so the sweep is a probe of a small index.
 */
import type { Knex } from 'knex'

export const up = async (knex: Knex): Promise<void> => {
  await knex.raw(`
    alter table todos
      add column schedule_to_start_seconds integer,
      add column start_to_close_seconds integer,
      add column heartbeat_seconds integer,
      add column close_at timestamptz,
      -- Since when this attempt runs, moved on by the time it spent waiting for answers.
      add column started_at timestamptz,
      add column alarm_at timestamptz;

    create function todo_alarm(state todo_state, close_at timestamptz, due_at timestamptz,
        schedule_to_start integer, progress_at timestamptz, heartbeat integer,
        started_at timestamptz, start_to_close integer) returns timestamptz
      language sql stable parallel safe
      return least(close_at, case state
        when 'pending' then due_at + make_interval(secs => schedule_to_start)
        when 'claimed' then least(progress_at + make_interval(secs => heartbeat),
          started_at + make_interval(secs => start_to_close)) end);

    create index todos_alarm on todos (alarm_at) where alarm_at is not null;
  `)
}
