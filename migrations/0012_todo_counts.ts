/**
 * How many todos there are of each client, queue and state, kept instead of counted: a list's total
 * then costs the same beside a million finished todos as beside a thousand. The counts hold what
 * events say up to a position of the feed, and whoever asks adds what has happened since, in one
 * snapshot. So nothing is written on the way of a send, a claim or a completion, a placer of any
 * version serves, and counting seldom costs a reader a few more events and nothing else.
 *
 * Beside it: an index of the few that ended otherwise than done. As in 0010 and 0011, writers go on
 * meanwhile and every statement can be run again; only whoever deletes todos waits for the count, and
 * making the triggers waits for the writers of that moment.
 */
import type { Knex } from 'knex'

export const config = { transaction: false }

const NOBODY = `'00000000-0000-0000-0000-000000000000'::uuid`

const KEY = 'queue, client_id, state, retrying'

const ADDING = `on conflict (${KEY}) do update set count = c.count + excluded.count`

export const up = async (knex: Knex): Promise<void> => {
  await knex.raw('drop index concurrently if exists todos_not_done')
  await knex.raw(`
    create index concurrently todos_not_done on todos (state, status_at desc, id desc)
      where finished_at is not null and state in ('failed', 'canceled', 'rejected')`)
  await knex.raw(`
    create table if not exists todo_counts (
      queue text not null,
      -- Whose todos; the operator, who is no endpoint, is the nil UUID.
      client_id uuid not null,
      state todo_state not null,
      -- A failure that is not the end.
      retrying boolean not null,
      count bigint not null,
      constraint todo_counted_once primary key (${KEY}))
      with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

    -- Up to which position of the feed events are in the counts. Its one row is the lock of all who
    -- write to them.
    create table if not exists todo_counted (
      one boolean primary key default true constraint todo_counted_has_one_row check (one),
      position bigint not null)
      with (fillfactor = 10, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
    insert into todo_counted (position) select coalesce(max(position), 0) from events
      on conflict do nothing;

    -- Events that are not in the counts. They are few, which the planner cannot know: it would take
    -- them for a third of all there are, and compile whatever reads them. Stable, so that it sees
    -- what the statement sees that calls it.
    create or replace function events_uncounted()
      returns table ("position" bigint, todo_id uuid, queue text, from_state todo_state,
        to_state todo_state, retrying boolean)
      language plpgsql stable rows 100 set jit = off set enable_seqscan = off as $$
      begin
        return query
          select e.position, e.todo_id, e.queue, e.from_state, e.to_state, e.retrying from events e
            where e.position > (select c.position from todo_counted c)
          union all
          select e.position, e.todo_id, e.queue, e.from_state, e.to_state, e.retrying from events e
            where e.position is null;
      end $$;

    -- What they have moved: one less of a state, and one more of another. A failure is left only
    -- while it waits for its retry. Clients are looked up one by one: whatever the planner thinks of
    -- how many there are, it must not read all todos for them.
    create or replace view todo_moves as
      select e.position, e.todo_id, e.queue,
        coalesce((select t.client_id from todos t where t.id = e.todo_id), ${NOBODY}) as client_id,
        s.state, s.retrying, s.moved
      from events_uncounted() e
        cross join lateral (values (e.from_state, coalesce(e.from_state = 'failed', false), -1),
          (e.to_state, e.retrying, 1)) s (state, retrying, moved)
      where s.state is not null
        and (e.from_state, coalesce(e.from_state = 'failed', false))
          is distinct from (e.to_state, e.retrying);

    -- Exact at every moment: to be summed up.
    create or replace view todo_totals as
      select ${KEY}, count from todo_counts
      union all select ${KEY}, moved from todo_moves;

    -- Takes up to so many events into the counts; how many, or null where somebody else is at it.
    -- Without a limit it waits for them and takes all.
    create or replace function count_todos(most integer) returns integer language plpgsql as $$
      declare
        seen integer;
        upto bigint;
      begin
        -- Most of the time there is nothing to do, and no row to be locked.
        if most is not null and not exists (
            select from events e where e.position > (select c.position from todo_counted c)) then
          return 0;
        end if;
        if most is null then
          perform from todo_counted for update;
        else
          perform from todo_counted for update skip locked;
          if not found then
            return null;
          end if;
        end if;
        select max(n.position), count(*) into upto, seen from (
          select e.position from events e
          where e.position > (select c.position from todo_counted c)
          order by e.position limit most) n;
        if seen > 0 then
          -- What a todo passed through meanwhile is no change, and needs no look at its client.
          insert into todo_counts as c (${KEY}, count)
          select n.queue,
            coalesce((select t.client_id from todos t where t.id = n.todo_id), ${NOBODY}) as client,
            n.state, n.retrying, sum(n.moved)
          from (select m.todo_id, m.queue, m.state, m.retrying, sum(m.moved) as moved
              from todo_moves m where m.position <= upto
              group by m.todo_id, m.queue, m.state, m.retrying having sum(m.moved) <> 0) n
          group by n.queue, client, n.state, n.retrying having sum(n.moved) <> 0
          ${ADDING};
          update todo_counted set position = upto;
        end if;
        return seen;
      end $$;

    -- Counts everything anew: for a start, and for who made todos by hand.
    create or replace function recount_todos() returns void language plpgsql as $$
      begin
        perform from todo_counted for update;
        delete from todo_counts;
        update todo_counted set position = coalesce((select max(e.position) from events e), 0);
        -- In one snapshot: what is there, without what will be added to it later.
        insert into todo_counts (${KEY}, count)
        select n.queue, n.client_id, n.state, n.retrying, sum(n.count) from (
          select t.queue, coalesce(t.client_id, ${NOBODY}) as client_id, t.state,
            t.next_retry_at is not null as retrying, count(*) as count
          from todos t group by 1, 2, 3, 4
          union all
          select m.queue, m.client_id, m.state, m.retrying, -m.moved from todo_moves m) n
        group by 1, 2, 3, 4 having sum(n.count) <> 0;
      end $$;

    -- The events of a todo go with it, so they are counted first. All events of what is deleted
    -- have been placed.
    create or replace function todos_before_deletion() returns trigger language plpgsql as $$
      begin
        perform count_todos(null);
        return null;
      end $$;
    create or replace function todos_deleted() returns trigger language plpgsql as $$
      begin
        if exists (select from gone) then
          insert into todo_counts as c (${KEY}, count)
          select g.queue, coalesce(g.client_id, ${NOBODY}) as client, g.state,
            g.next_retry_at is not null as again, -count(*)
          from gone g group by g.queue, client, g.state, again
          ${ADDING};
          delete from todo_counts c where c.count = 0 and c.queue in (select g.queue from gone g);
        end if;
        return null;
      end $$`)
  await knex.raw(`
    create or replace trigger todos_before_deletion before delete on todos
      for each statement execute function todos_before_deletion();
    create or replace trigger todos_deleted after delete on todos
      referencing old table as gone for each statement execute function todos_deleted()`)
  await knex.raw('select recount_todos()')
}
