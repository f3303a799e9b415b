// A background worker that does not work shows: otherwise no clock would be kept, and nobody would
// know.
// Field case: alive and ready.
import { expect, test } from 'vitest'
import { startApp } from '../support/app.ts'
import { a2aClient, agentClient } from '../support/clients/actors.ts'
import { metric } from '../support/steps.ts'
import { until } from '../support/until.ts'

const app = await startApp({ placeMs: 50, comeDueMs: 50, scheduleMs: 50, tidyMs: 50 })
const { client, agent } = await app.queue('desk', { contexts: 'parallel' })

const readiness = async () => {
  const response = await fetch(`${app.url}/readyz`)
  const { reasons } = (await response.json()) as { reasons: string[] }
  return { status: response.status, reasons }
}
const up = (worker: string) => metric(app, `switchboard_worker_up{worker="${worker}"}`)
const WORKERS = ['listener', 'reaper', 'bell', 'alarm', 'scheduler', 'placer', 'janitor']

test('a required worker that keeps failing makes the node unready by its name, alone, until it is well again', async () => {
  expect(await readiness()).toMatchObject({ status: 200, reasons: [] })
  for (const worker of WORKERS) await until(async () => (await up(worker)) === 1, { what: worker })

  // Only the placer gives positions.
  await app.sql('alter table events rename column position to hidden')
  await until(async () => (await readiness()).status === 503)
  expect((await readiness()).reasons).toEqual(['the worker placer keeps failing'])
  expect(await up('placer')).toBe(0)
  expect((await fetch(`${app.url}/healthz`)).status).toBe(200)

  // Its siblings never notice, and neither do callers.
  for (const worker of WORKERS.filter((name) => name !== 'placer')) {
    expect([worker, await up(worker)]).toEqual([worker, 1])
  }
  const failures = await metric(app, 'switchboard_sweep_failures_total{sweep="come_due"}')
  expect(failures).toBe(0)
  const task = await a2aClient(app.url, 'desk', client.token).submit('x')
  const worker = agentClient(app.url, agent.token)
  const todo = await worker.claim()
  expect(todo.id).toBe(task.id)
  await worker.call('todos.complete', todo.held)

  await app.sql('alter table events rename column hidden to position')
  await until(async () => (await readiness()).status === 200)
  await until(async () => (await up('placer')) === 1)
  for (const worker of WORKERS) {
    expect(await metric(app, `switchboard_worker_restarts_total{worker="${worker}"}`)).toBe(0)
  }
})

test('a node that cannot look after schedules is not ready', async () => {
  await app.sql('alter table schedules rename column next_at to hidden')
  await until(async () => (await readiness()).status === 503)
  expect((await readiness()).reasons).toEqual(['the worker scheduler keeps failing'])
  await app.sql('alter table schedules rename column hidden to next_at')
  await until(async () => (await readiness()).status === 200)
})

test('a janitor that keeps failing shows, and does not make the node unready', async () => {
  await until(async () => (await up('janitor')) === 1)
  await app.sql('alter table idempotency_keys rename column expires_at to hidden')
  await until(async () => (await up('janitor')) === 0)
  expect(await readiness()).toMatchObject({ status: 200, reasons: [] })
  await app.sql('alter table idempotency_keys rename column hidden to expires_at')
  await until(async () => (await up('janitor')) === 1)
})
