// A node that is killed, frozen or stopped while it tells a webhook.
// Field cases: maintenance goes on; orderly shutdown.
import { once } from 'node:events'
import { expect, test } from 'vitest'
import { startPushApp } from '../push/support.ts'
import { a2aClient, agentClient } from '../support/clients/actors.ts'
import { startReceiver, stateOf } from '../support/network/receiver.ts'
import { serveProcessWith } from '../support/process/serve-process.ts'
import { until } from '../support/until.ts'

const ENV = { SWITCHBOARD_WEBHOOK_ALLOW_HTTP: 'true', SWITCHBOARD_WEBHOOK_ALLOW_CIDRS: 'localhost' }

test.each(['SIGKILL', 'SIGSTOP', 'SIGTERM'] as const)(
  'what a node told when %s hit it is told by another, under the same id, and counts once',
  async (signal) => {
    // Only for its database, its queue and its tokens: the nodes are processes.
    const app = await startPushApp({ pollMs: 300 })
    const first = await serveProcessWith(ENV, app.databaseUrl)
    let silent = true
    const receiver = await startReceiver(() => (silent ? 'hang' : 200))
    const { client, agent } = await app.queue('q')
    await app.stop()

    const a2a = a2aClient(first.url, 'q', client.token)
    const taskPushNotificationConfig = { url: `http://localhost:${receiver.port}/h` }
    const { result } = await a2a.send(
      'x',
      {},
      { returnImmediately: true, taskPushNotificationConfig },
    )
    await agentClient(first.url, agent.token).claim()
    const [begun] = await receiver.came('/h', 1)

    const exited = once(first.child, 'exit')
    first.child.kill(signal)
    if (signal !== 'SIGSTOP') {
      expect(await exited).toEqual(signal === 'SIGTERM' ? [0, null] : [null, signal])
    }
    silent = false
    // The lease of the other one runs out; a node that stops in order leaves none. This comes before
    // there is a second node: it takes what is due as soon as it starts, and its own lease must last.
    await app.sql('update push_configs set lease_expires_at = now() where owner is not null')
    const second = await serveProcessWith(ENV, app.databaseUrl)
    const [, again] = await receiver.came('/h', 2)
    expect(again?.headers['webhook-id']).toBe(begun?.headers['webhook-id'])
    expect(again?.text).toBe(begun?.text)
    const log = () =>
      app.sql<{ state: string; attempts: number }>(
        'select state, attempts from deliveries where todo_id = $1 order by seq',
        [result.task.id],
      )
    await until(async () => (await log())[0]?.state === 'delivered')

    first.child.kill('SIGCONT')
    await a2aClient(second.url, 'q', client.token).call('CancelTask', { id: result.task.id })
    const told = await receiver.came('/h', 3)
    expect(told.map(stateOf)).toEqual(['WORKING', 'WORKING', 'CANCELED'])
    await until(async () => (await log()).every(({ state }) => state === 'delivered'))
    expect((await log()).map(({ attempts }) => attempts)).toEqual([1, 1])
    first.child.kill('SIGKILL')
    second.child.kill('SIGKILL')
  },
)
