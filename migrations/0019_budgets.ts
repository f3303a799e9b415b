/**
 * Budgets: how much a todo may spend, by kind, what it has spent with all below it, and by which keys its
 * last spends are known when they are made again. Most todos have none of it, and a null costs their rows
 * nothing. Columns without a default are no work for PostgreSQL, so the lock lasts a moment only.
 *
 * The two functions are pure: one sum and one comparison, spelled once for every statement. A sum stops at
 * the last whole number that JSON readers have without loss.
 */
import type { Knex } from 'knex'

export const up = async (knex: Knex): Promise<void> => {
  await knex.raw(`
    alter table todos
      add column budget jsonb,
      add column spent jsonb,
      add column spend_keys text[];

    create function spent_more(spent jsonb, more jsonb) returns jsonb language sql immutable as $$
      select jsonb_object_agg(n.kind, least(9007199254740991,
          coalesce((spent ->> n.kind)::numeric, 0) + coalesce((more ->> n.kind)::numeric, 0)))
        from (select jsonb_object_keys(coalesce(spent, '{}'))
          union select jsonb_object_keys(coalesce(more, '{}'))) as n(kind) $$;

    create function within_budget(budget jsonb, spent jsonb) returns boolean language sql immutable as $$
      select budget is null or not exists (select from jsonb_each_text(budget) as b(kind, most)
        where (spent ->> b.kind)::numeric > b.most::numeric) $$`)
}
