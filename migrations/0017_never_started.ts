/**
 * Whether an attempt never started, asked of the one before that of a lapsed lease. It is a function since
 * a subquery would be made ready by every claim, and hardly any has to ask. No table is touched.
 */
import type { Knex } from 'knex'

export const up = async (knex: Knex): Promise<void> => {
  await knex.raw(`
    create function never_started(todo uuid, number integer) returns boolean
      language sql stable as $$
      select coalesce((select a.cause = 'never_started' from attempts a
        where a.todo_id = todo and a.seq = number), false) $$`)
}
