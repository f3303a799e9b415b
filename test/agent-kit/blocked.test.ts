/**
 * Handlers that keep the event loop to themselves, in a process of their own: this one has the server.
 *
 * Field cases: a handler that computes for longer than its lease.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import fs from 'node:fs'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { afterEach, expect, test } from 'vitest'
import { startApp } from '../support/app.ts'
import { type Answer, a2aClient, agentClient } from '../support/clients/actors.ts'
import { killed, makeFolder, ROOT } from '../support/process/child.ts'
import { childArgs } from '../support/process/child-args.ts'
import { attemptsOf } from '../support/steps.ts'
import { until } from '../support/until.ts'

/** The reaper takes a lapsed lease at once, so that a lease that was not renewed shows. */
const app = await startApp({ reapMs: 100 })

const children: ChildProcess[] = []
afterEach(() => Promise.all(children.splice(0).map(killed)))

const FILE = 'test/support/process/busy-child.ts'

const desk = async () => {
  const name = `q-${randomUUID().slice(0, 8)}`
  const backoff = { initialSeconds: 1, factor: 1, maxSeconds: 1, jitter: 0 }
  const { client, agent } = await app.queue(name, { contexts: 'parallel', backoff })
  const a2a = a2aClient(app.url, name, client.token)
  return {
    a2a,
    token: agent.token,
    work: (options: object, args = [...childArgs(FILE)], kit: string[] = []) => {
      const words = [...args, app.url, agent.token, JSON.stringify(options), ...kit]
      const child = spawn(process.execPath, words, {
        cwd: ROOT,
        stdio: ['pipe', 'pipe', 'inherit'],
      })
      children.push(child)
      const told: Answer[] = []
      createInterface({ input: child.stdout! }).on('line', (line) => told.push(JSON.parse(line)))
      const find = (fits: (line: Answer) => boolean, what: string): Promise<Answer> =>
        until(() => told.find(fits) ?? false, { what })
      return {
        child,
        told,
        began: (what: string) => find(({ began }) => began === what, `${what} began`),
        logged: (text: string) => find((line) => line.text?.includes(text), `“${text}” is logged`),
      }
    },
    done: (id: string) =>
      until(
        async () => {
          const task = await a2a.get(id)
          return task.status.state === 'TASK_STATE_COMPLETED' && task.status.message.parts[0].text
        },
        { what: 'the task is done' },
      ),
  }
}
type Desk = Awaited<ReturnType<typeof desk>>

const submitted = async ({ a2a }: Desk, text: string): Promise<string> =>
  (await a2a.submit(text)).id

const LEASE = { leaseSeconds: 2 }

test('a handler that computes for longer than its lease, its neighbor and what is claimed meanwhile are done with one attempt each', async () => {
  const here = await desk()
  const neighbor = await submitted(here, 'wait 6000')
  const agent = here.work({ ...LEASE, concurrency: 3 })
  await agent.began('wait')
  const busy = await submitted(here, 'compute 5000')
  await agent.began('compute')
  const meanwhile = await submitted(here, 'return')
  await until(
    async () =>
      (await app.sql('select state from todos where id = $1', [meanwhile]))[0]?.state === 'claimed',
    { what: 'it is claimed while nobody can hear of it' },
  )
  expect(agent.told.some(({ began }) => began === 'return')).toBe(false)
  expect(await here.done(busy)).toBe('done: compute')
  expect(await here.done(meanwhile)).toBe('done: return')
  expect(await here.done(neighbor)).toBe('done: wait')
  for (const id of [busy, neighbor, meanwhile]) {
    expect(await attemptsOf(app, id)).toMatchObject([{ attempt: 1, outcome: 'completed' }])
  }

  const warning = await agent.logged('the event loop was blocked')
  expect(warning).toMatchObject({ level: 'warn', facts: { todo: busy, handler: 'work' } })
  expect(warning.facts.blockedMs).toBeGreaterThan(3000)
  expect(warning.facts.todos.map(({ id }: Answer) => id)).toEqual(
    expect.arrayContaining([busy, neighbor]),
  )
})

test('past maxBlockedMs its leases lapse, others take over, and the loss is a warning', async () => {
  const here = await desk()
  const id = await submitted(here, 'compute 5000')
  const agent = here.work({ leaseSeconds: 1, maxBlockedMs: 1000 })
  await agent.began('compute')
  const other = agentClient(app.url, here.token)
  const taken = await other.claim({ leaseSeconds: 600 })
  expect(taken).toMatchObject({ id, attempt: 2, priorAttempts: [{ died: true }] })
  await other.call('todos.complete', taken.held)
  const lost = await agent.logged('lease was lost')
  expect(lost).toMatchObject({ level: 'warn', facts: { todo: id, attempt: 1 } })
})

test('where the thread cannot run the agent goes on without, and says so', async () => {
  const here = await desk()
  // The sources of the kit without the thread's file, as a bundler would leave it behind.
  const folder = makeFolder()
  fs.cpSync(path.join(ROOT, 'src/agent-kit'), path.join(folder, 'src/agent-kit'), {
    recursive: true,
  })
  fs.cpSync(path.join(ROOT, 'src/base'), path.join(folder, 'src/base'), { recursive: true })
  fs.rmSync(path.join(folder, 'src/agent-kit/lease/thread.ts'))
  fs.symlinkSync(path.join(ROOT, 'node_modules'), path.join(folder, 'node_modules'))
  fs.writeFileSync(path.join(folder, 'package.json'), '{"type":"module"}')
  const kit = path.join(folder, 'src/agent-kit/agent.ts')
  const id = await submitted(here, 'wait 3000')
  const agent = here.work(LEASE, ['--import', 'tsx', FILE], [kit])
  expect(await here.done(id)).toBe('done: wait')
  expect(await attemptsOf(app, id)).toMatchObject([{ attempt: 1, outcome: 'completed' }])
  expect(await agent.logged('no thread for the leases')).toMatchObject({ level: 'warn' })
})

test('the thread ends with its agent: the process ends by itself', async () => {
  const here = await desk()
  const id = await submitted(here, 'return')
  const { child, told } = here.work(LEASE)
  await here.done(id)
  const exit = once(child, 'exit')
  child.stdin!.end()
  expect(await exit).toEqual([0, null])
  expect(told.at(-1)).toEqual({ stopped: true })
})
