/**
 * An attempt that never started: its claim was made, nothing came from its holder afterwards, and its
 * lease ran out. It is marked, and once in a row it does not count.
 *
 * Field case: a claim lost on its way.
 */
import net from 'node:net'
import { expect, test } from 'vitest'
import { createAgent } from '../../src/agent-kit/agent.ts'
import { resultOf, rowOf, startQuiet } from '../interrupts/support.ts'
import { type Answer, a2aClient, agentClient } from '../support/clients/actors.ts'
import { openLink } from '../support/network/link.ts'
import { attemptsOf, lapseLease, loseClaim, metric, operate, saying } from '../support/steps.ts'
import { scaled } from '../support/timeouts.ts'
import { until } from '../support/until.ts'

const app = await startQuiet()

/** Where a holder may fork to; nobody claims there. */
const PARTS = 'parts'
await app.queue(PARTS)

const desk = async (policy: Record<string, unknown> = {}) => {
  const name = `q-${crypto.randomUUID().slice(0, 8)}`
  const { client } = await app.queue(name, { contexts: 'parallel', ...policy })
  const agent = await app.vend(['work', 'send'], [name, PARTS])
  const a2a = a2aClient(app.url, name, client.token)
  return { name, a2a, token: agent.token, worker: agentClient(app.url, agent.token) }
}
type Desk = Awaited<ReturnType<typeof desk>>

/** How the lease of a holder that is gone comes to its end. */
const WAYS = ['the reaper', 'the next claim'] as const
type Way = (typeof WAYS)[number]

/** Takes back what is lapsed; a claim that takes it over is the next attempt at once. */
const takeBack = async (way: Way, here: Desk): Promise<Answer | null> => {
  if (way === 'the reaper') {
    await app.sweep.reap()
    return null
  }
  return (await here.worker.call('todos.claim', { queues: [here.name] })).todos[0] ?? null
}

/** The next attempt, where there is one. */
const nextAttempt = async (way: Way, here: Desk): Promise<Answer | null> =>
  (await takeBack(way, here)) ??
  (await here.worker.call('todos.claim', { queues: [here.name] })).todos[0] ??
  null

const causesOf = async (id: string): Promise<unknown[]> =>
  (await attemptsOf(app, id)).map(({ cause, died }) => [cause, died])

const unstarted = ({ name }: Desk) =>
  metric(app, `switchboard_attempts_never_started_total{queue="${name}"}`)

test.each(WAYS)(
  'a claim whose answer is cut off is marked as never started and costs no attempt, by %s',
  async (way) => {
    const here = await desk({ maxAttempts: 1 })
    const { port, hostname } = new URL(app.url)
    const link = await openLink(() => net.connect(Number(port), hostname))
    const { id } = await here.a2a.submit('x')
    link.loseAnswers(1, (answer) => answer.includes('HTTP/1.1 200'))
    const far = agentClient(`http://127.0.0.1:${link.port}`, here.token)
    await expect(far.call('todos.claim', { queues: [here.name] })).rejects.toThrow()
    expect(link.lost()).toBe(1)
    expect(await rowOf(app, id)).toMatchObject({ state: 'claimed', attempt: 1 })

    await loseClaim(app, id)
    const todo = await nextAttempt(way, here)
    expect(todo).toMatchObject({ id, attempt: 1, attemptsTotal: 2, fence: '2' })
    expect(await attemptsOf(app, id)).toMatchObject([
      {
        outcome: way === 'the reaper' ? 'reaped' : 'lease_expired',
        disposition: 'requeued',
        cause: 'never_started',
        died: true,
        attempt: 1,
      },
      { outcome: null, attempt: 1 },
    ])
    expect(await unstarted(here)).toBe(1)
    const lapsed = `switchboard_todo_leases_expired_total{queue="${here.name}"}`
    expect(await metric(app, lapsed)).toBe(1)
    await here.worker.call('todos.complete', { id, fence: todo!.fence })
    await link.close()
  },
)

test.each(WAYS)(
  'a todo whose agents die as they begin is not tried for ever, by %s',
  async (way) => {
    const here = await desk({ maxAttempts: 3 })
    const { id } = await here.a2a.submit('poison')
    let todo: Answer | null = await here.worker.claim({ queues: [here.name] })
    const numbers: number[] = []
    while (todo) {
      numbers.push(todo.attempt)
      expect(numbers.length).toBeLessThan(10)
      await loseClaim(app, id)
      todo = await nextAttempt(way, here)
    }
    // The first is given back, those behind it are not.
    expect(numbers).toEqual([1, 1, 2, 3])
    await app.sweep.reap()
    expect(await rowOf(app, id)).toMatchObject({ state: 'failed', attempt: 3, next_retry_at: null })
    expect(await resultOf(app, id)).toMatchObject({ error: 'lease_expired' })
    expect(await causesOf(id)).toEqual(Array(4).fill(['never_started', true]))
    expect(await unstarted(here)).toBe(4)
  },
)

/** Whatever the holder may do and keep its todo. */
const SIGNS: Record<
  string,
  (call: (method: string, params?: object) => Promise<unknown>) => unknown
