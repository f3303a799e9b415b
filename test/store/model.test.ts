/**
 * Random verbs, through the real database and through a tiny model side by side. The model reads
 * the lifecycle's table with its own eyes (no SQL, no clock: time passes when the test says so);
 * verdict and state must be the same after every step.
 */

import { randomUUID } from 'node:crypto'
import fc from 'fast-check'
import { afterAll, expect, test } from 'vitest'
import { Refusal } from '../../src/domain/errors.ts'
import {
  type Condition,
  OPEN_STATES,
  rule,
  STATE_NAMES,
  type State,
  VERB_NAMES,
  type Verb,
} from '../../src/domain/lifecycle.ts'
import { DEFAULT_POLICY } from '../../src/domain/policy.ts'
import { EVERYTHING } from '../../src/domain/scope.ts'
import type { Change } from '../../src/store/change.ts'
import { openDatabase } from '../../src/store/database.ts'
import { putQueue } from '../../src/store/queues.ts'
import { addTodo } from '../../src/store/todos.ts'
import { transitionOne } from '../../src/store/transition.ts'
import { cloneDatabase } from '../support/database.ts'

const clone = await cloneDatabase()
const database = openDatabase({ connectionString: clone.url, poolSize: 2 })
afterAll(async () => {
  await database.close()
  await clone.drop()
})
await putQueue(database, {
  name: 'q',
  card: { name: 'q', description: '', version: '1', skills: [] },
  policy: DEFAULT_POLICY,
})

const AGENTS = [randomUUID(), randomUUID()] as const
const CLIENT = randomUUID()
const MAX_ATTEMPTS = 2

interface Model {
  state: State
  owner: string | null
  /** Who claimed last: whose question a parked todo waits on. */
  asker: string | null
  fence: number
  attempt: number
  retryScheduled: boolean
  unread: number
  openAttempts: number
  attempts: number
  /** What an ageing has made of the row's moments. */
  lapsed: boolean
  due: boolean
  retryDue: boolean
  expired: boolean
  /** A ready hook that is still to come, for a delayed release or a retry. */
  bell: boolean
  silent: boolean
  late: boolean
  joining: boolean
}

const fresh = (): Model => ({
  state: 'pending',
  owner: null,
  asker: null,
  fence: 0,
  attempt: 0,
  retryScheduled: false,
  unread: 0,
  openAttempts: 0,
  attempts: 0,
  lapsed: false,
  due: true,
  retryDue: false,
  expired: false,
  bell: false,
  silent: false,
  late: false,
  joining: false,
})

interface Step {
  verb: Verb
  agent: 0 | 1
  staleFence: boolean
  asked: 'input-required' | 'auth-required'
  park: boolean
  retry: boolean
  delay: boolean
  acknowledgeAll: boolean
  readLess: boolean
}

const finished = (m: Model): boolean =>
  ['done', 'canceled', 'rejected'].includes(m.state) || (m.state === 'failed' && !m.retryScheduled)

const holds = (m: Model, step: Step): boolean => m.owner === AGENTS[step.agent] && !step.staleFence

const conditions: Record<Condition, (m: Model, step: Step) => boolean> = {
  claimable: (m) =>
    (m.state === 'pending' && m.due) ||
    (m.state === 'failed' && m.retryScheduled && m.retryDue) ||
    (m.state === 'claimed' && m.lapsed && m.attempt < MAX_ATTEMPTS),
  held: (m, step) => holds(m, step) && !m.lapsed,
  holder: holds,
  attended: (m) => m.owner !== null,
  parked: (m) => m.owner === null,
  sameQuestion: () => true,
  unanswered: () => true,
  notAsking: (m) => !['input-required', 'auth-required'].includes(m.state),
  // These stand in no line.
  lineFree: () => true,
  lineBusy: () => false,
  nextInLine: () => false,
  unclaimedFront: () => false,
  answeredLater: () => false,
  // A join without children holds at once.
  joinHolds: (m) => m.joining,
  unfinished: (m) => !finished(m),
  leaseLapsed: (m) => m.lapsed,
  interruptExpired: (m) => m.expired,
  silentOrOverdue: (m) => m.silent,
  outOfTime: (m) => m.late,
  comeDue: (m) => m.bell && (m.state === 'pending' ? m.due : m.retryDue),
  ownedBy: (m, step) => m.owner === AGENTS[step.agent],
  leftBy: (m, step) => (m.owner ?? m.asker) === AGENTS[step.agent],
  readAll: (m, step) => m.unread === 0 || step.acknowledgeAll,
}

