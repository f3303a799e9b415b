/**
 * The doctor, on an installation that is well, and on those with a fault that takes a while to bring
 * about: settings, a node that is deaf, a clock, dead rows, a full disk.
 */
import { spawnSync } from 'node:child_process'
import path from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { startEmbedded } from '../../src/embedded.ts'
import type { Diagnosis } from '../../src/store/doctor/doctor.ts'
import { migrate } from '../../src/store/postgres/migrate.ts'
import { runCli } from '../cli/run.ts'
import { startNode } from '../support/app.ts'
import { cloneDatabase, withClient } from '../support/database/database.ts'
import { startOwnPostgres } from '../support/database/own-postgres.ts'
import { hasPgBouncer, startPgBouncer } from '../support/database/pgbouncer.ts'
import { endWithFile, makeFolder } from '../support/process/child.ts'
import { spawnServe } from '../support/process/serve-child.ts'
import { operate } from '../support/steps.ts'
import { expectOk, expectWrong, finding } from './support.ts'

const CHECKS = [
  'database',
  'rights',
  'schema',
  'notify',
  'clock',
  'disk',
  'claims',
  'queues',
  'endpoints',
  'sweeps',
]

const postgres = await startOwnPostgres()
const node = await startNode(postgres.url)
afterAll(() => node.stop())
await node.services.operator.putQueue({ name: 'desk' })
await node.services.operator.vend({ name: 'agent', queues: ['desk'], verbs: ['work'] })

test('all is green, by the database and by the node, and the command ends with 0', async () => {
  const direct = await runCli(['doctor', '--json', '--url', node.url], {
    env: { DATABASE_URL: postgres.url },
  })
  const { ok, checks } = JSON.parse(direct.stdout) as Diagnosis
  expect(checks.filter(({ status }) => status !== 'ok')).toEqual([])
  expect(checks.map(({ check }) => check)).toEqual([...CHECKS, 'node'])
  expect(finding({ ok, checks }, 'notify').found).toContain('nodes that answered: 1')
  expect({ ok, code: direct.code }).toEqual({ ok: true, code: 0 })

  const asked: Diagnosis = await operate(node, 'doctor.run', {})
  expect(asked.checks.filter(({ status }) => status !== 'ok')).toEqual([])
  expect(asked.checks.map(({ check }) => check)).toEqual(CHECKS)
})

test('a setting that loses what was committed is wrong, and so is one that lets nothing be written', async () => {
  const set = (text: string) =>
    withClient(postgres.url, async (client) => {
      await client.query(text)
      await client.query('select pg_reload_conf()')
    })
  const database = new URL(postgres.url).pathname.slice(1)
  await set(`alter database "${database}" set synchronous_commit = off`)
  await expectWrong(postgres.url, 'database', /synchronous_commit is off/, /to on/)
  await set(`alter database "${database}" reset synchronous_commit`)
  await set(`alter database "${database}" set default_transaction_read_only = on`)
  await expectWrong(postgres.url, 'database', /read_only is on: nothing can be written/, /off/)
  await withClient(postgres.url, async (client) => {
    await client.query('set default_transaction_read_only = off')
    await client.query(`alter database "${database}" reset default_transaction_read_only`)
  })
  await expectOk(postgres.url, 'database')
})

test('of NOTIFY: a node that listens and does not answer', async () => {
  const deaf = await cloneDatabase()
  await withClient(
    `${deaf.url}${deaf.url.includes('?') ? '&' : '?'}application_name=switchboard%20wake`,
    async (wake) => {
      await wake.query('listen switchboard')
      await expectWrong(deaf.url, 'notify', /1 of 1 nodes that listen did not answer/, /readyz/)
    },
  )
  await expectOk(deaf.url, 'notify')
  await deaf.drop()
})

test.runIf(hasPgBouncer)('of NOTIFY: a pooler, through which nothing is heard', async () => {
  await expectWrong(await startPgBouncer(postgres.url), 'notify', /did not arrive/, /DIRECT_URL/)
})

test('of a clock', async () => {
  const own = await cloneDatabase()
  const { child, listening } = spawnServe({
    databaseUrl: own.url,
    env: { CLOCK_SKEW_MS: '-60000' },
    imports: ['./test/chaos/skewed-clock.ts'],
  })
  endWithFile(child)
  await listening
  await expectWrong(own.url, 'clock', /is 60 s behind that of the database/, /NTP/)
})

test('of the claims: dead rows that a transaction keeps', async () => {
  const own = await cloneDatabase()
  await withClient(own.url, async (sql) => {
    await sql.query(`insert into queues (name, card, policy) values ('full', '{}', '{}')`)
    await sql.query('alter table todos set (autovacuum_enabled = off)')
    await sql.query(`insert into todos (id, queue, context_id, state, max_attempts, due_at)
      select gen_random_uuid(), 'full', repeat('c', 700), 'pending', 5, now()
      from generate_series(1, 12000)`)
    await withClient(own.url, async (holder) => {
      await holder.query('begin isolation level repeatable read')
      await holder.query('select count(*) from todos')
      const { rows } = await holder.query('select pg_backend_pid() as pid')
      await sql.query(`update todos set state = 'done', finished_at = now(), due_at = null`)
      const ends = new RegExp(`end the transaction that keeps dead rows: process ${rows[0].pid}`)
      await expectWrong(own.url, 'claims', /blocks in full/, ends)
    })
    await sql.query('vacuum todos')
  })
  await expectOk(own.url, 'claims')
  await own.drop()
})

const disk = makeFolder()
const mounted = spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=400m,mode=711', 'tmpfs', disk])
const canMount = mounted.status === 0
afterAll(() => void (canMount && spawnSync('umount', ['-l', disk])))

test.runIf(canMount)('of the disk', async () => {
  const small = await startEmbedded(path.join(disk, 'data'))
  try {
    await migrate(small.url)
    await expectWrong(small.url, 'disk', /0\.\d GiB are free where the data lies/, /make room/)
  } finally {
    await small.stop()
  }
})

test('of a question that the database does not answer in time: that check says so, the others go on', async () => {
  const own = await cloneDatabase()
  await withClient(own.url, async (sql) => {
    await sql.query('begin')
    await sql.query('lock table settings in access exclusive mode')
    await expectWrong(own.url, 'sweeps', /cannot be looked at: .*statement timeout/, /look again/)
    await sql.query('rollback')
  })
  await expectOk(own.url, 'sweeps')
  await own.drop()
})
