/**
 * A key for each chunk of an artifact, by which a chunk that is sent again is known. Chunks of before, and
 * of agents that send none, have no key and take no room in the index. As in 0010, writers go on meanwhile
 * and every statement can be run again.
 */
import type { Knex } from 'knex'

export const config = { transaction: false }

export const up = async (knex: Knex): Promise<void> => {
  await knex.raw('alter table artifacts add column if not exists chunk_key text')
  const { rows } = await knex.raw(
    `select indisvalid as done from pg_index where indexrelid = to_regclass('artifact_once')`,
  )
  if (rows[0]?.done) return
  // One that was broken off is there, and of no use.
  await knex.raw('drop index concurrently if exists artifact_once')
  await knex.raw(`create unique index concurrently artifact_once
    on artifacts (todo_id, artifact_id, chunk_key) where chunk_key is not null`)
}
