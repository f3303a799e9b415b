/**
 * One claim primitive (docs/design/lifecycle-layer.md, section 3): whatever is leased is leased by
 * `lease_free` and `lease_until`. What is leased is not listed here but found in the catalog, so
 * that a table of a later day is held to it from the day it is there; and what is asked of it is
 * every statement the program compiles, and those it makes up as it runs.
 */
import { expect, test, vi } from 'vitest'
import { INTERRUPT_STATES, STATE_NAMES } from '../../src/domain/lifecycle.ts'
import type { DatabaseOptions } from '../../src/store/postgres/database.ts'
import { openStore } from '../support/database/store.ts'

const sent = vi.hoisted(() => [] as string[])

vi.mock('../../src/store/postgres/database.ts', async (original) => {
  const real = await original<typeof import('../../src/store/postgres/database.ts')>()
  return {
    ...real,
    openDatabase: (options: DatabaseOptions) => {
      const database = real.openDatabase(options)
      const query: typeof database.query = (text, values) => {
        sent.push(text)
        return database.query(text, values)
      }
      return { ...database, query }
    },
  }
})

// Compiles all there is.
await import('../../src/app.ts')
const { compiledStatements } = await import('../../src/store/postgres/statement.ts')
sent.push(...compiledStatements().map(({ text }) => text))
const { listTodos } = await import('../../src/store/todos/list.ts')

const { database, add } = await openStore(2)

/** Who has it, and how long: a table with both is leased. */
const OWNER = '(owner|claimed_by|claimant|worker|holder|locked_by|leased_by|taken_by|runner)(_id)?'
const EXPIRY = '.*expir.*|.*_until|.*deadline.*|(lease|lock|claim)\\w*_(at|end|ends)'

/** What looks like the end of a lease and is none, with the reason. */
const NO_EXPIRY = [
  'claimed_at', // when it began
  // The deadline of a question, which its holder may move: past it the todo is taken from its owner
  // by the sweep, and by nobody else (docs/design/interrupt-deadline.md).
  'interrupt_held_until',
  // When the secret before this one ends to sign.
  'previous_secret_until',
]

interface Leased {
  table: string
  owners: string[]
  expiries: string[]
}

const findLeased = (): Promise<Leased[]> =>
  database.query<Leased>(
    `select * from (
      select c.relname as table,
        array_agg(a.attname::text) filter (where a.attname ~ $1) as owners,
        array_agg(a.attname::text) filter (where a.attname ~ $2 and a.attname <> all($3)
          and a.atttypid = any('{timestamptz,timestamp,int8,float8}'::regtype[])) as expiries
      from pg_catalog.pg_class c
        join pg_catalog.pg_namespace n on n.oid = c.relnamespace
        join pg_catalog.pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
      where c.relkind in ('r', 'p') and n.nspname <> 'information_schema' and n.nspname !~ '^pg_'
      group by c.relname) found
    where owners is not null and expiries is not null order by 1`,
    [`^(${OWNER})$`, `^(${EXPIRY})$`, NO_EXPIRY],
  )

const column = (names: string[]): string => `(?:\\w+\\.)?(?:${names.join('|')})`

/** The domain's name for a column, by which it is selected. */
const selectedAs = (name: string): string =>
  `"${name.replaceAll(/_([a-z])/g, (_, letter: string) => letter.toUpperCase())}"`

