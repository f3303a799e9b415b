/**
 * The doctor, on an installation with each fault that it knows of. Those that take a while, and an
 * installation that is well, are in doctor.slow.test.ts.
 * Field case: an installation of which nobody knows what is wrong.
 */
import { expect, inject, test } from 'vitest'
import { diagnose } from '../../src/store/doctor/doctor.ts'
import { runCli } from '../cli/run.ts'
import { ADMIN_TOKEN, startApp } from '../support/app.ts'
import { a2aClient, agentClient } from '../support/clients/actors.ts'
import { emptyDatabase } from '../support/database/database.ts'
import { ask, operate } from '../support/steps.ts'
import { expectOk, expectWrong, finding } from './support.ts'

const app = await startApp({ reapMs: 3_600_000, comeDueMs: 3_600_000 })
const url = app.databaseUrl
const { client, agent } = await app.queue('desk', { contexts: 'parallel' })

test('of the version', async () => {
  // What the doctor asks is asked of this function, as a server of that age would answer it.
  await app.sql(`create function public.current_setting(name text) returns text language sql as
    $$ select case name when 'server_version_num' then '140011'
      else pg_catalog.current_setting(name) end $$`)
  const asOld = `${url}${url.includes('?') ? '&' : '?'}options=${encodeURIComponent('-c search_path=public,pg_catalog')}`
  await expectWrong(asOld, 'database', /is too old/, /PostgreSQL 15 or later/)
  await app.sql('drop function public.current_setting(text)')
})

test('of rights', async () => {
  const role = `${inject('postgres').run}_doctor`
  await app.sql(`create role ${role} login password 'x'`)
  const asRole = url.replace(/^(\w+:\/\/)([^@/]*@)?/, `$1${role}:x@`)
  await app.sql(`grant select on all tables in schema public to ${role}`)
  await expectWrong(asRole, 'rights', /lacks delete on answer_links.* more/, /grant select/)
  await app.sql(`grant all on all tables in schema public to ${role}`)
  await app.sql(`grant all on all sequences in schema public to ${role}`)
  await expectOk(asRole, 'rights')
  const { status, found } = finding(await diagnose({ databaseUrl: asRole }), 'disk')
  expect([status, found]).toEqual(['unknown', expect.stringContaining('may not know')])
  await app.sql(`drop owned by ${role}`)
  await app.sql(`drop role ${role}`)
})

test('of the schema: none, a newer one, an index that is not valid', async () => {
  const empty = await emptyDatabase()
  await expectWrong(empty.url, 'schema', /it lacks 0001_schema/, /switchboard migrate/)
  expect(finding(await diagnose({ databaseUrl: empty.url }), 'queues').status).toBe('unknown')
  await empty.drop()
  await app.sql(
    `insert into migrations (name, batch, migration_time) values ('9999_next', 1, now())`,
  )
  await expectWrong(url, 'schema', /has 9999_next/, /later one/)
  await app.sql(`delete from migrations where name = '9999_next'`)
  await app.sql(
    `update pg_index set indisvalid = false where indexrelid = 'todos_context'::regclass`,
  )
  await expectWrong(url, 'schema', /todos_context is not valid/, /reindex/)
  await app.sql(
    `update pg_index set indisvalid = true where indexrelid = 'todos_context'::regclass`,
  )
  await expectOk(url, 'schema')
})

test('of a queue that nobody serves', async () => {
  await operate(app, 'queues.put', { name: 'lonely' })
  const alone = await app.vend(['send'], ['lonely'])
  await a2aClient(app.url, 'lonely', alone.token).submit('x')
  await expectWrong(url, 'queues', /lonely \(1 todos wait\)/, /switchboard vend/)
  await app.vend(['work'], ['lonely'])
  await expectOk(url, 'queues')
})

test('of an endpoint that is about to expire', async () => {
  const vend = { name: 'brief', queues: ['desk'], verbs: ['send'], expiresInSeconds: 86_400 }
  const { endpoint } = await operate(app, 'endpoints.vend', vend)
  await expectWrong(url, 'endpoints', /brief at /, /vend another/)
  await operate(app, 'endpoints.revoke', { id: endpoint.id })
  await expectOk(url, 'endpoints')
})

