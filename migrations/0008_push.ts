/**
 * Push notifications. A config is the line of what is owed to one webhook for one todo, and is
 * leased as a whole: so its deliveries go out one after the other, whichever node sends them. What
 * is owed is counted in the config's own row, so that a todo which adds to the line and a courier
 * which takes from it cannot miss each other.
 */
import type { Knex } from 'knex'

export const up = async (knex: Knex): Promise<void> => {
  await knex.raw(`
    -- Counts the changes to a todo's configs; 0: it never had one, and nothing is looked for.
    alter table todos add column push_version integer not null default 0;

    -- A statement that waited for the todo still reads its configs as they were before the wait.
    -- Where that shows it must run again.
    create function push_configs_agree(seen integer, version integer) returns boolean
      language plpgsql as $$
      begin
        if seen is distinct from version then
          raise exception 'push configs changed under this statement' using errcode = '40001';
        end if;
        return true;
      end $$;

    create table push_configs (
      todo_id uuid not null,
      config_id text not null,
      endpoint_id uuid,
      dialect text not null,
      url text not null,
      -- Of the URL, with its port: few deliveries at a time for each.
      host text not null,
      token text,
      scheme text,
      credentials text,
      secret text not null,
      previous_secret text,
      previous_secret_until timestamptz,
      created_at timestamptz(3) not null default now(),
      -- Deliveries that are pending, and when the first of them is due.
      owed integer not null default 0,
      due_at timestamptz,
      owner uuid,
      fence bigint not null default 0,
      lease_expires_at timestamptz,
      primary key (todo_id, config_id),
      constraint push_dialect_is_known check (dialect in ('1.0', '0.3')),
      constraint owed_is_a_count check (owed >= 0),
      constraint what_is_owed_is_due check ((due_at is not null) = (owed > 0)),
      constraint leased_line_has_an_owner check ((owner is null) = (lease_expires_at is null)))
      with (fillfactor = 85);
    create index push_configs_due on push_configs (due_at) where due_at is not null;

    -- One row for each event that a webhook is told of. The id is its webhook-id, on every try.
    create table deliveries (
      id uuid primary key default gen_random_uuid(),
      todo_id uuid not null,
      config_id text not null,
      seq integer not null,
      queue text not null,
      state text not null default 'pending',
      attempts integer not null default 0,
      status integer,
      reason text,
      created_at timestamptz(3) not null default clock_timestamp(),
      attempted_at timestamptz(3),
      settled_at timestamptz(3),
      constraint delivery_once unique (todo_id, config_id, seq),
      constraint delivery_state_is_known check (state in ('pending', 'delivered', 'dead')),
      constraint settled_means_settled_at check ((settled_at is not null) = (state <> 'pending')));
    create index deliveries_line on deliveries (todo_id, config_id, seq) where state = 'pending';
    create index deliveries_log on deliveries (created_at desc, id desc);
    create index deliveries_by_state on deliveries (state, created_at desc, id desc)
      where state <> 'delivered';
    create index deliveries_settled on deliveries (settled_at) where settled_at is not null;
  `)
}
