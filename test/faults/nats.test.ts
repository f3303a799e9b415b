// Wakes over NATS: the bus may go, the work goes on.
// Field cases: listener cut off; database restart.
import { expect, test } from 'vitest'
import { startNode } from '../support/app.ts'
import { a2aClient, agentClient } from '../support/clients/actors.ts'
import { cloneDatabase, withClient } from '../support/database/database.ts'
import { killed } from '../support/process/child.ts'
import { findProgram, freePort, startProgram } from '../support/process/program.ts'
import { until } from '../support/until.ts'

const file = findProgram('nats-server')

test.skipIf(file === null)(
  'nodes that share a NATS server hear each other; while it is away they poll, and are not ready',
  async () => {
    const port = await freePort()
    const serve = () => startProgram(file!, ['-a', '127.0.0.1', '-p', String(port)], port)
    let server = await serve()
    const clone = await cloneDatabase()
    const natsUrl = `nats://127.0.0.1:${port}/test`
    const here = await startNode(clone.url, { pollMs: 2000, natsUrl })
    const there = await startNode(clone.url, { pollMs: 2000, natsUrl })
    const { operator } = here.services
    await operator.putQueue({ name: 'desk', policy: { contexts: 'parallel' } })
    const client = await operator.vend({ name: 'c', queues: ['desk'], verbs: ['send'] })
    const agent = await operator.vend({ name: 'a', queues: ['desk'], verbs: ['work'] })
    const a2a = a2aClient(here.url, 'desk', client.token)
    const worker = agentClient(there.url, agent.token)
    const round = async () => {
      const sent = a2a.send('hello')
      const todo = await worker.claim({ waitMs: 25_000 })
      await worker.call('todos.complete', todo.held)
      expect((await sent).result.task.status.state).toBe('TASK_STATE_COMPLETED')
    }
    const ready = async () => (await fetch(`${here.url}/readyz`)).status === 200
    const listeners = await withClient(
      clone.url,
      async (pg) =>
        (
          await pg.query(
            `select count(*)::int as n from pg_stat_activity
             where application_name = 'switchboard wake' and datname = current_database()`,
          )
        ).rows[0].n,
    )
    expect(listeners).toBe(0)

    expect(await ready()).toBe(true)
    await round()
    await killed(server)
    await until(async () => !(await ready()), { what: 'the loss is noticed' })
    await round()
    server = await serve()
    await until(ready, { what: 'the nodes are ready again' })
    await round()
    await here.stop()
    await there.stop()
    await clone.drop()
  },
)
