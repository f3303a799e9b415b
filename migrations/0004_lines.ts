/**
 * Serial contexts (system.md section 7). The todos of one conversation stand in a line: the one at
 * the front may be claimed, is claimed, or waits for its retry; the others wait behind it, pending
 * and without a due time, so that the claim's index does not even hold them as due. That there is
 * one front, and so never two claimed todos of one conversation, is a unique index.
 */
import type { Knex } from 'knex'

export const up = async (knex: Knex): Promise<void> => {
  await knex.raw(`
    alter table todos
      -- Of which conversation; null where todos of one run side by side.
      add column line uuid,
      add column front boolean not null default false,
      -- The order in line. Exact, since two messages may come within one millisecond.
      add column lined_at timestamptz not null default now(),
      -- An interrupt whose answer came while the line was busy.
      add column answered_at timestamptz;
    -- Only from here on: a default that differs from row to row would have rewritten the table.
    alter table todos alter column lined_at set default clock_timestamp();

    alter table todos drop constraint pending_has_a_due_time;
    alter table todos add constraint only_pending_has_a_due_time
      check (due_at is null or state = 'pending') not valid;
    alter table todos add constraint pending_is_due_or_waits_in_line
      check (state <> 'pending' or due_at is not null or (line is not null and not front)) not valid;
    alter table todos add constraint front_is_live
      check (not front or (line is not null and finished_at is null
        and state in ('pending', 'claimed', 'failed'))) not valid;
    alter table todos add constraint claimed_stands_at_the_front
      check (state <> 'claimed' or line is null or front) not valid;
    alter table todos add constraint only_an_interrupt_is_answered_later
      check (answered_at is null or state in ('input-required', 'auth-required')) not valid;
    alter table todos validate constraint only_pending_has_a_due_time;
    alter table todos validate constraint pending_is_due_or_waits_in_line;
    alter table todos validate constraint front_is_live;
    alter table todos validate constraint claimed_stands_at_the_front;
    alter table todos validate constraint only_an_interrupt_is_answered_later;

    create unique index todos_front on todos (line) where front;
    create index todos_line on todos (line, lined_at) where line is not null and not front
      and (state = 'pending' or answered_at is not null);
  `)
}
