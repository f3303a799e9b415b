/**
 * The migration for holders that die during a wait, on a database that has todos in it, with a node of before
 * beside: what waits since before it waits on, and is parked or short of lease only by what comes after it.
 */
import knexFactory from 'knex'
import { afterAll, expect, inject, test } from 'vitest'
import { knexConfig, migrate } from '../../src/store/postgres/migrate.ts'
import { startNode } from '../support/app.ts'
import { type Answer, agentClient } from '../support/clients/actors.ts'
import { urlOf, withClient } from '../support/database/database.ts'
import { operate, saying } from '../support/steps.ts'

const { url, run } = inject('postgres')
const name = `${run}_parked_holders`
const databaseUrl = urlOf(url, name)
await withClient(url, (client) => client.query(`create database ${name}`))
afterAll(() => withClient(url, (client) => client.query(`drop database ${name} with (force)`)))

const sql = <Row = Answer>(text: string, values: unknown[] = []): Promise<Row[]> =>
  withClient(databaseUrl, async (client) => (await client.query(text, values)).rows)

/** A question that a node of before has asked, and held on to an hour ago. */
const waiting = async (owner: string): Promise<string> => {
  const [todo] = await sql(
    `insert into todos (id, queue, context_id, state, max_attempts, attempt, attempts_total, fence,
      owner, lease_seconds, lease_expires_at, lease_probe_at, started_at, last_heartbeat_at, progress_at,
      seq, status_seq, interrupted_at, interrupt_held_until)
    select gen_random_uuid(), 'q', 'c', 'input-required', 1, 1, 1, 1, $1, 300, at, at, at, at, at, 3, 3,
      at, at + interval '1 minute'
    from (select now() - interval '1 hour' as at) w returning id`,
    [owner],
  )
  await sql(
    `insert into attempts (todo_id, seq, attempt, endpoint_id, claimed_at)
    select id, 1, 1, owner, started_at from todos where id = $1`,
    [todo.id],
  )
  for (const [seq, role] of [
    [1, 'user'],
    [3, 'agent'],
  ]) {
    await sql(
      `insert into messages (todo_id, seq, message_id, role, message)
      values ($1, $2, 'm' || $2::int, $3, '{"messageId":"m","role":"ROLE_USER","parts":[{"text":"x"}]}')`,
      [todo.id, seq, role],
    )
  }
  return todo.id
}

test('a wait from before it goes on, with a heartbeat it is watched from then on, and it can be run again', async () => {
  const knex = knexFactory(knexConfig(databaseUrl))
  const before = async () =>
    (await knex.migrate.list())[1].filter(({ name }: Answer) => name < '0020').length
  while ((await before()) > 0) await knex.migrate.up()
  await knex.destroy()
  await sql(`insert into queues (name, card, policy) values ('q', '{}', '{}')`)
  const [{ id: owner }] = await sql(
    `insert into endpoints (name, token_sha256, queues, verbs)
    values ('asker', sha256('swb_token'), '{q}', '{work}') returning id`,
  )
  const early = await waiting(owner)
  await migrate(databaseUrl)
  const late = await waiting(owner)
  // A kill between its statements, and another start.
  await sql(`delete from migrations where name = '0020_parked_holders'`)
  await sql('drop index todos_wait')
  await migrate(databaseUrl)
  const node = await startNode(databaseUrl)
  try {
    const worker = agentClient(node.url, 'swb_token')
    await node.sweep.reap()
    const ids = [early, late]
    const owners = async () =>
      (await sql('select owner from todos where id = any($1::uuid[])', [ids])).map(
        (row) => row.owner,
      )
    // Whether its holder heartbeats through a node of before is not known.
    expect(await owners()).toEqual([owner, owner])
    for (const id of ids) await worker.call('todos.heartbeat', { id, fence: '1' })
    await node.sweep.reap()
    expect(await owners()).toEqual([owner, owner])
    await sql(
      `update todos set lease_expires_at = now() - interval '1 second', wait_probe_at = now(),
        interrupt_held_until = now() where id = any($1::uuid[])`,
      [ids],
    )
    await node.sweep.reap()
    expect(await owners()).toEqual([null, null])
    for (const id of ids) {
      const { receipt } = await operate(node, 'todos.answer', { id, message: saying('yes') })
      expect(receipt.outcome).toBe('requeued')
    }
  } finally {
    await node.stop()
  }
})
