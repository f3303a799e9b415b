/**
 * Everything at once: agents ask, crash, come back and hand over, fork and join, people answer
 * twice, the clock jumps, endpoints are revoked, tasks canceled, on a few todos, alone and in line,
 * over many connections and two nodes. Nobody keeps count while it happens; afterwards the log of events must explain every
 * row, and every row the log.
 *
 * What is drawn depends on the seed, what it meets on the moment: RANDOM_SEED repeats the former.
 */
import { randomUUID } from 'node:crypto'
import { afterAll, expect, test } from 'vitest'
import type { Caller } from '../../src/domain/endpoint.ts'
import { OUTCOMES, STATE_NAMES } from '../../src/domain/lifecycle.ts'
import type { Held } from '../../src/service/claims/holder.ts'
import { startNode } from '../support/app.ts'
import { checkLog, checkTold, readLog, type Told } from '../support/checker.ts'
import type { Answer } from '../support/clients/actors.ts'
import { randomOf } from '../support/seeded.ts'
import { direct, kindOf, startQuiet } from './support.ts'

const SEED = Number(process.env.RANDOM_SEED ?? Date.now() % 1_000_000)
const TODOS = 40
/** Conversations that more than half of them are shared out to. */
const LINES = 5
const IN_LINE = 32
const STEPS = 200
const AGENTS = 6
const QUEUE = 'chaos'

const app = await startQuiet({ comeDueMs: 3_600_000 })
const other = await startNode(app.databaseUrl, { reapMs: 3_600_000, comeDueMs: 3_600_000 })
afterAll(() => other.stop())
const nodes = [app, other]
await app.services.operator.putQueue({ name: QUEUE, policy: { maxAttempts: 4 } })

const refusals: Record<string, number> = {}
const quiet = async (act: Promise<unknown>): Promise<boolean> =>
  act.then(
    () => true,
    (error) => {
      const kind = kindOf(error)
      refusals[kind] = (refusals[kind] ?? 0) + 1
      return false
    },
  )

type Agent = typeof app.services.agent

const readAll = (mine: Held, caller: Caller, agent: Agent): Promise<unknown> =>
  agent
    .messages({ ...mine, after: 0, waitMs: 0 }, caller, new AbortController().signal)
    .then(({ messages }) => {
      const through = messages.at(-1)?.seq
      return through ? quiet(agent.acknowledge({ ...mine, through }, caller)) : true
    })
    .catch(kindOf)

/** Writes that were let through although the writer knew it had lost the todo. */
const trespasses: string[] = []
const told: Told[] = []
const callers: Caller[] = []

const vend = async (): Promise<Caller> => (await app.vend(['work', 'send'], [QUEUE])).caller