/** Null: refused. */
const advance = (m: Model, step: Step): Model | null => {
  const { verb } = step
  const { from, when, to, atCap, lease, attempt, refund } = rule(verb)
  if (!from.includes(m.state) || !when.every((name) => conditions[name](m, step))) return null
  const next = { ...m }
  const capped = m.attempt >= MAX_ATTEMPTS
  const landed =
    to === 'same' ? m.state : to === 'as asked' ? step.asked : atCap && capped ? atCap : to
  if (to !== 'same') {
    next.retryScheduled = verb === 'fail' && step.retry && !capped
    next.retryDue = false
    next.expired = false
    next.due = landed === 'pending' ? !(verb === 'release' && step.delay) : false
    next.bell = next.retryScheduled || (landed === 'pending' && !next.due)
  }
  if (to !== 'same') next.joining = verb === 'join'
  if (verb === 'join') next.due = false
  if (verb === 'joined') {
    next.joining = false
    next.due = true
  }
  if (verb === 'comeDue') next.bell = false
  next.state = landed
  if (lease === 'grant') {
    next.owner = AGENTS[step.agent]
    next.asker = next.owner
    next.fence += 1
  }
  if (lease === 'grant' || lease === 'extend' || lease === 'renew' || lease === 'clear')
    next.lapsed = false
  if (lease === 'clear' || (verb === 'interrupt' && step.park)) next.owner = null
  if (verb === 'interrupt' && step.park) next.lapsed = false
  if (rule(verb).progress || lease === 'grant' || verb === 'resume' || to !== 'same') {
    next.silent = false
  }
  if (attempt === 'open') {
    next.attempt += 1
    next.attempts += 1
    next.openAttempts = 1
  } else if (attempt !== 'keep') next.openAttempts = 0
  if (refund) next.attempt -= 1
  if (verb === 'message' || verb === 'resume' || verb === 'answer') next.unread += 1
  if ((verb === 'acknowledge' || verb === 'complete') && step.acknowledgeAll) next.unread = 0
  return next
}

const message = (role: 'ROLE_USER' | 'ROLE_AGENT') => ({
  messageId: randomUUID(),
  role,
  parts: [{ text: 'x' }],
})

/** The same step on the database; null when it was refused. */
const apply = async (id: string, m: Model, step: Step): Promise<string | null> => {
  const { by } = rule(step.verb)
  const change: Change = {
    endpoint: by === 'client' ? CLIENT : AGENTS[step.agent],
    fence: String(step.staleFence ? m.fence - 1 : m.fence),
    leaseSeconds: 300,
    claimant: 'model',
    asked: step.asked,
    park: step.park,
    holdSeconds: 60,
    maxWaitSeconds: 604_800,
    children: [],
    joinUntil: 'all',
    message: message(by === 'client' ? 'ROLE_USER' : 'ROLE_AGENT'),
    artifact: { id: 'a', json: '{"artifactId":"a","parts":[]}', append: false, lastChunk: false },
    ttlSeconds: 86_400,
    queues: ['q'],
    detail: { error: { code: 'x', message: 'x' } },
    ...(step.retry && { retrySeconds: 3600 }),
    // Only a release is ever delayed.
    ...(step.delay && step.verb === 'release' && { dueSeconds: 3600 }),
    ...(step.acknowledgeAll && { through: 1_000_000 }),
  }
  try {
    return (await transitionOne(database, step.verb, id, change, EVERYTHING)).todo.state
  } catch (error) {
    if (error instanceof Refusal) return null
    throw error
  }
}

const AGES = ['lapse', 'due', 'retry', 'expire', 'silence', 'late'] as const
type Age = (typeof AGES)[number]

const age = async (id: string, m: Model, what: Age): Promise<Model> => {
  const set = (text: string) => database.query(`update todos set ${text} where id = $1`, [id])
  if (what === 'lapse' && m.state === 'claimed') {
    await set(`lease_expires_at = now() - interval '1 second'`)
    return { ...m, lapsed: true }
  }
  if (what === 'due' && m.state === 'pending') {
    await set(`due_at = now() - interval '1 second'`)
    return { ...m, due: true }
  }
  if (what === 'retry' && m.retryScheduled) {
    await set(`next_retry_at = now() - interval '1 second'`)
    return { ...m, retryDue: true }
  }
  if (what === 'expire' && ['input-required', 'auth-required'].includes(m.state)) {
    await set(`interrupted_at = now() - interval '25 hours', interrupt_held_until = null`)
    return { ...m, expired: true }
  }
  if (what === 'silence' && m.state === 'claimed') {
    await set(`progress_at = now() - interval '601 seconds', alarm_at = now()`)
    return { ...m, silent: true }
  }
  if (what === 'late' && !finished(m)) {
    await set('close_at = now(), alarm_at = now()')
    return { ...m, late: true }
  }
  return m
}

