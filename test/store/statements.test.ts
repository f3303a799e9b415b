// Every statement says which one it is: to pg_stat_activity, to pg_stat_statements and to an operator.
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type EmbeddedPostgres, startEmbedded } from '../../src/embedded.ts'
import { openDatabase } from '../../src/store/postgres/database.ts'
import { migrate } from '../../src/store/postgres/migrate.ts'
import { compiledStatements, statement } from '../../src/store/postgres/statement.ts'
import { scopeSql } from '../../src/store/todos/scope.ts'
import { until } from '../support/until.ts'

// Compiles all there is.
await import('../../src/app.ts')

const statements = compiledStatements()
const labelOf = ({ name }: { name: string }): string => name.replace(/_[0-9a-f]{8}$/, '')

const GUIDE = fs
  .readFileSync('docs/operating.md', 'utf8')
  .split(/^## /m)
  .find((section) => section.startsWith('Reading the database'))!
const [running, waiting, slow] = [...GUIDE.matchAll(/^```sql\n(.*?)^```$/gms)].map(
  ([, sql]) => sql!,
)

let postgres: EmbeddedPostgres
let client: pg.Client
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'sb-statements-'))

beforeAll(async () => {
  // As root, PostgreSQL runs as another user, who must get there.
  fs.chmodSync(folder, 0o711)
  postgres = await startEmbedded(path.join(folder, 'data'), {
    settings: ['fsync=off', 'shared_preload_libraries=pg_stat_statements', 'compute_query_id=on'],
  })
  await migrate(postgres.url)
  client = new pg.Client({ connectionString: postgres.url })
  await client.connect()
  await client.query('create extension pg_stat_statements')
})
afterAll(async () => {
  await client?.end()
  await postgres?.stop()
  fs.rmSync(folder, { recursive: true, force: true })
})

test('a statement names itself within its first 40 characters', () => {
  expect(statements.length).toBeGreaterThan(100)
  for (const { name, text } of statements) {
    const [, label] = /^\w+ \/\* (\w+) \*\//.exec(text.slice(0, 60)) ?? []
    expect(name).toMatch(new RegExp(`^${label}_[0-9a-f]{8}$`))
    expect(text.indexOf('/*'), name).toBeLessThan(40)
  }
})

test('no parameter is left in the text of a statement', () => {
  for (const { name, text } of statements) expect(text, name).not.toMatch(/(?<!:):[a-z_]+/)
})

test('two statements never share a name', () => {
  const names = statements.map(({ name }) => name)
  expect(new Set(names).size).toBe(names.length)
})

test('the guide tells of every statement', () => {
  const forms = [...GUIDE.matchAll(/^\| (`[^|]*`) \|/gm)].flatMap(([, cell]) =>
    [...cell!.matchAll(/`([^`]+)`/g)].map(([, form]) => form!),
  )
  const told = forms.map(
    (form) => new RegExp(`^${form.replaceAll('<verb>', '[a-zA-Z]+').replaceAll('*', '\\w*')}$`),
  )
  const untold = statements.map(labelOf).filter((label) => !told.some((form) => form.test(label)))
  expect(untold).toEqual([])
})

test('no two verbs are one to pg_stat_statements', async () => {
  const verbs = statements.filter((one) => labelOf(one).startsWith('todo_'))
  const ids = new Map<string, string>()
  for (const { name, text, order } of verbs) {
    await client.query(`prepare ${name} as ${text}`)
    const values = order.map(() => 'null').join(', ')
    const { rows } = await client.query(
      `explain (verbose) execute ${name}${values && `(${values})`}`,
    )
    const plan = rows.map((row) => row['QUERY PLAN']).join('\n')
    const [, id] = /Query Identifier: (-?\d+)/.exec(plan) ?? []
    expect(id, name).toBeDefined()
    expect(ids.get(id!), `${name} reads as`).toBeUndefined()
    ids.set(id!, name)
  }
})

test('the queries of the guide show what runs, what waits for whom, and what is slow', async () => {
  const database = openDatabase({ connectionString: postgres.url, poolSize: 2 })
  const insert = `insert into todos (id, queue, context_id, state, max_attempts, due_at)
    values (gen_random_uuid(), 'q', 'c', 'pending', 5, now()) returning id`
  const [todo] = (await client.query(insert)).rows
  const cancel = statements.find((one) => labelOf(one) === 'todo_cancel')!
  try {
    await client.query('begin')
    await client.query('select from todos where id = $1 for update', [todo.id])
    const canceled = database.run(cancel, { id: todo.id })
    const other = new pg.Client({ connectionString: postgres.url })
    await other.connect()
    const rowsOf = async (query: string) => (await other.query(query)).rows
    await until(async () => (await rowsOf(waiting!)).length > 0, { what: 'the cancel waits' })
    expect(await rowsOf(running!)).toMatchObject([
      { statement: 'todo_cancel', state: 'active', wait_event_type: 'Lock' },
    ])
    expect(await rowsOf(waiting!)).toMatchObject([
      { statement: 'todo_cancel', state: 'idle in transaction' },
    ])
    await client.query('commit')
    expect(await canceled).toHaveLength(1)
    const told = await rowsOf(slow!)
    expect(told).toContainEqual(expect.objectContaining({ statement: 'todo_cancel', calls: '1' }))
    await other.end()
  } finally {
    await database.close()
  }
})

test('a parameter stands where the fragment says, however its text looks', () => {
  const { text, order } = statement('test_only', scopeSql('t'))
  expect(order).toEqual(['scope_kind', 'scope_queues', 'scope_client', 'scope_queue'])
  expect(text).toContain("$1::text = 'all'")
})