const run = async (): Promise<void> => {
  const hands = nodes.map(direct)
  const contextOf = (n: number) => (n < IN_LINE ? `talk-${n % LINES}` : undefined)
  const ids = await Promise.all(
    Array.from({ length: TODOS }, (_, n) => hands[0]!.send(QUEUE, contextOf(n))),
  )
  for (let each = 0; each < AGENTS; each += 1) callers.push(await vend())

  const agentLife = async (number: number): Promise<void> => {
    const random = randomOf(SEED * 31 + number)
    const node = nodes[number % 2]!
    const { agent } = node.services
    let held: Held[] = []
    const lost: Held[] = []
    for (let step = 0; step < STEPS; step += 1) {
      const caller = callers[number]!
      const roll = random()
      const mine = held[Math.floor(random() * held.length)]
      const drop = (): void => {
        held = held.filter((each) => each !== mine)
        if (mine) lost.push(mine)
      }
      if (!mine || roll < 0.2) {
        const got = await hands[number % 2]!.claim(caller, QUEUE)
        if (got) held.push({ id: got.id, fence: got.fence })
      } else if (roll < 0.5) {
        const hold = random() < 0.6
        const state = random() < 0.7 ? 'input-required' : 'auth-required'
        await quiet(hands[number % 2]!.ask(mine, caller, { state, hold }))
        if (!hold) drop()
      } else if (roll < 0.6) {
        await quiet(agent.heartbeat({ ...mine, ...(random() < 0.2 && { holdSeconds: 5 }) }, caller))
      } else if (roll < 0.7) {
        await readAll(mine, caller, agent)
      } else if (roll < 0.76) await quiet(agent.progress(mine, caller))
      else if (roll < 0.82) {
        if (await quiet(agent.release(mine, caller))) drop()
      } else if (roll < 0.86) {
        const error = { code: 'x', message: 'x' }
        const again = { retryable: true, retryInSeconds: 0 }
        if (await quiet(agent.fail({ ...mine, error, ...again }, caller))) drop()
      } else if (roll < 0.9) {
        if (await quiet(agent.complete(mine, caller))) drop()
      } else if (roll < 0.96) {
        const made = hands[number % 2]!.fork(mine, caller, QUEUE, 1 + Math.floor(random() * 2))
        const until = (['all', 'any', 'each'] as const)[Math.floor(random() * 3)]!
        const children = await made.catch(kindOf)
        if (typeof children === 'string') continue
        ids.push(...children)
        await readAll(mine, caller, agent)
        if (await quiet(agent.join({ ...mine, children, until }, caller))) drop()
      } else drop() // It crashes, or forgets.
      const gone = lost[Math.floor(random() * lost.length)]
      if (gone && random() < 0.2) {
        // Back from the dead. What it released, parked or finished it has certainly lost; what it
        // forgot it may still hold, and then it may say so.
        const before = await owns(gone, caller)
        const passed = await quiet(agent.progress(gone, caller))
        if (passed && !before) trespasses.push(`${gone.id} ${gone.fence}`)
      }
    }
  }

  /** Whether this fence was the row's own when looked at; it can only be lost after that. */
  const owns = async ({ id, fence }: Held, caller: Caller): Promise<boolean> => {
    const [row] = await app.sql<{ owns: boolean }>(
      'select fence = $2::bigint and owner = $3::uuid as owns from todos where id = $1',
      [id, fence, caller.kind === 'endpoint' ? caller.endpoint.id : null],
    )
    return row!.owns === true
  }

  const personLife = async (number: number): Promise<void> => {
    const random = randomOf(SEED * 37 + number)
    for (let step = 0; step < STEPS; step += 1) {
      const again = random() < 0.15 ? told[Math.floor(random() * told.length)] : undefined
      const id = again?.id ?? ids[Math.floor(random() * ids.length)]!
      const messageId = again?.messageId ?? randomUUID()
      const sent = hands[number % 2]!.answer(id, messageId)
      // Some send everything twice.
      const twin = random() < 0.1 ? hands[(number + 1) % 2]!.answer(id, messageId) : null
      told.push({ id, messageId, told: await sent })
      if (twin) told.push({ id, messageId, told: await twin })
      if (random() < 0.01) await quiet(app.services.operator.cancel(id))
    }
  }

  const clockLife = async (number: number): Promise<void> => {
    const random = randomOf(SEED * 41 + number)
    const some = () => ids.filter(() => random() < 0.2)
    for (let step = 0; step < STEPS / 3; step += 1) {
      const roll = random()
      if (roll < 0.3) {
        // Their holders have died during the wait.
        await app.sql(
          `update todos set wait_probe_at = now() - interval '1 second',
             interrupt_held_until = now() - interval '1 second',
             lease_expires_at = now() - interval '1 second'
           where id = any($1::uuid[]) and wait_probe_at is not null and owner is not null
             and interrupted_at is not null`,
          [some()],
        )
      } else if (roll < 0.6) {
        await app.sql(
          `update todos set interrupted_at = interrupted_at - interval '2 days', interrupt_held_until =
             case when interrupt_held_until is not null then now() - interval '1 second' end
           where id = any($1::uuid[]) and interrupted_at is not null`,
          [some()],
        )
      } else {
        await app.sql(
          `update todos set lease_expires_at = now() - interval '1 second'
           where id = any($1::uuid[]) and state = 'claimed'`,
          [some()],
        )
      }
      if (random() < 0.6) await nodes[number % 2]!.sweep.reap()
      if (random() < 0.3) await nodes[number % 2]!.sweep.comeDue()
    }
  }

  const revokerLife = async (): Promise<void> => {
    const random = randomOf(SEED * 43)
    for (let step = 0; step < 8; step += 1) {
      await new Promise((resolve) => setTimeout(resolve, 40 + random() * 100))
      const number = Math.floor(random() * AGENTS)
      const old = callers[number]!
      callers[number] = await vend()
      if (old.kind === 'endpoint') await app.services.operator.revoke(old.endpoint.id, false)
    }
  }

  await Promise.all([
    ...Array.from({ length: AGENTS }, (_, number) => agentLife(number)),
    personLife(0),
    personLife(1),
    personLife(2),
    clockLife(0),
    clockLife(1),
    revokerLife(),
  ])
  await loseOneHolder(hands[0]!)
}

/** One that heartbeats while it waits, and dies: whether that has come about until here is chance. */
const loseOneHolder = async (hand: ReturnType<typeof direct>): Promise<void> => {
  const caller = await vend()
  await hand.send(QUEUE, undefined)
  const mine = await hand.claim(caller, QUEUE)
  await hand.ask(mine!, caller, { state: 'input-required', hold: true })
  await app.services.agent.heartbeat({ id: mine!.id, fence: mine!.fence }, caller)
  await app.sql(
    `update todos set wait_probe_at = now() - interval '1 second',
       interrupt_held_until = now() - interval '1 second',
       lease_expires_at = now() - interval '1 second' where id = $1`,
    [mine!.id],
  )
  await app.sweep.reap()
}