const add = async (): Promise<string> => {
  const id = randomUUID()
  await addTodo(database, {
    id,
    queue: 'q',
    contextId: 'c',
    clientId: CLIENT,
    priority: 1,
    maxAttempts: MAX_ATTEMPTS,
    message: message('ROLE_USER'),
    timeouts: { heartbeat: 600, scheduleToClose: 86_400 },
    detail: {},
  })
  return id
}

const same = async (id: string, m: Model): Promise<void> => {
  const [row] = await database.query<Record<string, unknown>>(
    `select state, owner, fence::int, attempt, unread, attempts_total as attempts,
      (finished_at is not null) as finished, (select count(*)::int from attempts
        where todo_id = t.id and ended_at is null) as open
    from todos t where id = $1`,
    [id],
  )
  expect(row).toEqual({
    state: m.state,
    owner: m.owner,
    fence: m.fence,
    attempt: m.attempt,
    unread: m.unread,
    attempts: m.attempts,
    finished: finished(m),
    open: m.openAttempts,
  })
  expect(m.openAttempts).toBe(OPEN_STATES.includes(m.state) ? 1 : 0)
}

const step: fc.Arbitrary<Step> = fc.record({
  verb: fc.constantFrom(...VERB_NAMES),
  agent: fc.constantFrom(0 as const, 1 as const),
  staleFence: fc.oneof({ weight: 5, arbitrary: fc.constant(false) }, fc.constant(true)),
  asked: fc.constantFrom('input-required' as const, 'auth-required' as const),
  park: fc.boolean(),
  retry: fc.boolean(),
  delay: fc.boolean(),
  acknowledgeAll: fc.boolean(),
  readLess: fc.boolean(),
})
const move = fc.oneof({ weight: 4, arbitrary: step }, fc.constantFrom(...AGES))

test('random verbs have the same verdicts and states in the database and in the model', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(move, { minLength: 10, maxLength: 40 }), async (moves) => {
      const id = await add()
      let model = fresh()
      for (const next of moves) {
        if (typeof next === 'string') {
          model = await age(id, model, next)
          continue
        }
        const expected = advance(model, next)
        const landed = await apply(id, model, next)
        expect(landed, `${next.verb} from ${model.state}`).toBe(expected?.state ?? null)
        model = expected ?? model
        await same(id, model)
      }
    }),
    { numRuns: 60 },
  )
}, 120_000)

const plain: Omit<Step, 'verb'> = {
  agent: 0,
  staleFence: false,
  asked: 'input-required',
  park: false,
  retry: false,
  delay: false,
  acknowledgeAll: false,
  readLess: false,
}

/** How to get a new todo into each state. */
const ROADS: Record<State, (Partial<Step> & { verb: Verb })[][]> = {
  pending: [[], [{ verb: 'claim' }, { verb: 'release', delay: true }]],
  claimed: [[{ verb: 'claim' }], [{ verb: 'claim' }, { verb: 'message' }]],
  'input-required': [
    [{ verb: 'claim' }, { verb: 'interrupt' }],
    [{ verb: 'claim' }, { verb: 'interrupt', park: true }],
  ],
  'auth-required': [
    [{ verb: 'claim' }, { verb: 'interrupt', asked: 'auth-required' }],
    [{ verb: 'claim' }, { verb: 'interrupt', asked: 'auth-required', park: true }],
  ],
  done: [[{ verb: 'claim' }, { verb: 'complete' }]],
  failed: [
    [{ verb: 'claim' }, { verb: 'fail' }],
    [{ verb: 'claim' }, { verb: 'fail', retry: true }],
  ],
  canceled: [[{ verb: 'cancel' }]],
  rejected: [[{ verb: 'claim' }, { verb: 'reject' }]],
}

for (const state of STATE_NAMES) {
  test(`each verb is allowed or refused from ${state} as the table says, by holder and stranger, before and after time has passed`, async () => {
    for (const road of ROADS[state]) {
      for (const verb of VERB_NAMES) {
        for (const agent of [0, 1] as const) {
          for (const aged of [false, true]) {
            const id = await add()
            let model = fresh()
            for (const leg of road) {
              const taken = { ...plain, ...leg }
              expect(await apply(id, model, taken)).not.toBeNull()
              model = advance(model, taken)!
            }
            expect(model.state).toBe(state)
            if (aged) for (const what of AGES) model = await age(id, model, what)
            const last = { ...plain, agent, verb }
            const expected = advance(model, last)
            const landed = await apply(id, model, last)
            expect(landed, `${verb} from ${state}, aged ${aged}`).toBe(expected?.state ?? null)
            await same(id, expected ?? model)
          }
        }
      }
    }
  }, 60_000)
}
