/**
 * Child tasks (system.md section 8) and limits on how much runs at once. A child names its parent
 * and carries a budget that only shrinks; a parent that waits for its children is pending without a
 * due time until the condition of its join holds.
 */
import type { Knex } from 'knex'

export const up = async (knex: Knex): Promise<void> => {
  await knex.raw(`
    alter table todos
      add column parent_id uuid,
      add column depth smallint not null default 0,
      -- What it may do, by names of the operators' making; null is everything.
      add column effects text[],
      add column join_until text,
      add column join_ids uuid[],
      -- Children whose end has been told to the parent already.
      add column join_seen uuid[];

    alter table todos drop constraint pending_is_due_or_waits_in_line;
    alter table todos add constraint pending_is_due_or_waits
      check (state <> 'pending' or due_at is not null or join_until is not null
        or (line is not null and not front)) not valid;
    alter table todos add constraint only_a_pending_todo_joins
      check (join_until is null or (state = 'pending' and join_ids is not null
        and join_until in ('all', 'any', 'each'))) not valid;
    alter table todos validate constraint pending_is_due_or_waits;
    alter table todos validate constraint only_a_pending_todo_joins;

    create index todos_parent on todos (parent_id) where parent_id is not null;
    create index todos_joining on todos (id) where join_until is not null;

    alter table endpoints add column concurrency integer
      constraint endpoint_concurrency_is_positive check (concurrency > 0);
  `)
}
