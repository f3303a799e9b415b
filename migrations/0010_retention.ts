/**
 * Retention: what has ended long enough ago is found by an index and deleted in batches. Nothing
 * here keeps writers out: indexes are built beside them, and that takes no transaction. So each
 * statement can be run again where an earlier run was killed.
 */
import type { Knex } from 'knex'

export const config = { transaction: false }

/** One that was killed while it was built is there, and void. */
const index = async (knex: Knex, name: string, on: string): Promise<void> => {
  await knex.raw(`drop index concurrently if exists ${name}`)
  await knex.raw(`create index concurrently ${name} on ${on}`)
}

export const up = async (knex: Knex): Promise<void> => {
  await index(knex, 'todos_ended', 'todos (queue, finished_at) where finished_at is not null')
  await index(knex, 'idempotency_keys_todo', 'idempotency_keys (todo_id, seq)')
  await knex.raw(`
    -- Up to where events of a queue have been deleted: a cursor before it missed some of them.
    create table if not exists feed_horizons (
      queue text primary key,
      position bigint not null)
      with (fillfactor = 50)`)
  await knex.raw(`
    -- What is left of a deleted todo that had too much for one statement: its rows by seq.
    create table if not exists remains (
      id bigint generated always as identity primary key,
      todo_id uuid not null,
      queue text not null,
      from_seq integer not null,
      through_seq integer not null)`)
}
