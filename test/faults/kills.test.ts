/**
 * The guarantees of docs/design/lifecycle-layer.md, section 9: real processes, killed while tasks
 * flow through them. Nobody keeps count meanwhile; afterwards the log, what the agents wrote down
 * with their fences and what the clients were told and read must agree (support/checker.ts).
 *
 * What is drawn depends on the seed, what it meets on the moment: KILLS_SEED repeats the former.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { hostname } from 'node:os'
import { createInterface } from 'node:readline'
import { setTimeout as pause } from 'node:timers/promises'
import { afterAll, expect, test } from 'vitest'
import { startApp, startNode } from '../support/app.ts'
import {
  checkLog,
  checkStream,
  checkTold,
  type Log,
  readLog,
  type Told,
} from '../support/checker.ts'
import {
  type Answer,
  a2aClient,
  agentClient,
  resumeAfter,
  textMessage,
} from '../support/clients/actors.ts'
import { withClient } from '../support/database/database.ts'
import { startOwnPostgres } from '../support/database/own-postgres.ts'
import { type Load, startLoad } from '../support/network/load.ts'
import { killed, ROOT } from '../support/process/child.ts'
import { childArgs } from '../support/process/child-args.ts'
import { serveProcess } from '../support/process/serve-process.ts'
import { randomOf } from '../support/seeded.ts'
import { ask, nextOf, operate, statesOf } from '../support/steps.ts'
import type { Step } from '../support/tale.ts'
import { until } from '../support/until.ts'

const SEED = Number(process.env.KILLS_SEED ?? Date.now() % 1_000_000)
const hint = `KILLS_SEED=${SEED}`
const KILLS = 10
/** Of them, those before which the process is only stopped, and comes back from the dead. */
const GHOSTS = [2, 5, 8]
/** No todo may run out of attempts: what dies here is the agent, not the work. */
const POLICY = { maxAttempts: 100 }

type Sql = (text: string, values?: unknown[]) => Promise<Answer[]>

/* ------------------------------------------------------------- agents */

interface AgentProcess {
  child: ChildProcess
  /** The label its attempts carry. */
  claimant: string
  loaded: Promise<unknown>
}

const children: ChildProcess[] = []
afterAll(() => Promise.all(children.map(killed)))

/** Agent processes of one queue, and all that they have told. */
const startCrew = (url: string, token: string, size: number) => {
  const steps: (Step & { claimant: string })[] = []
  const watchers = new Set<() => void>()

  const load = (): AgentProcess => {
    const words = [...childArgs('test/support/process/steps-child.ts'), url, token]
    const child = spawn(process.execPath, words, {
      cwd: ROOT,
      stdio: ['pipe', 'pipe', 'inherit'],
    })
    children.push(child)
    child.stdin!.on('error', () => {})
    const claimant = `${hostname()}:${child.pid}`
    const lines = createInterface({ input: child.stdout! })
    lines.on('line', (line) => {
      if (line === 'loaded') return
      steps.push({ ...JSON.parse(line), claimant })
      for (const watcher of watchers) watcher()
    })
    return { child, claimant, loaded: once(lines, 'line') }
  }
  // Loading takes longer than dying: some are always ready.
  const ready = Array.from({ length: Math.min(3, size) }, load)
  let left = size - ready.length

  return {
    steps,
    begin: async (): Promise<AgentProcess> => {
      const agent = ready.shift()!
      if (left > 0) ready.push(load())
      left -= 1
      await agent.loaded
      agent.child.stdin!.write('begin\n')
      return agent
    },
    /** Sends the signal at the very step that fits, the `count`-th of them. */
    signalAt: (
      { child, claimant }: AgentProcess,
      signal: NodeJS.Signals,
      count: number,
      fits: (step: Step) => boolean,
    ): Promise<void> =>
      new Promise((resolve) => {
        let seen = 0
        const watcher = (): void => {
          const last = steps.at(-1)!
          if (last.claimant !== claimant || !fits(last)) return
          seen += 1
          if (seen < count) return
          watchers.delete(watcher)
          child.kill(signal)
          resolve()
        }
        watchers.add(watcher)
      }),
  }
}

type Crew = ReturnType<typeof startCrew>

/**
 * Time passes for what nobody works on any more, and for nothing else: of dead agents, given up, or
 * claimed by a statement whose answer the crash of the database has swallowed.
 */