> = {
  heartbeat: (call) => call('todos.heartbeat'),
  progress: (call) => call('todos.progress'),
  say: (call) => call('todos.say', { message: saying('on it') }),
  artifact: (call) =>
    call('todos.artifact', { artifact: { artifactId: 'a', parts: [{ text: 'x' }] } }),
  fork: (call) =>
    call('todos.fork', { children: [{ queue: PARTS, message: { parts: [{ text: 'part' }] } }] }),
  acknowledge: (call) => call('todos.acknowledge', { through: 1000 }),
  // An answer that nobody reacts to is another story: test/interrupts/lost-holders.test.ts.
  'a question, and a word once it was answered': async (call) => {
    await call('todos.interrupt', { state: 'input-required', message: saying('?') })
    await answerAll()
    await call('todos.progress')
  },
}

const answerAll = async (): Promise<void> => {
  const asking = await app.sql<{ id: string }>(
    `select id from todos where state = 'input-required'`,
  )
  for (const { id } of asking) await operate(app, 'todos.answer', { id, message: saying('yes') })
}

for (const [name, sign] of Object.entries(SIGNS)) {
  test.each(WAYS)(`an attempt that showed itself by ${name} counts, by %s`, async (way) => {
    const here = await desk({ maxAttempts: 2 })
    const { id } = await here.a2a.submit('x')
    const { held } = await here.worker.claim({ queues: [here.name] })
    await sign((method, params = {}) => here.worker.call(method, { ...held, ...params }))
    // Nothing but its lease: what has come from the holder stands as it came.
    await loseClaim(app, id)
    const todo = await nextAttempt(way, here)
    expect(todo).toMatchObject({ id, attempt: 2 })
    const cause = way === 'the reaper' ? 'lease_expired' : null
    expect((await causesOf(id))[0]).toEqual([cause, true])
    expect(await unstarted(here)).toBe(0)
    await operate(app, 'todos.cancel', { id })
  })
}

test.each(WAYS)(
  'one that starts ends the row: the next lost claim is given back again, by %s',
  async (way) => {
    const here = await desk({ maxAttempts: 2 })
    const { id } = await here.a2a.submit('x')
    await here.worker.claim({ queues: [here.name] })
    await loseClaim(app, id)
    const worked = await nextAttempt(way, here)
    expect(worked).toMatchObject({ attempt: 1 })
    await lapseLease(app, id)
    const lost = await nextAttempt(way, here)
    expect(lost).toMatchObject({ attempt: 2 })
    await loseClaim(app, id)
    // At its cap, and not over.
    const last = await nextAttempt(way, here)
    expect(last).toMatchObject({ attempt: 2, attemptsTotal: 4 })
    await lapseLease(app, id)
    expect(await nextAttempt(way, here)).toBeNull()
    await app.sweep.reap()
    expect(await rowOf(app, id)).toMatchObject({ state: 'failed', attempt: 2 })
  },
)

test('the kit says soon that it has begun, so that a process that dies later has used its attempt', async () => {
  const here = await desk({ maxAttempts: 2 })
  let begin: () => void = () => {}
  const began = new Promise<void>((resolve) => {
    begin = resolve
  })
  const agent = createAgent(
    { url: app.url, token: here.token, queues: [here.name] },
    async ({ signal }) => {
      begin()
      await new Promise((resolve) => signal.addEventListener('abort', resolve))
    },
  )
  const { id } = await here.a2a.submit('x')
  agent.start()
  await began
  expect(await rowOf(app, id)).toMatchObject({ state: 'claimed', attempt: 1 })
  await until(async () => {
    const [attempt] = await attemptsOf(app, id)
    return Date.parse(attempt.lastHeartbeatAt) > Date.parse(attempt.claimedAt)
  })
  // Long before the first renewal of its lease, a third of it after the claim.
  const [{ claimedAt, lastHeartbeatAt }] = (await attemptsOf(app, id)) as [Answer]
  expect(Date.parse(lastHeartbeatAt) - Date.parse(claimedAt)).toBeLessThan(scaled(5000))
  await agent.stop({ graceMs: 0 })
})

test('of many who look at once one takes it, and it is given back once', async () => {
  const here = await desk({ maxAttempts: 1 })
  const { id } = await here.a2a.submit('x')
  await here.worker.claim({ queues: [here.name] })
  await loseClaim(app, id)
  const looks = await Promise.all([
    ...Array.from({ length: 6 }, () => here.worker.call('todos.claim', { queues: [here.name] })),
    ...Array.from({ length: 3 }, () => app.sweep.reap().then(() => ({ todos: [] }))),
  ])
  const [taken, ...more] = looks.flatMap(({ todos }) => todos)
  const todo = taken ?? (await here.worker.claim({ queues: [here.name] }))
  expect(more).toEqual([])
  expect(todo).toMatchObject({ id, attempt: 1, attemptsTotal: 2 })
  expect(await rowOf(app, id)).toMatchObject({ attempt: 1, attempts_total: 2 })
})

test('why says where it goes as long as nothing has come, and where it goes then', async () => {
  const here = await desk({ maxAttempts: 1 })
  const { id } = await here.a2a.submit('x')
  const why = async (): Promise<string> => (await operate(app, 'todos.why', { id })).why
  const { held } = await here.worker.claim({ queues: [here.name] })
  expect(await why()).toMatch(/without a heartbeat by \S+ it goes back to its queue/)
  await here.worker.call('todos.heartbeat', held)
  expect(await why()).toMatch(/without a heartbeat by \S+ it ends as a dead letter/)
  await here.worker.call('todos.release', held)
  await here.worker.claim({ queues: [here.name] })
  await loseClaim(app, id)
  await here.worker.claim({ queues: [here.name] })
  // The second in a row.
  expect(await why()).toMatch(/without a heartbeat by \S+ it ends as a dead letter/)
})
