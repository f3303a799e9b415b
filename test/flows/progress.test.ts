// The lease says that the process lives, progress says that the work moves (docs/lifecycle.md).
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { afterEach, expect, test } from 'vitest'
import { type Agent, type AgentOptions, createAgent } from '../../src/agent-kit/agent.ts'
import type { Handler } from '../../src/agent-kit/attempt.ts'
import { runCli } from '../cli/run.ts'
import { ADMIN_TOKEN, type App, startApp } from '../support/app.ts'
import { a2aClient, agentClient } from '../support/clients/actors.ts'
import { killed, ROOT } from '../support/process/child.ts'
import { childArgs } from '../support/process/child-args.ts'
import { ask, attemptsOf, makeDue, metric, operate } from '../support/steps.ts'
import { until } from '../support/until.ts'

const app = await startApp()
const { client, agent } = await app.queue('desk', { contexts: 'parallel' })
const a2a = a2aClient(app.url, 'desk', client.token)
const worker = agentClient(app.url, agent.token)

const agents: Agent[] = []
afterEach(async () => {
  await Promise.all(agents.splice(0).map((each) => each.stop({ graceMs: 0 })))
  // A claim whose caller has hung up can be handed a todo until it is known, and gives it back then.
  await until(async () => (await metric(app, 'switchboard_waiting_claims')) === 0)
})
const log = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }
const start = (handler: Handler, options: Partial<AgentOptions> = {}): void => {
  const started = createAgent({ url: app.url, token: agent.token, log, ...options }, handler)
  agents.push(started)
  started.start()
}

/** As the database has it, to the microsecond. */
const timesOf = async (id: string) =>
  (
    await app.sql<{ progress: string; beat: string | null }>(
      'select progress_at::text as progress, last_heartbeat_at::text as beat from todos where id = $1',
      [id],
    )
  )[0]!

const fallSilent = ({ sql }: Pick<App, 'sql'>, id: string, seconds: number) =>
  sql(`update todos set progress_at = now() - make_interval(secs => $2) where id = $1`, [
    id,
    seconds,
  ])

test("the lease's own heartbeats never count as progress, however many there are; each sign of progress does", async () => {
  let next: (() => void) | undefined
  const turn = () =>
    new Promise<void>((resolve) => {
      next = resolve
    })
  start(
    async (ctx) => {
      await turn()
      await ctx.progress('moving')
      await turn()
      await ctx.say('moving')
      await turn()
      await ctx.artifact({ parts: [{ text: 'x' }] })
      await turn()
      await ctx.tool('oven', { timeoutMs: 30_000, heartbeatMs: 50 }, turn)
    },
    { leaseSeconds: 1 },
  )
  const { id } = await a2a.submit('x')
  await until(() => next)
  const go = () => {
    const resume = next
    next = undefined
    resume?.()
  }
  const claimed = (await timesOf(id)).progress
  let beat: string | null = null
  for (let beats = 0; beats < 4; beats += 1) {
    const last: string | null = beat
    beat = await until(async () => {
      const now: string | null = (await timesOf(id)).beat
      return now === last ? null : now
    })
    expect((await timesOf(id)).progress).toBe(claimed)
  }

  let before = claimed
  for (const sign of ['progress', 'say', 'artifact']) {
    go()
    await until(async () => (await timesOf(id)).progress > before, { what: sign })
    await until(() => next)
    before = (await timesOf(id)).progress
  }
  go()
  // A tool that stamps while it runs.
  await until(() => next)
  for (let stamps = 0; stamps < 3; stamps += 1) {
    const last: string = (await timesOf(id)).progress
    await until(async () => (await timesOf(id)).progress > last, { what: 'a stamp in between' })
  }
  go()
  await until(async () => (await a2a.get(id)).status.state === 'TASK_STATE_COMPLETED')
  const { events } = await operate(app, 'todos.show', { id })
  const notes = events
    .filter(({ verb }: { verb: string }) => verb === 'progress')
    .map(({ detail }: { detail: { note: string } }) => detail.note)
  expect(notes.length).toBeGreaterThanOrEqual(6)
  expect(new Set(notes)).toEqual(new Set(['moving', 'tool: oven']))
})