await run()
const hint = `seed ${SEED}`

const all = <Row = Answer>(text: string): Promise<Row[]> => app.sql<Row & Answer>(text) as never

const totalOf = async (
  counter: 'todosClaimed',
  labels: Record<string, string>,
): Promise<number> => {
  let total = 0
  for (const { metrics } of nodes) {
    for (const { labels: given, value } of (await metrics[counter].get()).values) {
      const wanted = { queue: QUEUE, ...labels } as Record<string, string>
      if (Object.entries(wanted).every(([key, is]) => (given as Answer)[key] === is)) total += value
    }
  }
  return total
}
const counted = (counter: string, labels: Record<string, string> = {}) =>
  totalOf(counter as 'todosClaimed', labels)

/** What must hold at any quiet moment. */
const check = async (): Promise<void> => {
  const read = await readLog(all)
  checkLog(read, hint)
  const { todos: rows, events: log, messages, attempts } = read
  const taken = checkTold(read, told, hint)
  expect(taken.size, hint).toBe(messages.filter(({ role }) => role === 'user').length)

  // The counters of both nodes together are what the log says.
  const of = (verb: string) => log.filter((event) => event.verb === verb).length
  const takeovers = log.filter(
    ({ verb, from_state }) => verb === 'claim' && from_state === 'claimed',
  )
  expect(await counted('todosSent'), hint).toBe(of('send'))
  expect(await counted('todosClaimed'), hint).toBe(of('claim'))
  expect(await counted('interruptLeasesReclaimed'), hint).toBe(of('reapInterrupt'))
  expect(await counted('waitHoldersLost'), hint).toBe(of('park'))
  const unheard = attempts.filter(({ cause }) => cause === 'answer_unheard').length
  expect(await counted('answersUnheard'), hint).toBe(unheard)
  expect(await counted('todoLeasesExpired'), hint).toBe(
    of('reapLease') + of('reapInterrupt') + takeovers.length,
  )
  for (const outcome of OUTCOMES) {
    const closed = attempts.filter((each) => each.outcome === outcome).length
    expect(await counted('attemptsEnded', { outcome }), `${hint} ${outcome}`).toBe(closed)
  }
  for (const state of STATE_NAMES) {
    const ended = rows.filter((row) => row.state === state && row.finished_at !== null).length
    expect(await counted('todosFinished', { state }), `${hint} ${state}`).toBe(ended)
  }
}

test(`after all that the log explains every row, and every row the log (${hint})`, async () => {
  await check()
})

test('nothing was written by a fence that its holder had lost', () => {
  expect(trespasses, hint).toEqual([])
})

test('it was not a quiet time: every kind of move has happened', async () => {
  const verbs = new Set((await all('select distinct verb from events')).map(({ verb }) => verb))
  for (const verb of ['claim', 'interrupt', 'resume', 'answer', 'message', 'reapInterrupt']) {
    expect(verbs, hint).toContain(verb)
  }
  for (const verb of ['reapLease', 'revoke', 'release', 'fail']) expect(verbs, hint).toContain(verb)
  for (const verb of ['unblock', 'defer', 'fork', 'join', 'joined', 'park']) {
    expect(verbs, hint).toContain(verb)
  }
  // By whether its holder is still there: which of the two, this time, is chance.
  expect(verbs.has('resumeLater') || verbs.has('answerLater'), hint).toBe(true)
  expect(refusals.stale_fence, hint).toBeGreaterThan(0)
  const outcomes = new Set(told.map(({ told: is }) => (typeof is === 'string' ? is : is.outcome)))
  for (const outcome of ['resumed', 'requeued', 'inbox', 'repeated']) {
    expect(outcomes, hint).toContain(outcome)
  }
})

test('then everything that was left is brought to its end by one agent and the clock', async () => {
  const hands = direct(app)
  const caller = await vend()
  const { agent } = app.services
  for (let round = 0; round < 10; round += 1) {
    await app.sql(
      `update todos set
         interrupted_at = interrupted_at - interval '30 days',
         interrupt_held_until =
           case when interrupt_held_until is not null then now() - interval '1 second' end,
         lease_expires_at =
           case when lease_expires_at is not null then now() - interval '1 second' end,
         next_retry_at = case when next_retry_at is not null then now() end`,
    )
    await app.sweep.reap()
    for (let got = await hands.claim(caller, QUEUE); got; got = await hands.claim(caller, QUEUE)) {
      await agent.complete({ id: got.id, fence: got.fence, acknowledge: 1_000_000 }, caller)
    }
  }
  const left = await all('select id, state from todos where finished_at is null')
  expect(left, hint).toEqual([])
  await check()
})