test.each([
  ['a lease', `lease_expires_at = now() - interval '10 minutes'`, app.sweep.reap],
  [
    'a limit on time',
    `close_at = now() - interval '10 minutes', alarm_at = now() - interval '10 minutes'`,
    app.sweep.timeOut,
  ],
  ['a wait', `interrupted_at = now() - interval '10 days'`, app.sweep.reap],
  [
    'the last word of its holder',
    ['lease_expires_at', 'wait_probe_at', 'interrupt_held_until']
      .map((column) => `${column} = now() - interval '10 minutes'`)
      .join(', '),
    app.sweep.reap,
  ],
  [
    'the time of its join',
    `join_timeout_at = now() - interval '10 minutes', alarm_at = now() - interval '10 minutes'`,
    app.sweep.timeOut,
  ],
])('of a todo that is stuck past %s', async (what, due, run) => {
  const a2a = a2aClient(app.url, 'desk', client.token)
  const worker = agentClient(app.url, agent.token)
  await a2a.submit('x')
  const todo = await worker.claim()
  if (['a wait', 'the last word of its holder'].includes(what)) await ask(worker, todo, 'May I?')
  if (what === 'the last word of its holder') await worker.call('todos.heartbeat', todo.held)
  if (what === 'the time of its join') {
    const made = [{ queue: 'desk', message: { parts: [{ text: 'a part of it' }] } }]
    const { children } = await operate(app, 'todos.fork', { id: todo.id, children: made })
    const [{ id: child }] = children
    const terms = { children: [child], until: 'all', timeoutSeconds: 3600 }
    await operate(app, 'todos.join', { id: todo.id, ...terms })
  }
  await app.sql(`update todos set ${due} where id = $1`, [todo.id])
  await app.sql(`create function broken() returns trigger language plpgsql as
    $$ begin raise exception 'broken by hand'; end $$`)
  await app.sql(
    `create trigger broken before update on todos for each row execute function broken()`,
  )
  await run()
  await expectWrong(url, 'sweeps', new RegExp(todo.id), /could not be swept/)
  await app.sql('drop function broken cascade')
  await run()
  await expectOk(url, 'sweeps')
  await app.sql('delete from todos where id = $1 or parent_id = $1', [todo.id])
})

test('what has come due a moment ago is not stuck', async () => {
  const a2a = a2aClient(app.url, 'desk', client.token)
  await a2a.submit('x')
  const todo = await agentClient(app.url, agent.token).claim()
  await app.sql(`update todos set lease_expires_at = now() - interval '60 seconds' where id = $1`, [
    todo.id,
  ])
  await expectOk(url, 'sweeps')
  await app.sql('delete from todos where id = $1', [todo.id])
})

test('ends the command with 1, and it says what to do', async () => {
  await operate(app, 'queues.put', { name: 'forlorn' })
  const env = { SWITCHBOARD_URL: app.url, SWITCHBOARD_TOKEN: ADMIN_TOKEN }
  const { code, stdout } = await runCli(['doctor'], { env })
  expect(code).toBe(1)
  expect(stdout).toMatch(/WRONG {2}queues +no live endpoint may claim from forlorn/)
  expect(stdout).toMatch(/vend one: switchboard vend/)
  expect(stdout).toMatch(/ok +node +http/)
  const denied = await runCli(['doctor'], { env: { ...env, SWITCHBOARD_TOKEN: client.token } })
  expect(denied.code).toBe(6)
})

test('a database or a node that cannot be reached ends the command with 4', async () => {
  const [database, node] = await Promise.all([
    runCli(['doctor'], { env: { DATABASE_URL: 'postgres://127.0.0.1:9/x' } }),
    runCli(['doctor', '--url', 'http://127.0.0.1:9', '--token', 't']),
  ])
  expect([database.code, node.code]).toEqual([4, 4])
})
