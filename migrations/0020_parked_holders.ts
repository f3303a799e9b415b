/**
 * What tells of a holder that has died while it waited, and of a join that ends by the clock. All of it is
 * null in the rows of before, in most of those to come, and in what a node of before writes: where no new
 * node has heard a heartbeat during a wait, its todo waits for the deadline as it always did. Columns without
 * a default are no work for PostgreSQL, so the lock lasts a moment only. As in 0010, writers go on meanwhile
 * and every statement can be run again.
 */
import type { Knex } from 'knex'

export const config = { transaction: false }

export const up = async (knex: Knex): Promise<void> => {
  await knex.raw(`alter table todos
    -- When to look whether the holder of a question, who has heartbeated during its wait, has stopped.
    add column if not exists wait_probe_at timestamptz,
    -- When the answer came to which its holder has not reacted so far.
    add column if not exists unheard_since timestamptz(3),
    -- Until when a parent waits for its children; kept past that, so that the parent is told.
    add column if not exists join_timeout_at timestamptz,
    -- The children that live by then are canceled.
    add column if not exists join_cancels boolean`)
  const { rows } = await knex.raw(
    `select indisvalid as done from pg_index where indexrelid = to_regclass('todos_wait')`,
  )
  if (rows[0]?.done) return
  // One that was broken off is there, and of no use.
  await knex.raw('drop index concurrently if exists todos_wait')
  await knex.raw(`create index concurrently todos_wait
    on todos (wait_probe_at) where wait_probe_at is not null`)
}
