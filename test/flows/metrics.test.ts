// Field case: few metric labels.
import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { ADMIN_TOKEN, startApp } from '../support/app.ts'
import { a2aClient, agentClient, post, rpc, textMessage } from '../support/clients/actors.ts'
import { UNKNOWN_ID } from '../support/steps.ts'

const app = await startApp()
const { client, agent } = await app.queue('desk', { contexts: 'parallel' })
const tenants = [
  client,
  ...(await Promise.all(Array.from({ length: 9 }, () => app.vend(['send'], ['desk'])))),
]
const worker = agentClient(app.url, agent.token)

const scrape = async () => (await fetch(`${app.url}/metrics`)).text()
const seriesIn = (text: string) =>
  text
    .split('\n')
    // When Node first collects garbage of some kind is no matter of what it is asked.
    .filter((line) => line !== '' && !line.startsWith('#') && !line.startsWith('nodejs_gc_'))
    .map((line) => line.slice(0, line.lastIndexOf(' ')))

/** Everything that the test does, once: the series of our own methods and codes are there. */
const useAll = async (tenant: { token: string }, mark: string) => {
  const a2a = a2aClient(app.url, 'desk', tenant.token)
  const task = await a2a.submit(mark, { contextId: mark })
  const todo = await worker.claim({ claimant: mark })
  await worker.call('todos.complete', todo.held)
  await a2a.get(task.id)
  await a2a.call('GetTask', { id: UNKNOWN_ID })
  await a2a.call(`Invented${mark}`, {})
  await rpc(`${app.url}/agent`, `todos.${mark}`, {}, { token: agent.token })
  await rpc(`${app.url}/operator`, `queues.${mark}`, {}, { token: ADMIN_TOKEN })
  await a2aClient(app.url, mark, tenant.token).call('ListTasks', {})
  await fetch(`${app.url}/${mark}`)
  await post(`${app.url}/a2a/desk/`, JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'GetTask' }), {
    token: tenant.token,
    headers: { 'A2A-Version': mark },
  })
  await a2a.call('SendMessage', { message: textMessage('x', { taskId: mark }) })
}

test('however many tasks, tenants, paths, methods and versions are made up, the series stay as few', async () => {
  await useAll(tenants[0]!, 'first')
  const before = new Set(seriesIn(await scrape()))
  const marks: string[] = []
  await Promise.all(
    tenants.map(async (tenant) => {
      for (let i = 0; i < 4; i += 1) {
        const mark = `m${randomUUID().slice(0, 8)}`
        marks.push(mark)
        await useAll(tenant, mark)
      }
    }),
  )
  const text = await scrape()
  const added = seriesIn(text).filter((series) => !before.has(series))
  expect(added.length).toBeLessThan(20)
  for (const mark of [...marks, ...tenants.map(({ endpoint }) => endpoint.id), UNKNOWN_ID]) {
    expect(text).not.toContain(mark)
  }
})

test('what was done is counted: sent, claimed, finished', async () => {
  const text = await scrape()
  const value = (series: string) =>
    Number(
      text
        .split('\n')
        .find((line) => line.startsWith(`${series} `))!
        .split(' ')[1],
    )
  const [{ n }] = (await app.sql<{ n: number }>('select count(*)::int as n from todos')) as [
    { n: number },
  ]
  expect(value('switchboard_todos_sent_total{queue="desk"}')).toBe(n)
  expect(value('switchboard_todos_claimed_total{queue="desk"}')).toBe(n)
  expect(value('switchboard_todos_finished_total{queue="desk",state="done"}')).toBe(n)
  expect(value('switchboard_attempts_ended_total{queue="desk",outcome="completed"}')).toBe(n)
  expect(value('switchboard_todos_finished_total{queue="desk",state="failed"}')).toBe(0)
})
