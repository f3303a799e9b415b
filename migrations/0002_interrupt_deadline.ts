/**
 * ADR-0046: the deadline of a wait whose holder may be gone. The fact it needs was never stored:
 * when the wait began. Rows that are interrupted already get their updated_at, which can only make
 * a stranded one due sooner, never hide one.
 *
 * Beside it: what an answer answers, what it must look like, and that it may be a secret; a dead
 * letter is retried at most once.
 */
import type { Knex } from 'knex'

export const up = async (knex: Knex): Promise<void> => {
  await knex.raw(`
    alter table todos
      add column interrupted_at timestamptz,
      add column interrupt_held_until timestamptz;

    update todos set interrupted_at = updated_at
      where state in ('input-required', 'auth-required');

    -- Checked for new rows at once; the old ones were stamped a line ago.
    alter table todos add constraint interrupted_has_its_moment check (
      (interrupted_at is not null) = (state in ('input-required', 'auth-required'))) not valid;
    alter table todos validate constraint interrupted_has_its_moment;

    create index todos_interrupt on todos (interrupted_at)
      where state in ('input-required', 'auth-required');
    create unique index todo_retried_once on todos (retry_of) where retry_of is not null;

    alter table messages
      -- The seq of the question this message answered.
      add column answers integer,
      -- A question's JSON Schema for the data part of its answer.
      add column schema json,
      -- Answered an auth-required: may hold a credential, and is not shown to operators.
      add column secret boolean not null default false;
  `)
}
