/**
 * What history costs, and what letting go of it does: the events of three years in one table, and
 * in a partition for each month or quarter of them; then ended todos deleted with all that hangs on
 * them, beside the same where dropping partitions has already rid them of their events. It is why
 * the events are not partitioned (docs/decisions.md).
 */

import { forgetTodos, type Position } from '../../src/store/admin/retention.ts'
import { openDatabase } from '../../src/store/postgres/database.ts'
import type { Lab } from '../lab.ts'
import { runPgbench, toScript } from '../pgbench.ts'
import type { Case, Sample, Setup, Variant } from '../runner.ts'
import { captureAdd, QUEUE } from '../statements.ts'
import { makeQueue } from './send.ts'

const YEARS = 3
const TODOS = 100_000
const EVENTS_EACH = 4
/** About as many as a slow machine deletes in a second. */
const DELETED = 2000

const ended = (queue: string, count: number, age: string): string => `
  insert into todos (id, queue, context_id, max_attempts, state, seq, finished_at, created_at)
  select gen_random_uuid(), '${queue}', 'c' || n, 5, 'done', ${EVENTS_EACH}, m.at, m.at
  from generate_series(1, ${count}) n cross join lateral (select now() - ${age} as at) m`

const told = `
  insert into events (todo_id, seq, position, queue, context_id, verb, to_state, attempt, fence, at, detail)
  select t.id, s, nextval('feed_position'), t.queue, t.context_id, 'send', 'done', 0, 0, t.created_at,
    '{"text":"Book the 7:42 to Lisbon and tell the others."}'
  from todos t cross join generate_series(1, ${EVENTS_EACH}) s`

/** The same events in so many partitions by time, under the names of before. */
const split = (parts: number): string => {
  const span = YEARS * 365 * 86_400_000
  const start = Date.now() - span
  const at = (n: number): string => {
    if (n === 0) return 'minvalue'
    return n === parts ? 'maxvalue' : `'${new Date(start + (n * span) / parts).toISOString()}'`
  }
  const tables = Array.from(
    { length: parts },
    (_, n) =>
      `create table parted_${n} partition of parted for values from (${at(n)}) to (${at(n + 1)});`,
  )
  return `
    create sequence parted_id start with 10000000;
    create table parted (like events including defaults) partition by range (at);
    alter table parted alter column id set default nextval('parted_id');
    ${tables.join('\n')}
    insert into parted select * from events;
    alter table parted add primary key (todo_id, seq, at);
    create unique index on parted (position, at);
    create index on parted (id) where position is null;
    drop table events;
    alter table parted rename to events`
}

const reading = async (lab: Lab, name: string, parts: number): Promise<Variant> => {
  const url = await lab.database()
  await lab.sql(url, makeQueue)
  await lab.sql(
    url,
    ended('old', TODOS, `n * interval '${(YEARS * 365 * 86_400) / TODOS} seconds'`),
  )
  await lab.sql(url, told)
  if (parts > 1) await lab.sql(url, split(parts))
  await lab.sql(url, 'create table ids as select row_number() over () as n, id from todos')
  await lab.sql(url, 'alter table ids add primary key (n)')
  await lab.sql(url, 'vacuum analyze')
  const add = toScript('add', await captureAdd(), { id: 'gen_random_uuid()' })
  const pick = `\\set n random(1, ${TODOS})\nselect id from ids where n = :n \\gset\n`
  const stream = `${pick}select * from events where todo_id = :id::uuid and seq > 0 order by seq limit 200;`
  const feed = `\\set p random(2, ${TODOS * EVENTS_EACH * 2 - 500})
    select * from events where position >= :p order by position limit 200;`
  return {
    name,
    run: async (seconds) => {
      const rate = (script: string, variables: string[], clients: number) =>
        runPgbench(url, script, variables, clients, ['-T', Math.max(1, Math.round(seconds / 2))])
      const microseconds = async (script: string) => 1e6 / (await rate(script, [], 1))
      const picking = await microseconds(pick)
      return {
        sendsPerSecond: await rate(`${add.script};`, add.variables, 8),
        streamUs: (await microseconds(stream)) - picking,
        feedPageUs: await microseconds(feed),
      }
    },
  }
}

const deleting = async (lab: Lab, name: string, withEvents: boolean): Promise<Variant> => {
  const url = await lab.database()
  await lab.sql(
    url,
    `insert into queues (name, card, policy) values ('${QUEUE}', '{}', '{"retentionDays":30}')`,
  )
  const hanging = [
    `insert into messages (todo_id, seq, message_id, role, message)
      select id, s, 'm' || s, 'user', '{"parts":[{"text":"x"}]}' from todos cross join generate_series(1, 2) s`,
    `insert into artifacts (todo_id, artifact_id, seq, append, last_chunk, artifact)
      select id, 'a', 3, false, true, '{"parts":[{"text":"x"}]}' from todos`,
    `insert into attempts (todo_id, seq, attempt, endpoint_id, claimed_at, ended_at, outcome, disposition)
      select id, 1, 1, gen_random_uuid(), now(), now(), 'completed', 'done' from todos`,
    `insert into details (todo_id, result) select id, '{}' from todos`,
  ]
  return {
    name,
    run: async (seconds): Promise<Sample> => {
      const count = Math.max(1, Math.round(seconds * DELETED))
      await lab.sql(url, 'truncate todos, events, messages, artifacts, attempts, details')
      await lab.sql(url, ended(QUEUE, count, "interval '40 days' + n * interval '1 second'"))
      for (const rows of withEvents ? [told, ...hanging] : hanging) await lab.sql(url, rows)
      await lab.sql(url, 'vacuum analyze todos, events, messages, artifacts, attempts, details')
      const database = openDatabase({ connectionString: url, poolSize: 1 })
      let [deleted, longestMs] = [0, 0]
      let place: Position | null = null
      const from = performance.now()
      do {
        const began = performance.now()
        const done = await forgetTodos(database, QUEUE, place)
        longestMs = Math.max(longestMs, performance.now() - began)
        deleted += done.deleted
        place = done.next
      } while (place)
      const todosPerSecond = (1000 * deleted) / (performance.now() - from)
      await database.close()
      return { todosPerSecond, longestMs }
    },
  }
}

const open = async (lab: Lab): Promise<Setup> => {
  const [one, some, many] = ['one table', '12 partitions', '36 partitions']
  const [whole, rest] = ['delete todos, events too', 'delete todos, events dropped before']
  return {
    variants: [
      await reading(lab, one!, 1),
      await reading(lab, some!, 12),
      await reading(lab, many!, 36),
      await deleting(lab, whole!, true),
      await deleting(lab, rest!, false),
    ],
    ratios: [
      ...[some, many].flatMap((of) =>
        ['sendsPerSecond', 'streamUs', 'feedPageUs'].map((metric) => ({
          of: of!,
          to: one!,
          metric,
        })),
      ),
      { of: rest!, to: whole!, metric: 'todosPerSecond' },
    ],
  }
}

export const partitions: Case = {
  name: 'partitions',
  title: 'partitions: events in one table or in partitions, and deleting what ended',
  open,
}
