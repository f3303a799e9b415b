/**
 * Who a client says is behind a todo, and the same beside each of its events, so that a feed tells it
 * without a look at the todo. Null is nobody named, as for all rows of before and those that older nodes
 * add meanwhile. Columns without a default are no work for PostgreSQL, so each lock lasts a moment only;
 * they are taken one after another, since statements that read both tables lock them in an order of their
 * own. Each step can be run again.
 */
import type { Knex } from 'knex'

export const config = { transaction: false }

export const up = async (knex: Knex): Promise<void> => {
  await knex.raw('alter table todos add column if not exists author text')
  await knex.raw('alter table events add column if not exists author text')
}
