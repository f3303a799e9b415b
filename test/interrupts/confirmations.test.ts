/** The four confirmations of docs/design/interrupt-deadline.md, end to end. */
import { expect, test } from 'vitest'
import { a2aClient, agentClient } from '../support/clients/actors.ts'
import { ask, lapseLease } from '../support/steps.ts'
import {
  ageWait,
  captureLog,
  DAY,
  leasesExpired,
  reapedLines,
  reclaimed,
  rowOf,
  setting,
  startQuiet,
  TTL,
} from './support.ts'

const captured = captureLog()
const app = await startQuiet({ log: captured.log })

const line = async (name: string, policy?: Record<string, unknown>) => {
  const { client, agent } = await app.queue(name, policy)
  return { a2a: a2aClient(app.url, name, client.token), worker: agentClient(app.url, agent.token) }
}

/** Sent, claimed and asked about, by a worker that never comes back. */
const abandon = async ({ a2a, worker }: Awaited<ReturnType<typeof line>>): Promise<string> => {
  await a2a.submit('work')
  const todo = await worker.claim()
  await ask(worker, todo, 'May I?')
  return todo.id
}

test('a tick on which an interrupt aged out logs one line with the count, and a tick with healthy waits logs nothing', async () => {
  const desk = await line('logged')
  const first = await abandon(desk)
  const second = await abandon(desk)
  captured.lines.length = 0

  expect(await app.sweep.reap()).toBe(0)
  expect(captured.lines).toEqual([])

  await ageWait(app, DAY + 1, first, second)
  expect(await app.sweep.reap()).toBe(2)
  expect(captured.lines).toHaveLength(1)
  expect(reapedLines(captured)).toMatchObject([{ level: 'info', count: 2 }])

  expect(await app.sweep.reap()).toBe(0)
  expect(captured.lines).toHaveLength(1)
})

test('the reclaim counter is there at 0, stays there while interrupts are answered, and rises one for one with the lease counter when holders die', async () => {
  const desk = await line('counted')
  const scrape = await (await fetch(`${app.url}/metrics`)).text()
  expect(scrape).toContain('switchboard_interrupt_leases_reclaimed_total{queue="counted"} 0\n')
  expect(scrape).toContain('switchboard_todo_leases_expired_total{queue="counted"} 0\n')
  const counters = async () => [
    await reclaimed(app, 'counted'),
    await leasesExpired(app, 'counted'),
  ]

  for (let round = 0; round < 3; round += 1) {
    const id = await abandon(desk)
    await ageWait(app, DAY - 60, id)
    await desk.a2a.submit('yes', { taskId: id })
    await app.sweep.reap()
    await desk.a2a.call('CancelTask', { id })
  }
  expect(await counters()).toEqual([0, 0])

  const dead = [await abandon(desk), await abandon(desk)]
  await ageWait(app, DAY + 1, ...dead)
  await app.sweep.reap()
  expect(await counters()).toEqual([2, 2])

  // A lease that lapses while working is none of an interrupt's.
  const todo = await desk.worker.claim()
  await lapseLease(app, todo.id)
  await app.sweep.reap()
  expect(await counters()).toEqual([2, 3])
  const [closed] = await app.sql(
    `select count(*)::int as reaped from attempts a join todos t on t.id = a.todo_id
     where t.queue = 'counted' and a.outcome = 'reaped'`,
  )
  expect(closed).toEqual({ reaped: 3 })
})

test('the number of interrupted todos stays bounded however many workers crash while they wait', async () => {
  const desk = await line('bounded', { maxAttempts: 1 })
  const waiting = async () =>
    (
      await app.sql<{ count: number }>(
        `select count(*)::int as count from todos
         where queue = 'bounded' and state in ('input-required', 'auth-required')`,
      )
    )[0]!.count
  for (let day = 1; day <= 10; day += 1) {
    const crashed = [await abandon(desk), await abandon(desk)]
    expect(await waiting()).toBe(2)
    await ageWait(app, DAY + 1, ...crashed)
    await app.sweep.reap()
    expect(await waiting()).toBe(0)
  }
})

test('with the setting at 0 the tick reclaims nothing, and set back it reclaims what had aged, without a restart', async () => {
  const desk = await line('unbounded')
  const id = await abandon(desk)
  await ageWait(app, 400 * DAY, id)
  await setting(app, TTL, '0')
  captured.lines.length = 0
  expect(await app.sweep.reap()).toBe(0)
  expect(await app.sweep.reap()).toBe(0)
  expect(captured.lines).toEqual([])
  expect(await rowOf(app, id)).toMatchObject({ state: 'input-required', attempt: 1 })

  await setting(app, TTL, null)
  expect(await app.sweep.reap()).toBe(1)
  expect(await rowOf(app, id)).toMatchObject({ state: 'pending', interrupted_at: null })
})
