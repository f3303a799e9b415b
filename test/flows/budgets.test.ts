/**
 * A budget binds: what is spent is counted in the row, with what the children spend, over all attempts, and
 * past it the todo ends.
 */
import { expect, test } from 'vitest'
import { createAgent } from '../../src/agent-kit/agent.ts'
import { BudgetExhausted } from '../../src/agent-kit/errors.ts'
import { runCli } from '../cli/run.ts'
import { ADMIN_TOKEN, startApp } from '../support/app.ts'
import { type Answer, a2aClient, agentClient, textMessage } from '../support/clients/actors.ts'
import { attemptsOf, lapseLease, operate, refusalOf, saying } from '../support/steps.ts'
import { until } from '../support/until.ts'

const app = await startApp({ reapMs: 3_600_000 })
const { client, agent } = await app.queue('desk', { contexts: 'parallel', maxAttempts: 3 })
await app.queue('parts', { contexts: 'parallel', maxAttempts: 3 })
const boss = await app.vend(['work', 'send'], ['desk', 'parts'])
const a2a = a2aClient(app.url, 'desk', client.token)
const worker = agentClient(app.url, boss.token)
const shown = (id: string): Promise<Answer> => operate(app, 'todos.show', { id })

const send = (budget: unknown) =>
  a2a.call('SendMessage', {
    message: textMessage('x'),
    configuration: { returnImmediately: true },
    metadata: { 'urn:switchboard:budget': budget },
  })
const claim = () => worker.claim({ queues: ['desk'] })
const claimed = async (budget: object) => {
  const { result } = await send(budget)
  const todo = await claim()
  expect(todo.id).toBe(result.task.id)
  return todo
}
type Todo = Awaited<ReturnType<typeof claimed>>
const spend = ({ held }: Pick<Todo, 'held'>, amounts: object): Promise<Answer> =>
  worker.call('todos.spend', { ...held, ...amounts })
const fork = async ({ held }: Pick<Todo, 'held'>, ...children: object[]): Promise<Todo[]> => {
  const made = children.map((more) => ({ queue: 'parts', message: saying('part'), ...more }))
  const forked = await worker.call('todos.fork', { ...held, children: made })
  const got = await Promise.all(children.map(() => worker.claim({ queues: ['parts'] })))
  return forked.children.map(({ id }: Answer) => got.find((todo) => todo.id === id))
}

test('what is spent is counted and told, up to the last of the budget', async () => {
  const todo = await claimed({ tokens: 1000, calls: 2 })
  expect(todo.budget).toEqual({ tokens: 1000, calls: 2 })
  expect(todo.spent).toBeUndefined()
  expect(await spend(todo, { tokens: 300, cents: 7 })).toEqual({
    spent: { tokens: 300, cents: 7 },
    left: { tokens: 700, calls: 2 },
  })
  expect(await spend(todo, { tokens: 700, calls: 2 })).toEqual({
    spent: { tokens: 1000, cents: 7, calls: 2 },
    left: { tokens: 0, calls: 0 },
  })
  const { budget, spent, events } = await shown(todo.id)
  expect({ budget, spent }).toEqual({
    budget: { tokens: 1000, calls: 2 },
    spent: { tokens: 1000, cents: 7, calls: 2 },
  })
  expect(events.at(-1)).toMatchObject({
    verb: 'spend',
    detail: { spent: { tokens: 700, calls: 2 } },
  })
  expect((await operate(app, 'todos.why', { id: todo.id })).why).toMatch(
    /; spent 1000 of 1000 tokens, 7 cents, 2 of 2 calls$/,
  )
  await worker.call('todos.complete', todo.held)
})

test('past it the todo ends, counted and not tried again, and a retry is granted as much anew', async () => {
  const todo = await claimed({ cents: 100 })
  await spend(todo, { cents: 60 })
  const refusal = await refusalOf(spend(todo, { cents: 41 }))
  expect(refusal).toMatchObject({
    code: -32010,
    data: { reason: 'budget_exhausted', state: 'failed', refused: ['cents'] },
  })
  expect(refusal.message).toContain('spent 101 of 100 cents')
  const ended = await shown(todo.id)
  expect(ended).toMatchObject({
    state: 'failed',
    nextRetryAt: null,
    spent: { cents: 101 },
    result: { error: 'budget_exhausted', detail: 'spent 101 of 100 cents' },
  })
  expect(ended.events.at(-1)).toMatchObject({
    verb: 'exhaust',
    detail: { spent: { cents: 41 }, error: { code: 'budget_exhausted' } },
  })
  expect(await attemptsOf(app, todo.id)).toMatchObject([
    { outcome: 'failed', disposition: 'dead_lettered', cause: 'budget_exhausted' },
  ])
  expect((await a2a.get(todo.id)).status.state).toBe('TASK_STATE_FAILED')
  expect((await operate(app, 'todos.why', { id: todo.id })).why).toMatch(
    /a dead letter since .*: budget_exhausted.*; spent 101 of 100 cents$/,
  )
  expect((await refusalOf(spend(todo, { cents: 1 }))).data.reason).toBe('stale_fence')
  await operate(app, 'todos.retry', { id: todo.id })
  const again = await claim()
  expect(again.budget).toEqual({ cents: 100 })
  expect(await spend(again, { cents: 100 })).toMatchObject({ left: { cents: 0 } })
  await worker.call('todos.complete', again.held)
})