test('the idle age of a claimed todo is in show and lists, by the clock of the database, and gone once it moves', async () => {
  const { id } = await a2a.submit('x')
  const shown = async () => (await operate(app, 'todos.show', { id })).idleSeconds
  expect(await shown()).toBeNull()
  const todo = await worker.claim()
  expect(await shown()).toBeLessThan(30)
  await fallSilent(app, id, 90)
  expect(await shown()).toBeGreaterThanOrEqual(90)
  expect(await shown()).toBeLessThan(120)
  const { todos } = await operate(app, 'todos.list', { queue: 'desk', state: 'claimed' })
  expect(todos).toMatchObject([{ id, idleSeconds: expect.any(Number) }])
  expect(todos[0].idleSeconds).toBeGreaterThanOrEqual(90)

  const oldest = () => metric(app, 'switchboard_queue_oldest_idle_seconds{queue="desk"}')
  expect(await oldest()).toBeGreaterThanOrEqual(90)
  await worker.call('todos.heartbeat', todo.held)
  expect(await oldest()).toBeGreaterThanOrEqual(90)
  await worker.call('todos.progress', { ...todo.held, note: 'moving' })
  expect(await oldest()).toBeLessThan(30)
  expect(await shown()).toBeLessThan(30)

  // A question is not the holder's silence.
  await fallSilent(app, id, 90)
  await ask(worker, todo, 'really?')
  expect(await shown()).toBeNull()
  expect(await oldest()).toBe(0)
  await a2a.submit('yes', { taskId: id })
  expect(await shown()).toBeLessThan(30)
  const [{ seq }] = (await worker.call('todos.messages', todo.held)).messages
  await worker.call('todos.complete', { ...todo.held, acknowledge: seq })
  expect(await shown()).toBeNull()
  expect(await oldest()).toBe(0)
})

test('the command line tells an idle age past 30 s in its list, in show, and once in watch', async () => {
  const { id } = await a2a.submit('quiet')
  const todo = await worker.claim({ claimant: 'box-7' })
  const env = { SWITCHBOARD_URL: app.url, SWITCHBOARD_TOKEN: ADMIN_TOKEN }
  const list = async () => (await runCli(['list', '--queue', 'desk'], { env })).stdout
  await fallSilent(app, id, 10)
  expect(await list()).not.toContain('idle')
  await fallSilent(app, id, 75)
  expect(await list()).toMatch(/claimed, idle 1m \d+s/)
  expect((await runCli(['show', id], { env })).stdout).toMatch(/progress .*, idle 1m \d+s/)

  const words = [...childArgs('src/cli/main.ts'), 'watch', '--queue', 'desk']
  const child = spawn(process.execPath, words, {
    cwd: ROOT,
    env: { PATH: process.env.PATH, SWITCHBOARD_DATA_DIR: '/nonexistent', ...env },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  try {
    const lines: string[] = []
    createInterface({ input: child.stdout }).on('line', (line) => lines.push(line))
    await until(() => lines.length > 0)
    expect(lines[0]).toMatch(
      new RegExp(`^[\\d:]{8}  desk  ${id.slice(-8)}  idle 1m \\d+s  held by box-7$`),
    )
    // It says what happens as well, and ends when it is told to.
    const others: string[] = []
    await until(async () => {
      others.push((await a2a.submit('loud')).id)
      return lines.some((line) => line.includes('new -> pending  loud'))
    })
    for (const other of others) await operate(app, 'todos.cancel', { id: other })
    expect(lines.filter((line) => line.includes('  idle '))).toHaveLength(1)
    const exit = once(child, 'exit')
    child.kill('SIGTERM')
    expect(await exit).toEqual([0, null])
  } finally {
    await killed(child)
  }
  await worker.call('todos.complete', todo.held)
})

test('a wedged handler is noticed once, in its own process, and its todo is tried again', async () => {
  let attempts = 0
  start(
    ({ todo }) => {
      attempts += 1
      return todo.attempt === 1 ? new Promise<never>(() => {}) : 'fine now'
    },
    { silenceMs: 200 },
  )
  const { id } = await a2a.submit('x')
  await until(async () => (await attemptsOf(app, id))[0]?.endedAt)
  expect(await attemptsOf(app, id)).toMatchObject([
    { outcome: 'failed', disposition: 'retry_scheduled', cause: 'silence', died: false },
  ])
  await makeDue(app, id)
  await until(async () => (await a2a.get(id)).status.state === 'TASK_STATE_COMPLETED')
  expect(attempts).toBe(2)
})
