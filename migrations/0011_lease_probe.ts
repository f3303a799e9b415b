/**
 * Heartbeats that touch no index. What the indexes know of a lease is a moment of its own, at which
 * the row is to be looked at: never later than the lease's end, and moved on by few heartbeats
 * only. The others change nothing that is indexed, so PostgreSQL writes one row and no index entry.
 *
 * Beside it: tables whose rows change are cleaned early, by count and not by share of their size.
 * As in 0010, writers go on meanwhile and every statement can be run again.
 */
import type { Knex } from 'knex'

export const config = { transaction: false }

/** The index under a name becomes this one: built beside the old one, then put in its place. */
const replace = async (knex: Knex, name: string, on: string): Promise<void> => {
  const { rows } = await knex.raw(
    `select pg_get_indexdef(to_regclass(?)) like '%lease_probe_at%' as done`,
    [name],
  )
  if (rows[0]?.done) return
  await knex.raw(`drop index concurrently if exists ${name}_next`)
  await knex.raw(`create index concurrently ${name}_next on ${on}`)
  await knex.raw(`drop index if exists ${name}; alter index ${name}_next rename to ${name}`)
}

export const up = async (knex: Knex): Promise<void> => {
  await knex.raw(`
    alter table todos add column if not exists lease_probe_at timestamptz;

    -- However a lease came to be what it is: by a verb, by hand, by a node of before.
    create or replace function todo_lease_probed() returns trigger language plpgsql as $$
      begin
        new.lease_probe_at := new.lease_expires_at;
        return new;
      end $$;
    create or replace trigger todo_lease_probed before insert or update on todos for each row
      when (new.lease_expires_at < coalesce(new.lease_probe_at, 'infinity'))
      execute function todo_lease_probed()`)
  await knex.raw(`
    update todos set lease_probe_at = lease_expires_at
    where state in ('claimed', 'input-required', 'auth-required') and lease_probe_at is null`)
  await replace(
    knex,
    'todos_claim',
    `todos (queue, priority, (case state
        when 'pending' then due_at when 'failed' then next_retry_at
        when 'claimed' then lease_probe_at end), id)
      where state in ('pending', 'claimed') or (state = 'failed' and next_retry_at is not null)`,
  )
  await replace(knex, 'todos_lease', `todos (lease_probe_at) where state = 'claimed'`)
  // An attempt is closed once, a config leased and settled often, a delivery settled once or twice.
  await knex.raw(`alter table attempts set (fillfactor = 90,
    autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_cost_delay = 0)`)
  await knex.raw(`alter table push_configs set (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0)`)
  await knex.raw(`alter table deliveries set (
    autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 2000,
    autovacuum_vacuum_cost_delay = 0)`)
  await knex.raw(`alter table idempotency_keys set (
    autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 2000)`)
}
