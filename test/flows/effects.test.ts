/** An agent that says what it has is handed no todo that may not use it; others are handed any. */
import { expect, test } from 'vitest'
import { startApp } from '../support/app.ts'
import { type Answer, a2aClient, agentClient } from '../support/clients/actors.ts'
import { metric, operate, refusalOf } from '../support/steps.ts'
import { until } from '../support/until.ts'

// With a poll a minute away, what is announced is what moves things.
const app = await startApp({ pollMs: 60_000, reapMs: 3_600_000 })
const { client, agent } = await app.queue('desk', { contexts: 'parallel' })
const a2a = a2aClient(app.url, 'desk', client.token)
const worker = agentClient(app.url, agent.token)

const submit = async (effects?: string[]): Promise<string> => {
  const { result } = await a2a.call('SendMessage', {
    message: { messageId: crypto.randomUUID(), role: 'ROLE_USER', parts: [{ text: 'x' }] },
    configuration: { returnImmediately: true },
    ...(effects && { metadata: { 'urn:switchboard:effects': effects } }),
  })
  return result.task.id
}
const claimed = async (effects?: string[], limit = 100): Promise<string[]> => {
  const { todos } = await worker.call('todos.claim', { limit, ...(effects && { effects }) })
  for (const { id, fence } of todos) await worker.call('todos.complete', { id, fence })
  return todos.map(({ id }: Answer) => id)
}
const waiting = (count: number) =>
  until(async () => (await metric(app, 'switchboard_waiting_claims')) === count)

test('it is handed those that may use all of what it has, and passes over the rest', async () => {
  const reads = await submit(['web.read'])
  const nothing = await submit([])
  const both = await submit(['mail.send', 'web.read'])
  const all = await submit()
  expect(await claimed(['mail.send'])).toEqual([both, all])
  const free = await submit()
  expect(await claimed(['web.read', 'mail.send'])).toEqual([free])
  expect(await claimed(['web.read', 'web.read'])).toEqual([reads])
  expect(await claimed(['web.read'])).toEqual([])
  expect((await operate(app, 'todos.why', { id: nothing })).why).toContain(
    'agents that have more than it may use (nothing) pass it over',
  )
  // One that does not say what it has is handed any.
  expect(await claimed()).toEqual([nothing])
})

test('the first in order that fits comes first, within the limit', async () => {
  const ids: string[] = []
  for (let n = 0; n < 6; n++) ids.push(await submit(n % 2 ? ['a'] : ['b']))
  expect(await claimed(['a'], 2)).toEqual([ids[1], ids[3]])
  expect(await claimed(['a'], 2)).toEqual([ids[5]])
  expect(await claimed()).toEqual([ids[0], ids[2], ids[4]])
})

test('a wake that is not for the agent in front goes to the one behind it that is served', async () => {
  const claim = (effects?: string[]) =>
    worker.call('todos.claim', { waitMs: 30_000, ...(effects && { effects }) })
  const front = [claim(['mail.send']), claim(['mail.send']), claim(['mail.send'])]
  await waiting(3)
  const behind = claim()
  await waiting(4)
  const id = await submit(['web.read'])
  const { todos } = await behind
  expect(todos[0].id).toBe(id)
  const served = [await submit(['mail.send']), await submit(), await submit(['mail.send', 'x'])]
  const got = (await Promise.all(front)).flatMap((answer) => answer.todos)
  expect(got.map((todo: Answer) => todo.id).sort()).toEqual(served.toSorted())
  for (const todo of [...got, ...todos]) {
    await worker.call('todos.complete', { id: todo.id, fence: todo.fence })
  }
})

test('it holds under limits on what runs at once as well', async () => {
  await app.queue('narrow', { contexts: 'parallel', concurrency: 1 })
  const few = await app.vend(['work', 'send'], ['narrow'])
  const narrow = agentClient(app.url, few.token)
  const other = a2aClient(app.url, 'narrow', few.token)
  await other.call('SendMessage', {
    message: { messageId: 'n-1', role: 'ROLE_USER', parts: [{ text: 'x' }] },
    configuration: { returnImmediately: true },
    metadata: { 'urn:switchboard:effects': ['web.read'] },
  })
  expect((await narrow.call('todos.claim', { effects: ['mail.send'] })).todos).toEqual([])
  expect((await narrow.call('todos.claim', { effects: ['web.read'] })).todos).toHaveLength(1)
})

test.each([
  ['no list', 'web.read'],
  ['no name', []],
  ['an empty name', ['']],
  ['a long name', ['x'.repeat(121)]],
  ['too many', Array.from({ length: 101 }, (_, n) => `e${n}`)],
])('what is not a list of names is refused: %s', async (_, effects) => {
  const refusal = await refusalOf(worker.call('todos.claim', { effects }))
  expect(refusal.data).toMatchObject({ reason: 'invalid' })
  expect(refusal.data.violations[0].field).toMatch(/^effects/)
})
