/**
 * Every combination of what can happen to a wait, against an oracle that knows nothing of the
 * server's code. The cases share their moments (one sweep passes over all of them), as they would
 * on a busy node; each has a queue of its own, so that it can be told apart.
 */
import { randomUUID } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import type { Caller } from '../../src/domain/endpoint.ts'
import type { Held } from '../../src/service/claims/holder.ts'
import type { Answer } from '../support/clients/actors.ts'
import { ageWait, DAY, direct, kindOf, startQuiet, TTL } from './support.ts'

interface Case {
  state: 'input-required' | 'auth-required'
  hold: boolean
  holder: 'alive' | 'dead' | 'back late'
  answered: 'before' | 'at' | 'after' | 'never'
  atCap: boolean
  sweep: boolean
}

const either = [true, false]
const CASES: Case[] = (['input-required', 'auth-required'] as const).flatMap((state) =>
  either.flatMap((hold) =>
    (['alive', 'dead', 'back late'] as const).flatMap((holder) =>
      (['before', 'at', 'after', 'never'] as const).flatMap((answered) =>
        either.flatMap((atCap) =>
          either.map((sweep) => ({ state, hold, holder, answered, atCap, sweep })),
        ),
      ),
    ),
  ),
)

const nameOf = ({ state, hold, holder, answered, atCap, sweep }: Case): string =>
  [
    state,
    hold ? 'held' : 'parked',
    `holder ${holder}`,
    `answered ${answered}${answered === 'never' ? '' : ' the deadline'}`,
    atCap ? 'at the cap' : 'below the cap',
    `sweep ${sweep ? 'on' : 'off'}`,
  ].join(', ')

interface Seen {
  /** What the sender was told: a receipt's outcome, or a refusal; null where nobody answered. */
  receipt: string | null
  /** Once the answer and the deadline have passed. */
  middle: { state: string; attempt: number; unread: number }
  /** What the holder's own word gets when it comes back. */
  holder: string
  /** What somebody else then gets by claiming. */
  next: { attempt: number; unread: number; question: boolean } | null
  end: { state: string; attempts: string[]; verbs: string[]; error: string | null }
  /** Lapsed leases, and the interrupts among them. */
  counted: [number, number]
}

/** `answerFirst`: which of two things that happened at once came first. */
const oracle = (c: Case, answerFirst: boolean): Seen => {
  const verbs = ['send', 'claim', 'interrupt']
  const attempts: string[] = []
  // A live holder has extended its wait beyond the deadline; nobody can extend a parked one.
  const expires = c.sweep && !(c.hold && c.holder === 'alive')
  const inTime =
    c.answered === 'before' ||
    (c.answered === 'at' && (answerFirst || !expires)) ||
    (c.answered === 'after' && !expires)
  const late = c.answered !== 'never' && !inTime
  const expired = expires && !inTime

  let state: string = c.state
  let attempt = 1
  let receipt: string | null = null
  let unread = 0
  let error: string | null = null
  let leases = 0
  if (inTime) {
    receipt = c.hold ? 'resumed' : 'requeued'
    state = c.hold ? 'claimed' : 'pending'
    verbs.push(c.hold ? 'resume' : 'answer')
    if (!c.hold) {
      attempt = 0
      attempts.push('released requeued')
    }
    unread = 1
  } else if (expired) {
    state = c.atCap ? 'failed' : 'pending'
    verbs.push('reapInterrupt')
    attempts.push(c.atCap ? 'reaped dead_lettered' : 'reaped requeued')
    leases += 1
    if (c.atCap) error = 'interrupt_expired'
    if (late) receipt = c.atCap ? 'finished' : 'inbox'
    if (late && !c.atCap) {
      verbs.push('message')
      unread = 1
    }
  }
  const middle = { state, attempt, unread }

  const owns = state === 'claimed' || (state === c.state && c.hold)
  let holder = 'not asked'
  if (c.holder === 'alive') holder = owns ? 'ok' : 'stale_fence'
  if (c.holder === 'back late') {
    holder = !owns ? 'stale_fence' : state === 'claimed' ? 'ok' : 'wrong_state'
    if (holder === 'ok') {
      state = 'done'
      verbs.push('complete')
      attempts.push('completed done')
    }
  }
  if (c.holder === 'dead' && state === 'claimed') {
    // Its answer came to nobody, which costs no attempt.
    state = 'pending'
    attempt -= 1
    verbs.push('reapLease')
    attempts.push('reaped requeued')
    leases += 1
  }

  let next: Seen['next'] = null
  if (state === 'pending') {
    next = { attempt: attempt + 1, unread, question: expired }
    state = 'claimed'
    verbs.push('claim')
  }
  if (state === 'claimed' || state === c.state) attempts.push('open')
  return {
    receipt,
    middle,
    holder,
    next,
    end: { state, attempts, verbs, error },
    counted: [leases, expired ? 1 : 0],
  }
}

/* ------------------------------------------------------------------ the same, for real */

const app = await startQuiet()
const hands = direct(app)
const { agent, operator } = app.services
const { endpoint } = await app.vend(['work'], [(await app.queue('any')).client.endpoint.queues[0]!])

const worker = (queue: string): Caller => ({
  kind: 'endpoint',
  endpoint: { ...endpoint, queues: [queue] },
})

interface Run {
  queue: string
  caller: Caller
  held: Held
  receipt: string | null
}

const each = <T>(of: Case[], act: (c: Case, run: Run) => Promise<T>): Promise<T[]> =>
  Promise.all(of.map((c) => act(c, runs.get(c)!)))
