/**
 * Keys that all nodes of an installation share, and nobody else knows. A node makes one when it first
 * needs it. The first of them seals page tokens.
 */
import type { Knex } from 'knex'

export const up = async (knex: Knex): Promise<void> => {
  await knex.raw(`
    create table installation_keys (
      name text primary key,
      key bytea not null constraint installation_key_is_long check (octet_length(key) >= 32),
      created_at timestamptz(3) not null default now())
  `)
}
