/**
 * An endpoint that loses the verb `work` while it holds todos: others get them at once, and where there
 * are no others nothing is moved in circles and an operator is told.
 * Field case: rights that are taken away while work goes on.
 */
import { randomUUID } from 'node:crypto'
import { Writable } from 'node:stream'
import pino from 'pino'
import { expect, test } from 'vitest'
import type { Log } from '../../src/base/log.ts'
import { startApp } from '../support/app.ts'
import { a2aClient, agentClient } from '../support/clients/actors.ts'
import { ask, attemptsOf, lapseLease, operate } from '../support/steps.ts'

const NEVER = 3_600_000
const lines: Record<string, unknown>[] = []
const log = pino(
  { level: 'warn' },
  new Writable({
    write: (chunk, _encoding, done) => {
      lines.push(JSON.parse(String(chunk)))
      done()
    },
  }),
) as unknown as Log
// The sweeps are those of the test.
const app = await startApp({ log, reapMs: NEVER, comeDueMs: NEVER, tidyMs: NEVER })

const desk = async () => {
  const name = `q-${randomUUID().slice(0, 8)}`
  const { client, agent } = await app.queue(name, { contexts: 'parallel' })
  const a2a = a2aClient(app.url, name, client.token)
  const worker = agentClient(app.url, agent.token)
  return { name, a2a, worker, id: agent.endpoint.id }
}
const update = (id: string, verbs: string[]) => operate(app, 'endpoints.update', { id, verbs })
const stateOf = async (id: string) =>
  (await app.sql<{ state: string }>('select state from todos where id = $1', [id]))[0]!.state
const eventsOf = async (id: string) => (await operate(app, 'todos.show', { id })).events.length
const told = (queue: string) => lines.filter((line) => line.queue === queue)

test('what it holds, questions too, is requeued at once where another endpoint may claim it', async () => {
  const { name, a2a, worker, id } = await desk()
  for (const text of ['one', 'two']) await a2a.submit(text)
  const todos = [await worker.claim(), await worker.claim()] as const
  await ask(worker, todos[1], 'May I?')
  const other = agentClient(app.url, (await app.vend(['work'], [name])).token)

  await update(id, ['watch'])
  for (const todo of todos) {
    expect(await stateOf(todo.id)).toBe('pending')
    expect(await attemptsOf(app, todo.id)).toMatchObject([
      { outcome: 'revoked', disposition: 'requeued', cause: 'right_withdrawn' },
    ])
  }
  expect(todos.map((todo) => todo.id)).toContain((await other.claim()).id)
})

test('where nobody may claim it stays, the log names it once, and once it lapses why says what to do', async () => {
  const { name, a2a, worker, id } = await desk()
  await a2a.submit('one')
  const { id: todo } = await worker.claim()
  await update(id, ['watch'])
  await app.sweep.reap()
  await app.sweep.reap()
  expect(await stateOf(todo)).toBe('claimed')
  expect(told(name)).toMatchObject([{ endpoint: id, level: 40 }])

  await lapseLease(app, todo)
  await app.sweep.reap()
  expect(await stateOf(todo)).toBe('pending')
  const events = await eventsOf(todo)
  for (let sweep = 0; sweep < 3; sweep += 1) await app.sweep.reap()
  expect(await eventsOf(todo)).toBe(events)
  const { why } = await operate(app, 'todos.why', { id: todo })
  expect(why).toContain(`nobody may claim from ${name}: vend an endpoint with the verb work for it`)
})

test('one that comes later is found by the sweep', async () => {
  const { name, a2a, worker, id } = await desk()
  await a2a.submit('one')
  const { id: todo } = await worker.claim()
  await update(id, ['watch'])
  expect(await stateOf(todo)).toBe('claimed')
  await app.vend(['work'], [name])
  await app.sweep.reap()
  expect(await stateOf(todo)).toBe('pending')
})
