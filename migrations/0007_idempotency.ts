/**
 * Which key a sender gave to which send, kept for a while, so that the same send again finds what
 * the first one made. A table of its own: whoever sends without a key does not pay for it.
 */
import type { Knex } from 'knex'

export const up = async (knex: Knex): Promise<void> => {
  await knex.raw(`
    create table idempotency_keys (
      -- The principal; the operator, who is no endpoint, is the nil UUID.
      endpoint_id uuid not null,
      queue text not null,
      -- Keys that were given and ids of messages are told apart.
      source text not null constraint idempotency_source_is_known check (source in ('key', 'messageId')),
      key text not null,
      digest bytea not null constraint idempotency_digest_is_a_hash check (octet_length(digest) = 32),
      -- What was made of it: the todo, and the place of the message in it.
      todo_id uuid not null,
      seq integer not null,
      created_at timestamptz(3) not null default now(),
      expires_at timestamptz not null,
      constraint idempotency_key_once primary key (endpoint_id, queue, source, key));
    create index idempotency_keys_expires on idempotency_keys (expires_at);
  `)
}
