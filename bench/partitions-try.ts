import { openLab } from './lab.ts'
import { startPostgres } from './postgres.ts'
import { runPgbench, toScript } from './pgbench.ts'
import { captureAdd, QUEUE } from './statements.ts'
import { makeQueue } from './cases/send.ts'

const postgres = await startPostgres()
const lab = openLab({ serverUrl: postgres.url, profile: false, against: null })
const NOW = Date.now()
const TODOS = 120000
const months = Number(process.argv[2] ?? 36)
const fill = `
  insert into todos (id, queue, context_id, max_attempts, state, finished_at, created_at)
  select gen_random_uuid(), 'q' || n % 5, 'c' || n, 5, 'done', now() - n * interval '${months * 30 * 86400 / TODOS} seconds', now() - n * interval '${months * 30 * 86400 / TODOS} seconds' from generate_series(1, ${TODOS}) n;
  insert into events (todo_id, seq, position, queue, context_id, verb, to_state, attempt, fence, at, detail)
  select t.id, n, nextval('feed_position'), t.queue, t.context_id, 'send', 'done', 0, 0, t.created_at, '{"text":"Book the 7:42 to Lisbon and tell the others."}' from todos t cross join generate_series(1,4) n;`
const partition = (n: number) => `
  create table parted (like events including defaults) partition by range (at);
  alter table parted alter column id set default nextval('parted_id');
  ${Array.from({ length: n }, (_, i) => `create table parted_${i} partition of parted for values from ('${i === n - 1 ? '-infinity' : ''}${i === n - 1 ? '' : new Date(NOW - (i) * 30 * 86400e3).toISOString()}') to ('${i === 0 ? 'infinity' : new Date(NOW - (i - 1) * 30 * 86400e3).toISOString()}');`).join('\n')}
  insert into parted select * from events;
  alter table parted add primary key (todo_id, seq, at);
  create unique index on parted (position, at);
  create index on parted (id) where position is null;
  alter table events rename to events_old; alter table parted rename to events; drop table events_old cascade;`
const setup = async (parts: number) => {
  const url = await lab.database()
  await lab.sql(url, makeQueue)
  await lab.sql(url, fill)
  if (parts) { await lab.sql(url, `create sequence if not exists parted_id start with 10000000`); await lab.sql(url, partition(parts)).catch(async (e) => { throw e }) }
  await lab.sql(url, 'create table ids as select row_number() over () as n, id from todos; ')
  await lab.sql(url, 'alter table ids add primary key (n)')
  await lab.sql(url, 'vacuum analyze')
  return url
}
const dbs: [string, string][] = []
for (const parts of [0, 12, months]) dbs.push([parts ? `${parts} parts` : 'one table', await setup(parts)])
const add = toScript('add', await captureAdd(), { id: 'gen_random_uuid()' })
const read = `\\set n random(1, ${TODOS})
select id from ids where n = :n \\gset
select e.todo_id, e.seq, e.queue, e.detail, e.at from unnest(array[:id::uuid], array[0::int]) as w(id, after) cross join lateral (select * from events e where e.todo_id = w.id and e.seq > w.after order by e.seq limit 200) e order by e.todo_id, e.seq;`
const pruned = `\\set n random(1, ${TODOS})
select id from ids where n = :n \\gset
select e.todo_id, e.seq, e.queue, e.detail, e.at from unnest(array[:id::uuid], array[0::int]) as w(id, after) join todos t on t.id = w.id cross join lateral (select * from events e where e.todo_id = w.id and e.at >= t.created_at and e.seq > w.after order by e.seq limit 200) e order by e.todo_id, e.seq;`
const nothing = `\\set n random(1, ${TODOS})
select id from ids where n = :n \\gset
select 1;`
const feed = `\\set p random(2, ${TODOS * 8 - 500})
select e.* from events e where e.position >= :p order by e.position limit 200;`
const place = `with placed as (
    update events e set position = p.position
    from (select u.todo_id, u.seq, nextval('feed_position') as position
      from (select todo_id, seq from events where position is null order by id limit 20) u) p
    where e.todo_id = p.todo_id and e.seq = p.seq and e.position is null returning 1)
  select count(*) from placed;`
for (let round = 1; round <= 3; round++) {
  for (const [name, url] of dbs) {
    const r = (script: string, vars: string[], c: number, t = 2) => runPgbench(url, script, vars, c, ['-T', t])
    const sends = await r(`${add.script};`, add.variables, 8, 3)
    const places = await r(place, [], 1, 1)
    await lab.sql(url, `update events set position = nextval('feed_position') where position is null`)
    const none = await r(nothing, [], 1, 1)
    const reads = await r(read, [], 1)
    const bounded = await r(pruned, [], 1)
    const feeds = await r(feed, [], 1)
    const us = (tps: number) => (1e6 / tps).toFixed(0)
    console.log(round, name, { sends: Math.round(sends), placeUs20: us(places), readUs: (1e6 / reads - 1e6 / none).toFixed(0), prunedUs: (1e6 / bounded - 1e6 / none).toFixed(0), feedUs: us(feeds) })
  }
}
await lab.close(); await postgres.stop()