test('all attempts spend of one budget, whatever ended the one before', async () => {
  const todo = await claimed({ tokens: 10 })
  await spend(todo, { tokens: 4 })
  const error = { code: 'boom', message: 'it broke' }
  await worker.call('todos.fail', { ...todo.held, error, retryInSeconds: 0 })
  const second = await claim()
  expect(second.spent).toEqual({ tokens: 4 })
  await spend(second, { tokens: 4 })
  await lapseLease(app, todo.id)
  expect((await refusalOf(spend(second, { tokens: 1 }))).data.reason).toBe('stale_fence')
  const third = await claim()
  expect(third.spent).toEqual({ tokens: 8 })
  expect((await refusalOf(spend(third, { tokens: 3 }))).data.reason).toBe('budget_exhausted')
})

test('a call that is made again under its key is counted once', async () => {
  const todo = await claimed({ tokens: 10 })
  const once = { tokens: 4, key: 'k1' }
  const first = await spend(todo, once)
  expect(await spend(todo, once)).toEqual(first)
  await Promise.all(Array.from({ length: 5 }, () => spend(todo, { tokens: 2, key: 'k2' })))
  expect((await shown(todo.id)).spent).toEqual({ tokens: 6 })
  // Keys are those of one claim: the next one does not meet them.
  await worker.call('todos.release', todo.held)
  const again = await claim()
  expect(await spend(again, once)).toMatchObject({ spent: { tokens: 10 } })
  // The end, too, is told again to whoever missed it.
  const last = { tokens: 1, key: 'k3' }
  for (const _ of [1, 2]) {
    expect((await refusalOf(spend(again, last))).data.reason).toBe('budget_exhausted')
  }
  expect((await shown(todo.id)).spent).toEqual({ tokens: 11 })
})

test('the last twenty keys are remembered', async () => {
  const todo = await claimed({ calls: 100 })
  for (let n = 0; n <= 20; n++) await spend(todo, { calls: 1, key: `k${n}` })
  expect(await spend(todo, { calls: 1, key: 'k1' })).toMatchObject({ spent: { calls: 21 } })
  expect(await spend(todo, { calls: 1, key: 'k0' })).toMatchObject({ spent: { calls: 22 } })
  await worker.call('todos.complete', todo.held)
})

test('children share what their parent has left, and count for all above them', async () => {
  const todo = await claimed({ tokens: 100, calls: 5 })
  await spend(todo, { tokens: 20 })
  const [all, some] = await fork(todo, {}, { budget: { tokens: 30 } })
  expect(all!.budget).toEqual({ tokens: 80, calls: 5 })
  expect(some!.budget).toEqual({ tokens: 30, calls: 5 })
  expect(await spend(all!, { tokens: 60 })).toEqual({
    spent: { tokens: 60 },
    left: { tokens: 20, calls: 5 },
  })
  // It is within its own, and within what is left above it.
  expect(await spend(some!, { tokens: 15 })).toMatchObject({ left: { tokens: 5 } })
  expect((await shown(todo.id)).spent).toEqual({ tokens: 95 })
  // Within its own, and not within its parent's.
  const refusal = await refusalOf(spend(some!, { tokens: 6 }))
  expect(refusal.data).toMatchObject({ reason: 'budget_exhausted', refused: ['tokens'] })
  expect(refusal.message).toContain('101 of 100 tokens of the task it belongs to')
  expect((await shown(some!.id)).state).toBe('failed')
  expect((await shown(todo.id)).spent).toEqual({ tokens: 101 })
  // The parent may go on with what costs nothing, and ends where it spends more.
  expect(await spend(todo, { calls: 1 }).catch(({ error }) => error.data.reason)).toBe(
    'budget_exhausted',
  )
})

test('generations: a grandchild spends for all, and a child of a child may not have more than is left', async () => {
  const todo = await claimed({ cents: 10 })
  const [child] = await fork(todo, { budget: { cents: 8 } })
  const [grandchild] = await fork(child!, {})
  expect(grandchild!.budget).toEqual({ cents: 8 })
  await spend(grandchild!, { cents: 5 })
  const spent = await Promise.all([todo, child!].map(async ({ id }) => (await shown(id)).spent))
  expect(spent).toEqual([{ cents: 5 }, { cents: 5 }])
  const refusal = await refusalOf(fork(child!, { budget: { cents: 4 } }))
  expect(refusal).toMatchObject({
    code: -32011,
    data: { reason: 'forbidden', refused: ['cents'] },
    message: 'The budget has no more to give than 3 cents',
  })
  const [free] = await fork(await claimed({ tokens: 1 }), { budget: { cents: 1_000 } })
  expect(free!.budget).toEqual({ tokens: 1, cents: 1_000 })
  // Killed by its own budget, a child ends alone.
  await refusalOf(spend(free!, { tokens: 2 }))
  expect((await shown(free!.id)).result.detail).toBe('spent 2 of 1 tokens')
})