/** The only places at which the end of a lease may stand in a statement. */
const allowed = (owners: string[], expiries: string[]): RegExp[] => {
  const [owner, end] = [column(owners), column(expiries)]
  const shown = expiries.map(selectedAs).join('|')
  const own = `\\(case [^()]* then ${end} end\\)`
  return [
    new RegExp(`lease_free\\(${owner}, ${end}\\)`, 'g'),
    // A bound for an index, by the same clock.
    new RegExp(`(?:${end}|${own}) <= lease_until\\(0\\)`, 'g'),
    new RegExp(`order by (?:${end}|${own})(?=,| |$)`, 'g'),
    // Set: to nothing, to what lease_until says, left as it is.
    new RegExp(`${end} = (?:null|lease_until\\((?:coalesce\\([^()]*\\)|[^()]*)\\))(?=,| |$)`, 'g'),
    new RegExp(`${end} = case when \\$\\d+::boolean then null else ${end} end`, 'g'),
    // With the first word of a holder that has an answer.
    new RegExp(
      `${end} = case when \\w+\\.unheard_since is null then ${end} else lease_until\\([^()]*\\) end`,
      'g',
    ),
    // What the indexes hold of it: not later than its end, and left as it is for half of its length.
    new RegExp(
      `${end} = least\\(lease_until\\((coalesce\\([^()]*\\))\\), case when ${end} > lease_until\\(\\1 / 2\\.0\\) then ${end} end\\)`,
      'g',
    ),
    // The short one of an answer, or the whole one.
    new RegExp(
      `${end} = lease_until\\(case when \\w+\\.interrupt_held_until (?:(?! end\\)).)* end\\)(?=,| |$)`,
      'g',
    ),
    // Of a row as it would be if all its moments were later, which is then asked as any other is.
    new RegExp(`'(?:${expiries.join('|')})', ${end} \\+ interval '\\d+ seconds'`, 'g'),
    // Shown, and kept with the attempt that ended.
    new RegExp(`(?<=select |, )${end}(?: as (?:\\w+|${shown}))?(?=,| from)`, 'g'),
    new RegExp(`min\\(least\\(${end}, \\w+\\.alarm_at\\)\\) as until`, 'g'),
    new RegExp(`coalesce\\(${end}, ${end}\\) as (?:${shown})(?=,| from)`, 'g'),
    new RegExp(`${end} = \\w+\\.former_(?:${expiries.join('|')})(?= )`, 'g'),
  ]
}

/** What a statement says of a lease in words of its own; empty where it says nothing. */
const ownWords = (text: string, all: readonly Leased[]): string[] => {
  const said = text.replaceAll(/\s+/g, ' ')
  const touched = all.filter(({ table }) => new RegExp(`\\b${table}\\b`).test(said))
  if (touched.length === 0) return []
  const owners = touched.flatMap((leased) => leased.owners)
  const expiries = touched.flatMap((leased) => leased.expiries)
  const rest = allowed(owners, expiries).reduce((left, form) => left.replaceAll(form, '✓'), said)
  const named = `\\b${column(expiries)}\\b|${expiries.map(selectedAs).join('|')}`
  const wrong = [...rest.matchAll(new RegExp(`.{0,40}(?:${named}).{0,40}`, 'g'))]
  // Nobody's: of a question it says that it is parked. Of anything else it would say that it is free.
  const unowned = [...rest.matchAll(new RegExp(`.{0,40}${column(owners)} is .{0,40}`, 'g'))]
  const ofQuestions = INTERRUPT_STATES.some((state) => rest.includes(`'${state}'`))
  return [...wrong, ...(ofQuestions ? [] : unowned)].map(([words]) => words)
}

const wordsAbout = (texts: readonly string[], leased: readonly Leased[]): string[] =>
  texts.flatMap((text) => ownWords(text, leased))

test('what is leased is found by what its table looks like', async () => {
  expect(await findLeased()).toEqual([
    // The record of leases past.
    { table: 'attempts', owners: ['claimant'], expiries: ['lease_expires_at'] },
    { table: 'push_configs', owners: ['owner'], expiries: ['lease_expires_at'] },
    {
      table: 'todos',
      owners: ['owner', 'claimant'],
      expiries: ['lease_expires_at', 'lease_probe_at'],
    },
  ])
})

