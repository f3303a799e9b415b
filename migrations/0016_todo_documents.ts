/**
 * What a todo holds, counted in its row: how many messages and chunks of artifacts, and how many bytes.
 * The statement that adds a document finds the sum in the row that it has locked, and adds to it. Beside
 * each document stands its own size, so that a reader can choose what fits without reading any of it.
 *
 * Nothing is filled in: null means that nobody has counted, as in the rows of before and in those that a
 * node of before adds meanwhile. They are counted when they are next written to, and until then by whoever
 * asks. What a node of before adds to a row that was counted is not in its sum. Columns without a default
 * are no work for PostgreSQL, so each lock lasts a moment only; they are taken one after another, since
 * statements that read two of the tables lock them in an order of their own. Each step can be run again.
 */
import type { Knex } from 'knex'

export const config = { transaction: false }

export const up = async (knex: Knex): Promise<void> => {
  await knex.raw(`alter table todos
    add column if not exists documents integer,
    add column if not exists document_bytes bigint`)
  await knex.raw('alter table messages add column if not exists bytes integer')
  await knex.raw('alter table artifacts add column if not exists bytes integer')
  // Of the result.
  await knex.raw('alter table details add column if not exists bytes integer')
  await knex.raw(`
    create or replace function todo_documents(id uuid) returns integer language plpgsql stable as $$
      begin
        return (select count(*) from messages m where m.todo_id = $1)
          + (select count(*) from artifacts a where a.todo_id = $1);
      end $$;

    create or replace function todo_document_bytes(id uuid) returns bigint language plpgsql stable as $$
      begin
        return coalesce((select sum(coalesce(m.bytes, octet_length(m.message::text)
              + coalesce(octet_length(m.request::text), 0) + coalesce(octet_length(m.schema::text), 0)))
            from messages m where m.todo_id = $1), 0)
          + coalesce((select sum(coalesce(a.bytes, octet_length(a.artifact::text)))
            from artifacts a where a.todo_id = $1), 0)
          + coalesce((select coalesce(octet_length(d.metadata::text), 0)
              + coalesce(d.bytes, octet_length(d.result::text), 0)
            from details d where d.todo_id = $1), 0);
      end $$;

    -- A setting that is a number, or what holds without it.
    create or replace function setting_number(name text, otherwise bigint) returns bigint
      language plpgsql stable as $$
      begin
        return coalesce((select s.value from settings s
          where s.key = name and s.value ~ '^[0-9]{1,15}$')::bigint, otherwise);
      end $$`)
}
