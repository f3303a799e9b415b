/**
 * The first schema. Two kinds of table: `todos` is the row that changes often and stays narrow;
 * everything wide (messages, artifacts, results) lies beside it and is written once.
 *
 * There are no foreign keys from the children to `todos`, nor from `todos` to `queues` and
 * `endpoints`: each would lock a parent row on every write of the hot path. Children are written
 * in the same statement as their todo and nowhere else, and a queue is removed under a table lock.
 */
import type { Knex } from 'knex'

export const up = async (knex: Knex): Promise<void> => {
  await knex.raw(`
    create type todo_state as enum (
      'pending', 'claimed', 'input-required', 'auth-required',
      'done', 'failed', 'canceled', 'rejected');

    -- The two halves of every lease, on the server's clock. Nothing else compares an expiry.
    create function lease_free(owner uuid, expires_at timestamptz) returns boolean
      language sql stable parallel safe
      return owner is null or expires_at is null or expires_at <= now();
    create function lease_until(seconds double precision) returns timestamptz
      language sql stable parallel safe
      return now() + make_interval(secs => seconds);

    -- A statement that waited for a row's lock still reads other tables as they were before the
    -- wait. When that shows (an attempt it had to close was opened meanwhile) it must run again.
    create function attempts_agree(closed bigint, expected bigint) returns boolean
      language plpgsql as $$
      begin
        if closed <> expected then
          raise exception 'attempts moved under this statement' using errcode = '40001';
        end if;
        return true;
      end $$;

    create table queues (
      name text primary key,
      card json not null,
      policy json not null,
      created_at timestamptz(3) not null default now(),
      updated_at timestamptz(3) not null default now());

    create table endpoints (
      id uuid primary key default gen_random_uuid(),
      name text not null,
      token_sha256 bytea not null constraint endpoint_token_once unique,
      queues text[] not null,
      verbs text[] not null,
      default_lease_seconds integer not null default 300,
      interrupt_ttl_seconds integer,
      effects text[],
      send_per_minute integer,
      created_at timestamptz(3) not null default now(),
      expires_at timestamptz(3),
      revoked_at timestamptz(3),
      constraint endpoint_lease_in_bounds check (default_lease_seconds between 60 and 86400),
      constraint endpoint_token_is_a_hash check (octet_length(token_sha256) = 32));

    create table settings (
      key text primary key,
      value text not null,
      updated_at timestamptz(3) not null default now());

    create table todos (
      id uuid primary key,
      queue text not null,
      context_id text not null,
      client_id uuid,
      state todo_state not null default 'pending',
      priority smallint not null default 1,
      attempt integer not null default 0,
      max_attempts integer not null,
      attempts_total integer not null default 0,
      fence bigint not null default 0,
      owner uuid,
      claimant text,
      -- What is compared with now() is kept exact: rounded, a moment could lie ahead of it.
      lease_seconds integer,
      lease_expires_at timestamptz,
      last_heartbeat_at timestamptz(3),
      progress_at timestamptz(3),
      due_at timestamptz,
      next_retry_at timestamptz,
      -- Announced by the ready hook once the todo comes due; null when it was announced at once.
      ready_reason text,
      seq integer not null default 1,
      status_seq integer not null default 1,
      status_at timestamptz(3) not null default clock_timestamp(),
      unread integer not null default 0,
      acknowledged_seq integer not null default 0,
      retry_of uuid,
      created_at timestamptz(3) not null default clock_timestamp(),
      updated_at timestamptz(3) not null default clock_timestamp(),
      finished_at timestamptz(3),

      constraint claimed_has_owner_lease_and_fence check (
        state <> 'claimed' or (owner is not null and lease_expires_at is not null and fence > 0)),
      constraint only_open_states_have_an_owner check (
        owner is null or state in ('claimed', 'input-required', 'auth-required')),
      constraint pending_has_a_due_time check ((due_at is not null) = (state = 'pending')),
      constraint only_failed_waits_for_a_retry check (next_retry_at is null or state = 'failed'),
      constraint finished_means_finished_at check (
        (finished_at is not null) =
        (state in ('done', 'canceled', 'rejected') or (state = 'failed' and next_retry_at is null))),
      constraint attempts_within_the_cap check (attempt between 0 and max_attempts),
      constraint priority_is_one_of_three check (priority between 0 and 2),
      constraint unread_is_a_count check (unread >= 0))
      with (fillfactor = 85, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000,
        autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0.02);

    -- The claim: what may be taken, in the order it is taken. Its second half lists when a row
    -- comes free: a pending one when due, a failed one at its retry, a claimed one when its lease
    -- lapses. So one probe finds all three.
    create index todos_claim on todos (queue, priority, (case state
        when 'pending' then due_at when 'failed' then next_retry_at
        when 'claimed' then lease_expires_at end), id)
      where state in ('pending', 'claimed') or (state = 'failed' and next_retry_at is not null);
    -- The reaper's predicate, and the bell of retries and delayed releases.
    create index todos_lease on todos (lease_expires_at) where state = 'claimed';
    create index todos_come_due on todos ((coalesce(next_retry_at, due_at)))
      where ready_reason is not null;
    -- ListTasks of one client; the same for operators; one conversation.
    create index todos_client on todos (client_id, queue, status_at desc, id desc);
    create index todos_status on todos (status_at desc, id desc);
    create index todos_context on todos (context_id);

    create table attempts (
      todo_id uuid not null,
      seq integer not null,
      attempt integer not null,
      endpoint_id uuid not null,
      claimant text,
      claimed_at timestamptz(3) not null,
      last_heartbeat_at timestamptz(3),
      progress_at timestamptz(3),
      lease_expires_at timestamptz(3),
      ended_at timestamptz(3),
      outcome text,
      disposition text,
      summary text,
      cause text,
      primary key (todo_id, seq),
      constraint attempt_outcome_is_known check (outcome in ('completed', 'failed', 'released',
        'rejected', 'lease_expired', 'reaped', 'timed_out', 'canceled', 'revoked')),
      constraint attempt_disposition_is_known check (disposition in ('done', 'retry_scheduled',
        'dead_lettered', 'requeued', 'canceled', 'rejected')),
      constraint ended_attempt_has_an_outcome check (
        (ended_at is null) = (outcome is null) and (ended_at is null) = (disposition is null)));
    create unique index attempt_one_open on attempts (todo_id) where ended_at is null;

    -- One row a committed fact. seq orders those of one todo; position orders all of them and is
    -- given after the commit, since any number drawn inside a transaction can become visible late.
    create table events (
      id bigint generated always as identity,
      todo_id uuid not null,
      seq integer not null,
      position bigint,
      queue text not null,
      context_id text not null,
      verb text not null,
      from_state todo_state,
      to_state todo_state not null,
      retrying boolean not null default false,
      attempt integer not null,
      fence bigint not null,
      owner uuid,
      claimant text,
      ready text,
      artifact_id text,
      detail json,
      at timestamptz(3) not null,
      primary key (todo_id, seq))
      with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
        autovacuum_vacuum_cost_delay = 0);
    create index events_unplaced on events (id) where position is null;
    create unique index events_position on events (position);
    create sequence feed_position increment by 2 start with 2;

    -- Keyed like the event that carried them. json, not jsonb: stored as sent, byte for byte.
    create table messages (
      todo_id uuid not null,
      seq integer not null,
      message_id text not null,
      role text not null,
      owed boolean not null default false,
      sender uuid,
      message json not null,
      received_at timestamptz(3) not null default clock_timestamp(),
      primary key (todo_id, seq),
      constraint message_once unique (todo_id, message_id),
      constraint message_role_is_known check (role in ('user', 'agent')));

    create table artifacts (
      todo_id uuid not null,
      artifact_id text not null,
      seq integer not null,
      append boolean not null,
      last_chunk boolean not null,
      artifact json not null,
      primary key (todo_id, artifact_id, seq));

    create table details (
      todo_id uuid primary key,
      metadata json,
      result json,
      direct boolean not null default false);
  `)
}