test('every statement spells the end of a lease by lease_free and lease_until alone', async () => {
  await add()
  await listTodos(database, { states: STATE_NAMES, pageSize: 1, includeArtifacts: true })
  const leased = await findLeased()
  const about = sent.filter((text) => /\btodos\b/.test(text))
  expect(about.length).toBeGreaterThan(50)
  expect(about.filter((text) => text.includes('lease_free(')).length).toBeGreaterThan(20)
  expect(about.some((text) => text.includes('limit') && text.includes('"t"'))).toBe(true)
  expect(wordsAbout(sent, leased)).toEqual([])
})

test('no function, index, check, view or trigger of the database compares the end of a lease', async () => {
  const leased = await findLeased()
  const written = await database.query<{ name: string; text: string }>(
    `select p.proname as name, pg_get_functiondef(p.oid) as text from pg_catalog.pg_proc p
       join pg_catalog.pg_namespace n on n.oid = p.pronamespace
     where n.nspname = current_schema() and p.prokind = 'f'
       and not exists (select from pg_depend d where d.objid = p.oid and d.deptype = 'e')
     union all
     select conname, pg_get_constraintdef(oid) from pg_catalog.pg_constraint where contype = 'c'
       and conname <> 'claimed_has_owner_lease_and_fence' -- That there is one, whenever it ends.
     union all
     select c.relname, pg_get_indexdef(c.oid) from pg_catalog.pg_class c where c.relkind in ('i', 'I')
     union all select viewname, definition from pg_catalog.pg_views where schemaname = current_schema()
     union all select tgname, pg_get_triggerdef(oid) from pg_catalog.pg_trigger where not tgisinternal`,
    [],
  )
  const names = leased.flatMap(({ expiries }) => expiries).join('|')
  const compares = new RegExp(
    `\\b(${names}|expires_at)\\b\\)?( is |\\s*[<>=+-])|[<>=+-] \\(?(${names})\\b`,
    'i',
  )
  const found = written.filter(({ text }) => compares.test(text)).map(({ name }) => name)
  // The constraint says that both are there or neither; the trigger, that the indexes hold no lease
  // for longer than it lasts.
  expect(found).toEqual(['lease_free', 'leased_line_has_an_owner', 'todo_lease_probed'])
})

test('a table of a later day is found, and a lease of its own words in it', async () => {
  await database.query(
    `create table parcels (id uuid, worker uuid, leased_until timestamptz);
     create table jobs (name text, claimed_by uuid, lease_expires_at timestamptz);
     create table secrets (name text, expires_at timestamptz)`,
    [],
  )
  try {
    const leased = await findLeased()
    expect(leased.map(({ table }) => table)).toEqual([
      'attempts',
      'jobs',
      'parcels',
      'push_configs',
      'todos',
    ])
    const fine = [
      `update parcels d set worker = $1::uuid, leased_until = lease_until($2::int) from (
        select id from parcels d where lease_free(d.worker, d.leased_until)
          and d.leased_until <= lease_until(0)
        order by d.leased_until limit 1 for update skip locked) p where d.id = p.id`,
      'select d.id, d.worker, d.leased_until from parcels d where d.worker = $1::uuid',
      'select name from secrets where expires_at > now()',
    ]
    expect(wordsAbout(fine, leased)).toEqual([])
    const wrong = [
      'select id from parcels where leased_until < now()',
      'select id from parcels d where now() >= d.leased_until',
      'select id from parcels d where d.leased_until <= now()',
      'select id from parcels d where d.leased_until is null',
      `select id from parcels d where coalesce(d.leased_until, '-infinity') <= now()`,
      'select extract(epoch from d.leased_until - now()) from parcels d',
      'select d.id from parcels d where not d.leased_until > $1',
      `update parcels set leased_until = now() + interval '1 minute'`,
      'update parcels d set leased_until = $1 where d.id = $2',
      'select id from parcels d where d.worker is null',
      'select name from jobs j where j.lease_expires_at between $1 and now()',
      'select name from jobs j where j.claimed_by is not distinct from null',
    ]
    expect(wrong.filter((text) => wordsAbout([text], leased).length === 0)).toEqual([])
  } finally {
    await database.query('drop table parcels, jobs, secrets', [])
  }
})
