// A role that owns one schema with an awkward name, and nothing else.
// Field case: plain database rights.
import { randomUUID } from 'node:crypto'
import { afterAll, expect, inject, test } from 'vitest'
import { openDatabase } from '../../src/store/postgres/database.ts'
import { pendingMigrations } from '../../src/store/postgres/migrate.ts'
import { runCli } from '../cli/run.ts'
import { ADMIN_TOKEN, startNode } from '../support/app.ts'
import { a2aClient, agentClient } from '../support/clients/actors.ts'
import { urlOf, withClient } from '../support/database/database.ts'
import { metric } from '../support/steps.ts'
import { until } from '../support/until.ts'

const SCHEMA = 'Switch board-1'
/** A wake that is lost would be made up for after a minute: longer than the test takes. */
const POLL_MS = 60_000

const { url, run } = inject('postgres')
const role = `${run}_plain`
const adminUrl = urlOf(url, role)
const password = randomUUID()
await withClient(url, async (client) => {
  await client.query(`create role ${role} login password '${password}'
    nosuperuser nocreatedb nocreaterole noinherit`)
  await client.query(`create database ${role}`)
  await client.query(`revoke all on database ${role} from public`)
  await client.query(`grant connect on database ${role} to ${role}`)
  await client.query(`alter role ${role} set search_path = pg_catalog`)
})
await withClient(adminUrl, async (client) => {
  await client.query('revoke all on schema public from public')
  await client.query(`create schema "${SCHEMA}" authorization ${role}`)
})
afterAll(() =>
  withClient(url, async (client) => {
    await client.query(`drop database if exists ${role} with (force)`)
    await client.query(`drop role ${role}`)
  }),
)

const asRole = adminUrl.replace(/^(\w+:\/\/)([^@/]*@)?/, `$1${role}:${password}@`)
const searchPath = encodeURIComponent(`-c search_path="${SCHEMA.replaceAll(' ', '\\ ')}"`)
const plainUrl = `${asRole}${asRole.includes('?') ? '&' : '?'}options=${searchPath}`

const cli = (...args: string[]) => runCli(args, { env: { DATABASE_URL: plainUrl } })

test('a role that owns one schema can migrate, serve, wake and be asked, and leaves nothing elsewhere', async () => {
  const migrated = await cli('migrate')
  expect(migrated).toMatchObject({ code: 0, stderr: '' })
  expect(migrated.stdout).toContain('applied 0001_schema')
  expect(await cli('migrate')).toMatchObject({ code: 0, stdout: 'nothing to do\n' })
  expect(await pendingMigrations(plainUrl)).toEqual([])

  const nodes = [
    await startNode(plainUrl, { pollMs: POLL_MS }),
    await startNode(plainUrl, { pollMs: POLL_MS }),
  ] as const
  try {
    const [here, there] = nodes
    const { operator } = here.services
    await operator.putQueue({ name: 'plain' })
    const vend = async (verb: 'send' | 'work') =>
      (await operator.vend({ name: verb, queues: ['plain'], verbs: [verb] })).token
    const client = a2aClient(here.url, 'plain', await vend('send'))
    const worker = agentClient(there.url, await vend('work'))

    // It waits on the other node: only LISTEN can tell it.
    const claim = worker.claim({ waitMs: 25_000 })
    await until(async () => (await metric(there, 'switchboard_waiting_claims')) === 1)
    const { id } = await client.submit('x')
    const claimed = await claim
    expect(claimed.id).toBe(id)
    await worker.call('todos.complete', claimed.held)
    expect((await client.get(id)).status.state).toBe('TASK_STATE_COMPLETED')
    expect((await fetch(`${here.url}/readyz`)).status).toBe(200)

    const shown = await cli('show', id, '--url', here.url, '--token', ADMIN_TOKEN, '--json')
    expect(shown.code).toBe(0)
    expect(JSON.parse(shown.stdout)).toMatchObject({ id, state: 'done' })
  } finally {
    for (const node of nodes) await node.stop()
  }

  const where = await withClient(adminUrl, (client) =>
    client.query(
      `select distinct nspname from pg_class join pg_namespace n on n.oid = relnamespace
       where relowner = $1::regrole`,
      [role],
    ),
  )
  // Long values of its tables lie in pg_toast.
  expect(where.rows.map(({ nspname }) => nspname).sort()).toEqual([SCHEMA, 'pg_toast'])
})

test("options in the URL stand beside the server's own", async () => {
  const database = openDatabase({ connectionString: plainUrl, poolSize: 1 })
  const [set] = await database.query<Record<string, string>>(
    `select current_setting('enable_seqscan') as seqscan, current_setting('jit') as jit,
       current_schema() as schema`,
    [],
  )
  await database.close()
  expect(set).toEqual({ seqscan: 'off', jit: 'off', schema: SCHEMA })
})