test("an operator's retry of a child has no more than its parent has left", async () => {
  const todo = await claimed({ tokens: 100 })
  const [child] = await fork(todo, { budget: { tokens: 50 } })
  await refusalOf(spend(child!, { tokens: 60 }))
  const { budget } = await operate(app, 'todos.retry', { id: child!.id })
  expect(budget).toEqual({ tokens: 40 })
})

test('without a budget it is only counted', async () => {
  await a2a.submit('x')
  const todo = await claim()
  expect(todo.budget).toBeUndefined()
  expect(await spend(todo, { tokens: 1_000_000_000_000 })).toEqual({
    spent: { tokens: 1_000_000_000_000 },
    left: {},
  })
  // A sum stops at the last whole number that every reader has.
  await app.sql(`update todos set spent = '{"tokens": 9007199254740990}' where id = $1`, [todo.id])
  expect(await spend(todo, { tokens: 5 })).toMatchObject({
    spent: { tokens: Number.MAX_SAFE_INTEGER },
  })
  await worker.call('todos.complete', todo.held)
})

test.each([
  ['nothing', {}],
  ['another kind', { euros: 1 }],
  ['part of one', { tokens: 1.5 }],
  ['less than nothing', { tokens: -1 }],
  ['a text', { tokens: '1' }],
  ['too much', { tokens: 1_000_000_000_001 }],
  ['no object', 7],
])('what is no budget is refused where it is sent, forked and spent: %s', async (_, given) => {
  const answer = await send(given)
  expect(answer.error).toMatchObject({ code: -32602 })
  expect(JSON.stringify(answer.error)).toContain('metadata.urn:switchboard:budget')
  await a2a.submit('x')
  const todo = await claim()
  const forked = await refusalOf(fork(todo, { budget: given }))
  expect(forked.data.violations[0].field).toMatch(/^children\[0\]\.budget/)
  if (typeof given === 'object') {
    expect((await refusalOf(spend(todo, given))).data.reason).toBe('invalid')
  }
  const sent = await refusalOf(
    operate(app, 'todos.send', { queue: 'desk', message: saying('x'), budget: given }),
  )
  expect(sent.data.violations[0].field).toMatch(/^budget/)
  await worker.call('todos.complete', todo.held)
})

test('the command line sends a budget and shows what was spent', async () => {
  const env = { SWITCHBOARD_URL: app.url, SWITCHBOARD_ADMIN_TOKEN: ADMIN_TOKEN }
  const budget = ['--budget', 'tokens=20,calls=3', '--budget', 'cents=9']
  const { stdout } = await runCli(['send', 'desk', 'x', '--no-wait', ...budget], { env })
  const todo = await claim()
  expect(stdout.trim()).toBe(todo.id)
  expect(todo.budget).toEqual({ tokens: 20, cents: 9, calls: 3 })
  await spend(todo, { tokens: 5 })
  const show = await runCli(['show', todo.id], { env })
  expect(show.stdout).toMatch(/spent +5 of 20 tokens, 0 of 9 cents, 0 of 3 calls/)
  const wrong = await runCli(['send', 'desk', 'x', '--budget', 'euros=1'], { env })
  expect(wrong.code).toBe(2)
  expect(wrong.stderr).toContain('tokens=n, cents=n, calls=n')
  await worker.call('todos.complete', todo.held)
})

test('the board shows what was spent of a budget', async () => {
  const todo = await claimed({ tokens: 20 })
  await spend(todo, { tokens: 5 })
  const answer = await fetch(`${app.url}/board/todos?lane=held`, {
    headers: { authorization: `Bearer ${ADMIN_TOKEN}` },
  })
  const { todos } = (await answer.json()) as Answer
  expect(todos.find(({ id }: Answer) => id === todo.id).spent).toBe('5 of 20 tokens')
  await worker.call('todos.complete', todo.held)
})

test('a handler of the kit is stopped at the end of its budget, and never tried again', async () => {
  const log = { debug() {}, info() {}, warn() {}, error() {} }
  const seen: unknown[] = []
  const kit = createAgent({ url: app.url, token: agent.token, log }, async (ctx) => {
    const { signal } = ctx
    seen.push(await ctx.spend({ tokens: 7 }))
    seen.push(await ctx.spend({ tokens: 7 }).catch((error: unknown) => error))
    seen.push(signal.aborted && (signal.reason as { reason: string }).reason)
    seen.push(await ctx.say('on it').catch((error: Error) => error.name))
  })
  const { result } = await send({ tokens: 10 })
  kit.start()
  await until(() => seen.length === 4)
  await kit.stop()
  expect(seen).toEqual([
    { spent: { tokens: 7 }, left: { tokens: 3 } },
    expect.any(BudgetExhausted),
    'budget_exhausted',
    'AbortError',
  ])
  expect(seen[1]).toMatchObject({ code: 'budget_exhausted', kinds: ['tokens'] })
  expect((await shown(result.task.id)).attempts).toHaveLength(1)
})
