/**
 * How often something happened lately, so that a limit holds over all nodes. The columns are those that
 * rate-limiter-flexible reads and writes; `expire` is in milliseconds since 1970, by the nodes' clocks.
 * Unlogged: a crash of the database forgets the last minute, and nothing else is lost with it.
 */
import type { Knex } from 'knex'

export const up = async (knex: Knex): Promise<void> => {
  await knex.raw(`
    create unlogged table rate_limits (
      key varchar(255) primary key,
      points integer not null default 0,
      expire bigint)
    with (fillfactor = 50)
  `)
}