const startClock = (sql: Sql, crew: Crew, dead: Set<string>) => {
  let running = true
  const run = async (): Promise<void> => {
    while (running) {
      const threw = crew.steps.filter(({ what }) => what === 'threw')
      const told = crew.steps.filter(({ what }) => what === 'claimed')
      await sql(
        `update todos set next_retry_at = case when next_retry_at is not null then now() end,
           lease_expires_at = case when state = 'claimed' then now() - interval '1 second'
             else lease_expires_at end
         where next_retry_at > now() or (state = 'claimed' and lease_expires_at > now()
           and (claimant = any($1::text[]) or (id, fence) in (
             select * from unnest($2::uuid[], $3::bigint[]))
           or (updated_at < now() - interval '5 seconds' and (id, fence) not in (
             select * from unnest($4::uuid[], $5::bigint[])))))`,
        [
          [...dead],
          threw.map(({ id }) => id),
          threw.map(({ fence }) => fence),
          told.map(({ id }) => id),
          told.map(({ fence }) => fence),
        ],
      ).catch(() => [])
      await pause(100)
    }
  }
  const ended = run()
  return async (): Promise<void> => {
    running = false
    await ended
  }
}

/* ------------------------------------------------------------- verdict */

/** All that must be true at the end, whatever was killed. */
const judge = (log: Log, load: Load, { steps }: Crew): void => {
  checkLog(log, hint)
  checkTold(log, load.told, hint)
  expect(new Set(load.accepted.map(({ id }) => id)).size, hint).toBe(load.accepted.length)
  expect(log.todos.map(({ id }) => id).sort(), hint).toEqual(
    load.accepted.map(({ id }) => id).sort(),
  )
  const tried = new Set(steps.map(({ id, fence, name }) => `${id} ${fence} ${name}`))
  const wrote = (id: string, { seq }: Answer): string | undefined => {
    const message = log.messages.find((each) => each.todo_id === id && each.seq === seq)
    const artifact = log.artifacts.find((each) => each.todo_id === id && each.seq === seq)
    return artifact?.artifact_id ?? (message?.role === 'agent' ? message.message_id : undefined)
  }
  for (const { id, final, frames } of load.accepted) {
    const what = `${hint}, ${id}`
    const own = log.events.filter((event) => event.todo_id === id)
    const complete = own.filter(({ verb }) => verb === 'complete')
    expect(complete, what).toHaveLength(1)
    const { fence } = complete[0]
    // What its client sees is what the one who completed it wrote.
    expect(final.status, what).toMatchObject({
      state: 'TASK_STATE_COMPLETED',
      message: { messageId: `end-${fence}` },
    })
    // What an agent wrote stands under the fence with which it tried to; what it was told is done
    // stands there.
    const written = new Set<string>()
    for (const event of own) {
      const name = wrote(id, event)
      if (name === undefined) continue
      expect(tried, `${what} ${event.seq}`).toContain(`${id} ${event.fence} ${name}`)
      expect(name, what).toMatch(new RegExp(`-${event.fence}$`))
      written.add(`${event.fence} ${name}`)
    }
    for (const step of steps) {
      if (step.id !== id || step.what !== 'did') continue
      expect(written, `${what} lost`).toContain(`${step.fence} ${step.name}`)
    }
    // Every message that was taken from its client was given to the one who completed.
    const owed = log.messages.filter(({ todo_id, role }) => todo_id === id && role === 'user')
    const given = steps
      .filter((step) => step.id === id && ['got', 'answered'].includes(step.what))
      .filter((step) => step.fence === fence)
      .map(({ name }) => name)
    for (const { message_id } of owed) expect(given, `${what} dropped`).toContain(message_id)
    // And to whoever asked, the answer to that very question.
    for (const step of steps) {
      if (step.id !== id || step.what !== 'answered') continue
      const question = log.messages.find(
        (each) => each.todo_id === id && each.message_id === `ask-${step.fence}`,
      )
      const answer = owed.find(({ message_id }) => message_id === step.name)
      expect(answer?.answers, `${what} ${step.name}`).toBe(question.seq)
    }
    if (frames) checkStream(log, id, frames, hint)
  }
  checkTurns(log, load)
}

/** The tasks of a conversation come to their first claim in the order in which they were sent. */
const checkTurns = ({ events }: Log, { accepted }: Load): void => {
  const first = new Map<string, number>()
  for (const { id, todo_id, verb } of events) {
    if (verb === 'claim' && !first.has(todo_id)) first.set(todo_id, Number(id))
  }
  for (const contextId of new Set(accepted.map((each) => each.contextId))) {
    const sent = accepted.filter((each) => each.contextId === contextId).map(({ id }) => id)
    const turns = sent.toSorted((a, b) => first.get(a)! - first.get(b)!)
    expect(turns, `${hint}, ${contextId}`).toEqual(sent)
  }
}

