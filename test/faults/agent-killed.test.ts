// An agent process that just goes: guarantees 1 and 2 of docs/design/lifecycle-layer.md, section 9.
// Field cases: a lost lease is lost; one expiry, several reapers; orderly shutdown.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { afterAll, expect, test } from 'vitest'
import { startApp, startNode } from '../support/app.ts'
import { a2aClient, agentClient } from '../support/clients/actors.ts'
import { killed, ROOT } from '../support/process/child.ts'
import { childArgs } from '../support/process/child-args.ts'
import { attemptsOf, lapseLease, metric } from '../support/steps.ts'
import { scaled } from '../support/timeouts.ts'
import { until } from '../support/until.ts'

const app = await startApp({ reapMs: 60_000, pollMs: 60_000 })
const { client, agent } = await app.queue('desk', { contexts: 'parallel' })
const a2a = a2aClient(app.url, 'desk', client.token)
const colleague = agentClient(app.url, (await app.vend(['work'], ['desk'])).token)

const children: ChildProcess[] = []
afterAll(() => Promise.all(children.map(killed)))

const spawnAgent = (...options: string[]): ChildProcess => {
  const child = spawn(
    process.execPath,
    [...childArgs('test/support/process/agent-child.ts'), app.url, agent.token, ...options],
    { cwd: ROOT, stdio: ['ignore', 'pipe', 'inherit'] },
  )
  children.push(child)
  return child
}

/** Comes back once the child works on a todo. */
const startAgent = async (): Promise<{ child: ChildProcess; id: string }> => {
  const child = spawnAgent()
  const [line] = await once(createInterface({ input: child.stdout! }), 'line')
  return { child, id: JSON.parse(line).id }
}

test('an agent killed in the middle of its work leaves it to the next claim, at once when its lease has run out', async () => {
  const task = await a2a.submit('x')
  const { child, id } = await startAgent()
  expect(id).toBe(task.id)
  await killed(child)
  // Its lease still runs: nobody else may have it.
  expect((await colleague.call('todos.claim', {})).todos).toEqual([])
  await lapseLease(app, id)
  const todo = await colleague.claim()
  expect(todo).toMatchObject({ id, attempt: 2 })
  expect(todo.priorAttempts).toMatchObject([{ claimant: 'mortal', died: true }])
  await colleague.call('todos.complete', todo.held)
  expect((await a2a.get(id)).status.state).toBe('TASK_STATE_COMPLETED')
  expect(await attemptsOf(app, id)).toHaveLength(2)
})

test('where nobody claims, the reaper takes it back at its tick, counts it and rings for it', async () => {
  const task = await a2a.submit('x')
  const { child, id } = await startAgent()
  expect(id).toBe(task.id)
  await killed(child)
  // By an endpoint of its own: no claim before this one has found nothing and made it wait to look.
  const waiter = agentClient(app.url, (await app.vend(['work'], ['desk'])).token)
  const waiting = waiter.call('todos.claim', { waitMs: 25_000 })
  await until(async () => (await metric(app, 'switchboard_waiting_claims')) >= 1)
  // A claim counts as waiting before it looks, and would take over a lease that lapses in between. It
  // has looked, and found nothing, once another of the same endpoint that came after it has.
  expect((await waiter.call('todos.claim', {})).todos).toEqual([])
  const series = 'switchboard_todo_leases_expired_total{queue="desk"}'
  const before = await metric(app, series)
  await lapseLease(app, id)
  const reaper = await startNode(app.databaseUrl, { reapMs: 200 })
  const { todos } = await waiting
  expect(todos).toMatchObject([{ id, attempt: 2 }])
  expect((await metric(app, series)) + (await metric(reaper, series))).toBe(before + 1)
  await reaper.stop()
  expect((await attemptsOf(app, id))[0]).toMatchObject({
    outcome: 'reaped',
    disposition: 'requeued',
    died: true,
    cause: 'lease_expired',
  })
  await waiter.call('todos.complete', { id, fence: todos[0].fence })
})

test('an agent that is told to stop hands back all it holds at once, and no attempt is used up', async () => {
  const tasks = [
    await a2a.submit('obedient'),
    await a2a.submit('deaf'),
    await a2a.submit('obedient'),
  ]
  const child = spawnAgent('3')
  const lines = createInterface({ input: child.stdout! })
  const held: string[] = []
  lines.on('line', (line) => held.push(JSON.parse(line).id))
  await until(() => held.length === 3)
  expect(new Set(held)).toEqual(new Set(tasks.map(({ id }) => id)))
  const exit = once(child, 'exit')
  const started = performance.now()
  child.kill('SIGTERM')
  expect(await exit).toEqual([0, null])
  expect(performance.now() - started).toBeLessThan(scaled(8000))
  for (const { id } of tasks) {
    expect((await a2a.get(id)).status.state).toBe('TASK_STATE_SUBMITTED')
    expect(await attemptsOf(app, id)).toMatchObject([
      { outcome: 'released', disposition: 'requeued', died: false, summary: 'agent stopped' },
    ])
  }
  // The next holder's is the first attempt again, although the second claim.
  for (let n = 0; n < 3; n += 1) {
    const todo = await colleague.claim()
    expect(todo).toMatchObject({ attempt: 1, attemptsTotal: 2 })
    await colleague.call('todos.complete', todo.held)
  }
})