const runs = new Map<Case, Run>()
const seen = new Map<Case, Partial<Seen>>()
const set = (c: Case, more: Partial<Seen>) => seen.set(c, { ...seen.get(c), ...more })

const answer = async (_: Case, run: Run): Promise<void> => {
  const told = await hands.answer(run.held.id)
  run.receipt = typeof told === 'string' ? told : told.outcome
}

const rows = async (): Promise<Map<string, Answer>> =>
  new Map((await app.sql<Answer>('select * from todos')).map((row) => [row.id, row]))

const lapse = (ids: string[]) =>
  app.sql(
    `update todos set lease_expires_at = now() - interval '1 second'
     where id = any($1::uuid[]) and lease_expires_at is not null`,
    [ids],
  )

const value = async (counter: Answer, queue: string): Promise<number> =>
  (await counter.get()).values.find((each: Answer) => each.labels.queue === queue)?.value ?? 0

const play = async (cases: Case[]): Promise<void> => {
  await Promise.all(
    cases.map(async (c) => {
      const queue = `q-${randomUUID().slice(0, 13)}`
      await operator.putQueue({ name: queue, policy: { maxAttempts: c.atCap ? 1 : 2 } })
      await hands.send(queue)
      const caller = worker(queue)
      const held = (await hands.claim(caller, queue))!
      await hands.ask(held, caller, c)
      runs.set(c, { queue, caller, held: { id: held.id, fence: held.fence }, receipt: null })
    }),
  )
  const idsOf = (of: Case[]) => of.map((c) => runs.get(c)!.held.id)
  const [alive, gone] = [true, false].map((is) =>
    cases.filter(({ holder }) => (holder === 'alive') === is),
  ) as [Case[], Case[]]

  await each(alive, async ({ hold }, { held, caller }) => {
    const beat = agent.heartbeat({ ...held, holdSeconds: 3600 }, caller)
    if (hold) return beat
    return expect(beat.catch(kindOf)).resolves.toBe('stale_fence')
  })
  await lapse(idsOf(gone))
  await ageWait(app, DAY - 60, ...idsOf(cases))
  await each(
    cases.filter(({ answered }) => answered === 'before'),
    answer,
  )
  await app.sweep.reap()

  const [due] = [cases.filter(({ answered }) => answered !== 'before')]
  await ageWait(app, 61, ...idsOf(due))
  await Promise.all([
    app.sweep.reap(),
    each(
      cases.filter(({ answered }) => answered === 'at'),
      answer,
    ),
  ])
  // A row that an answer had locked was passed over.
  await app.sweep.reap()
  await each(
    cases.filter(({ answered }) => answered === 'after'),
    answer,
  )
  const middle = await rows()
  for (const c of cases) {
    const { state, attempt, unread } = middle.get(runs.get(c)!.held.id)
    set(c, { middle: { state, attempt, unread } })
  }

  await each(cases, async (c, { held, caller }) => {
    const act = {
      alive: () =>
        agent.messages({ ...held, after: 0, waitMs: 0 }, caller, new AbortController().signal),
      'back late': () => agent.complete({ ...held, acknowledge: 1000 }, caller),
      dead: async () => {},
    }[c.holder]
    const told = await act().then(() => 'ok', kindOf)
    set(c, { holder: c.holder === 'dead' ? 'not asked' : told })
  })
  const dead = cases.filter(({ holder }) => holder === 'dead')
  const working = await rows()
  await lapse(idsOf(dead).filter((id) => working.get(id).state === 'claimed'))
  await app.sweep.reap()

  await each(cases, async (c, { queue, caller }) => {
    const got = await hands.claim(caller, queue)
    const question = Boolean((got?.view.result as Answer)?.interrupt)
    set(c, {
      next: got && { attempt: got.view.todo.attempt, unread: got.view.todo.unread, question },
    })
  })
  const end = await rows()
  await each(cases, async (c, { queue, held: { id }, receipt }) => {
    const { view, attempts, events } = await operator.show(id, { kind: 'operator' })
    set(c, {
      receipt,
      end: {
        state: end.get(id).state,
        attempts: attempts
          .toReversed()
          .map(({ outcome, disposition }) => (outcome ? `${outcome} ${disposition}` : 'open')),
        verbs: events.map(({ verb }) => verb),
        error: typeof view.result?.error === 'string' ? view.result.error : null,
      },
      counted: [
        await value(app.metrics.todoLeasesExpired, queue),
        await value(app.metrics.interruptLeasesReclaimed, queue),
      ],
    })
  })
}

await play(CASES.filter(({ sweep }) => sweep))
await operator.setSetting(TTL, '0')
await play(CASES.filter(({ sweep }) => !sweep))

describe('a wait goes as its circumstances say', () => {
  test('all combinations are there', () => {
    expect(new Set(CASES.map(nameOf)).size).toBe(2 * 2 * 3 * 4 * 2 * 2)
  })

  test.each(CASES.map((c) => [nameOf(c), c] as const))('%s', (_, c) => {
    const told = seen.get(c)!
    const first = told.receipt === 'resumed' || told.receipt === 'requeued'
    expect(told).toEqual(oracle(c, first))
  })

  test('what happens at the deadline is one of the two: the answer came first, or the expiry did', () => {
    for (const c of CASES.filter(({ answered }) => answered === 'at')) {
      expect([oracle(c, true), oracle(c, false)], nameOf(c)).toContainEqual(seen.get(c))
    }
  })
})