/* ------------------------------------------------------------- the kills */

test(`an agent killed at ten moments of its work loses nothing and does nothing twice (${hint})`, async () => {
  const app = await startApp({ reapMs: 200, pollMs: 250 })
  const { client, agent } = await app.queue('desk', POLICY)
  const random = randomOf(SEED)
  const crew = startCrew(app.url, agent.token, KILLS + 1)
  const dead = new Set<string>()
  const stopClock = startClock(app.sql, crew, dead)
  const load = startLoad({
    url: app.url,
    queue: 'desk',
    token: client.token,
    seed: SEED,
    conversations: 6,
    each: 5,
  })
  load.done.catch(() => {})

  let current = await crew.begin()
  const ghosts: AgentProcess[] = []
  for (let kill = 0; kill < KILLS; kill += 1) {
    const count = 1 + Math.floor(random() * 12)
    if (GHOSTS.includes(kill)) {
      await crew.signalAt(current, 'SIGSTOP', Math.ceil(count / 3), ({ what }) => what === 'tries')
      const lapsed = await app.sql<{ id: string; fence: string }>(
        `update todos set lease_expires_at = now() - interval '1 second'
         where state = 'claimed' and claimant = $1 returning id, fence`,
        [current.claimant],
      )
      const ghost = current
      ghosts.push(ghost)
      current = await crew.begin()
      await until(
        async () => {
          const rows = await app.sql<{ id: string; fence: string }>('select id, fence from todos')
          const fences = new Map(rows.map(({ id, fence }) => [id, fence]))
          return lapsed.length === 0 || lapsed.some(({ id, fence }) => fences.get(id) !== fence)
        },
        { what: `${hint}: another has taken over from who was stopped` },
      )
      ghost.child.kill('SIGCONT')
      continue
    }
    await crew.signalAt(current, 'SIGKILL', count, () => true)
    for (const { child, claimant } of [current, ...ghosts.splice(0)]) {
      await killed(child)
      dead.add(claimant)
    }
    current = await crew.begin()
  }
  await load.done
  await stopClock()
  const log = await readLog(app.sql)
  judge(log, load, crew)

  // It was not a quiet time.
  const verbs = new Set(log.events.map(({ verb }) => verb))
  for (const verb of ['interrupt', 'message', 'resume']) expect(verbs, hint).toContain(verb)
  const claims = log.events.filter(({ verb }) => verb === 'claim').length
  expect(claims, hint).toBeGreaterThan(load.accepted.length + KILLS / 2)
  expect(load.resumed(), hint).toBeGreaterThan(0)
})

