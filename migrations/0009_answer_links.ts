/**
 * Who may come in through a browser, on any node and across restarts: sessions of the board, codes
 * that open one, and links with which somebody without an account answers one question. Of each
 * secret only its SHA-256 is kept, as of an endpoint's token.
 */
import type { Knex } from 'knex'

export const up = async (knex: Knex): Promise<void> => {
  await knex.raw(`
    create table board_sessions (
      id uuid primary key default gen_random_uuid(),
      secret_sha256 bytea not null constraint board_session_once unique,
      -- The token it was opened with, the admin's or an endpoint's: it ends with that.
      token_sha256 bytea,
      created_at timestamptz(3) not null default now(),
      expires_at timestamptz(3) not null,
      constraint board_session_is_a_hash check (octet_length(secret_sha256) = 32));

    create table board_codes (
      secret_sha256 bytea primary key,
      expires_at timestamptz(3) not null,
      constraint board_code_is_a_hash check (octet_length(secret_sha256) = 32));

    -- That it was used is known from the answer itself, which carries the link's id.
    create table answer_links (
      id uuid primary key default gen_random_uuid(),
      secret_sha256 bytea not null constraint answer_link_once unique,
      todo_id uuid not null,
      question integer not null,
      created_at timestamptz(3) not null default now(),
      expires_at timestamptz(3) not null,
      constraint answer_link_is_a_hash check (octet_length(secret_sha256) = 32));
    create index answer_links_expiry on answer_links (expires_at);
  `)
}