test('a node killed under waiting sends and streams: asked again, another node has every task and its end', async () => {
  const app = await startApp({ reapMs: 3_600_000 })
  const { client, agent } = await app.queue('desk')
  const node = await serveProcess(app.databaseUrl)
  const before = a2aClient(node.url, 'desk', client.token)
  const after = a2aClient(app.url, 'desk', client.token)
  const worker = agentClient(app.url, agent.token)
  const N = 4
  const numbers = Array.from({ length: N }, (_, n) => n)
  const told: Told[] = []

  // Some wait for what becomes of their answer, some of their task, and some read a stream.
  const asked = await Promise.all(numbers.map(() => before.submit('asks')))
  const holders = await Promise.all(numbers.map(() => worker.claim()))
  await Promise.all(holders.map((todo) => ask(worker, todo, '?')))
  const answers = asked.map(({ id }) => textMessage('yes', { taskId: id }))
  const waiting = numbers.map((n) => textMessage('waits', { contextId: `waits-${n}` }))
  const lost = [...answers, ...waiting].map((message) =>
    before.call('SendMessage', { message }).then(
      () => 'answered',
      () => 'lost',
    ),
  )
  const streams = await Promise.all(
    numbers.map((n) =>
      before.stream('SendStreamingMessage', {
        message: textMessage('streams', { contextId: `streams-${n}` }),
      }),
    ),
  )
  const read = await Promise.all(streams.map(async (stream) => [await nextOf(stream)]))
  await until(async () => {
    const [row] = await app.sql<{ sent: number; answered: number }>(
      `select (select count(*)::int from todos) as sent,
         (select count(*)::int from events where verb = 'resume') as answered`,
    )
    return row!.sent === 3 * N && row!.answered === N
  })
  await killed(node.child)
  expect(await Promise.all(lost)).toEqual(lost.map(() => 'lost'))
  for (const [n, stream] of streams.entries()) read[n]!.push(...(await stream.rest()))

  // The same answer once more is the same answer; and it waits again.
  const repeated = answers.map((message) => after.call('SendMessage', { message }))
  const resumed = await Promise.all(
    read.map(async (frames) => {
      const { id } = frames[0]!.json.result.task
      const headers = resumeAfter(frames.at(-1)!.id!)
      return after.stream('SubscribeToTask', { id }, { headers })
    }),
  )
  const found = await Promise.all(
    numbers.map(async (n) => {
      const { result } = await after.call('ListTasks', { contextId: `waits-${n}` })
      expect(result.tasks).toHaveLength(1)
      return after.stream('SubscribeToTask', { id: result.tasks[0].id })
    }),
  )
  for (const { held } of holders) {
    const { messages } = await worker.call('todos.messages', held)
    expect(messages).toHaveLength(1)
    await worker.call('todos.complete', { ...held, acknowledge: messages[0].seq })
  }
  for (let n = 0; n < 2 * N; n += 1) {
    await worker.call('todos.complete', (await worker.claim()).held)
  }
  for (const [n, { result }] of (await Promise.all(repeated)).entries()) {
    expect(result.task.status.state).toBe('TASK_STATE_COMPLETED')
    const receipt = result.task.metadata['urn:switchboard:receipt']
    expect(receipt.outcome).toBe('repeated')
    told.push({ id: asked[n].id, messageId: answers[n]!.messageId, told: receipt })
  }
  for (const stream of found) {
    expect(statesOf(await stream.rest()).at(-1)).toBe('TASK_STATE_COMPLETED')
  }
  for (const [n, stream] of resumed.entries()) read[n]!.push(...(await stream.rest()))
  const log = await readLog(app.sql)
  checkLog(log, hint)
  checkTold(log, told, hint)
  for (const frames of read) checkStream(log, frames[0]!.json.result.task.id, frames, hint)
})

test('a node killed in the midst of sends has each of them in full or not at all, and all that it answered', async () => {
  const app = await startApp({ reapMs: 3_600_000 })
  const { client } = await app.queue('desk')
  const node = await serveProcess(app.databaseUrl)
  const a2a = a2aClient(node.url, 'desk', client.token)
  const accepted: string[] = []
  const sending = Array.from({ length: 8 }, async (_, n) => {
    for (;;) {
      const task = await a2a.submit('x', { contextId: `midst-${n % 4}` }).catch(() => null)
      if (task === null) return
      accepted.push(task.id)
    }
  })
  const killAt = 30 + Math.floor(randomOf(SEED * 7)() * 60)
  await until(() => accepted.length > killAt)
  await killed(node.child)
  await Promise.all(sending)
  const log = await readLog(app.sql)
  checkLog(log, hint)
  const stored = new Set(log.todos.map(({ id }) => id))
  expect(
    accepted.filter((id) => !stored.has(id)),
    hint,
  ).toEqual([])
})

test(`a database killed twice under load loses no accepted task, and everything goes on (${hint})`, async () => {
  const postgres = await startOwnPostgres()
  const node = await startNode(postgres.url, { reapMs: 200, pollMs: 250, acquireMs: 1000 })
  const sql: Sql = (text, values = []) =>
    withClient(postgres.url, async (client) => (await client.query(text, values)).rows)
  await operate(node, 'queues.put', { name: 'desk', policy: POLICY })
  const vend = async (verb: string): Promise<string> =>
    (await operate(node, 'endpoints.vend', { name: verb, queues: ['desk'], verbs: [verb] })).token
  const crew = startCrew(node.url, await vend('work'), 1)
  const stopClock = startClock(sql, crew, new Set())
  try {
    const load = startLoad({
      url: node.url,
      queue: 'desk',
      token: await vend('send'),
      seed: SEED,
      conversations: 6,
      each: 5,
    })
    load.done.catch(() => {})
    const random = randomOf(SEED * 3)
    await crew.begin()
    for (const from of [10, 70]) {
      const at = from + Math.floor(random() * 40)
      await until(() => crew.steps.length >= at, {
        what: `${hint}: ${at} steps`,
      })
      await postgres.crash()
      await until(async () => (await fetch(`${node.url}/readyz`)).status === 503)
      await postgres.start()
    }
    await load.done
    await stopClock()
    judge(await readLog(sql), load, crew)
  } finally {
    await stopClock()
    // What it reads of the node would keep the node from stopping.
    await Promise.all(children.map(killed))
    await node.stop()
  }
})
