/**
 * Who waits: a live holder that extends its wait, one that is gone, and nobody (parked).
 *
 * Field cases: questions cost no attempt; waiting holds no lease.
 */
import { randomUUID } from 'node:crypto'
import { afterEach, describe, expect, test } from 'vitest'
import { startNode } from '../support/app.ts'
import { type Answer, a2aClient, agentClient, openStream } from '../support/clients/actors.ts'
import {
  ask,
  attemptsOf,
  type Claimed,
  lapseLease,
  openBoard,
  operate,
  refusalOf,
  saying,
} from '../support/steps.ts'
import {
  ageWait,
  DAY,
  leasesExpired,
  MAX_WAIT,
  reclaimed,
  rowOf,
  setting,
  startQuiet,
  verbsOf,
} from './support.ts'

const app = await startQuiet()

const desk = async (policy?: Record<string, unknown>) => {
  const name = `q-${randomUUID().slice(0, 8)}`
  const { client, agent } = await app.queue(name, policy)
  const second = await app.vend(['work'], [name], { name: 'second' })
  return {
    name,
    agent,
    a2a: a2aClient(app.url, name, client.token),
    worker: agentClient(app.url, agent.token),
    other: agentClient(app.url, second.token),
  }
}
type Desk = Awaited<ReturnType<typeof desk>>

const asked = async ({ a2a, worker }: Desk, more: Record<string, unknown> = {}) => {
  await a2a.submit('work')
  const todo = await worker.claim()
  return { ...todo, wait: await ask(worker, todo, 'May I?', more) }
}

const answer = async (id: string, text: string): Promise<Answer> =>
  (await operate(app, 'todos.answer', { id, message: saying(text) })).receipt

const stateOf = async (id: string): Promise<string> => (await rowOf(app, id)).state
const texts = (messages: Answer[]): string[] =>
  messages.map((each) => (each.message ?? each).parts[0].text)

/** Every verb of a holder, each with params that would do. */
const HOLDERS_VERBS: [string, Record<string, unknown>][] = [
  ['todos.heartbeat', {}],
  ['todos.heartbeat', { holdSeconds: 600 }],
  ['todos.progress', {}],
  ['todos.say', { message: saying('x') }],
  ['todos.artifact', { artifact: { artifactId: 'a', ...saying('x') } }],
  ['todos.interrupt', { state: 'input-required', message: saying('x') }],
  ['todos.messages', {}],
  ['todos.acknowledge', { through: 1 }],
  ['todos.complete', {}],
  ['todos.fail', { error: { code: 'x', message: 'x' } }],
  ['todos.release', {}],
  ['todos.reject', {}],
]

const allStale = async (worker: Desk['worker'], { held }: Claimed): Promise<void> => {
  for (const [method, params] of HOLDERS_VERBS) {
    const { data } = await refusalOf(worker.call(method, { ...held, ...params }))
    expect(data.reason, method).toBe('stale_fence')
  }
}

afterEach(async () => {
  const left = await app.sql<{ id: string }>(
    `select id from todos where state in ('claimed', 'input-required', 'auth-required')`,
  )
  for (const { id } of left) await operate(app, 'todos.cancel', { id })
})

describe('a live holder', () => {
  test('a heartbeat during an interrupt extends the hold and never moves the start of the wait', async () => {
    const here = await desk()
    const todo = await asked(here)
    await ageWait(app, DAY - 10, todo.id)
    const before = await rowOf(app, todo.id)
    const beat = await here.worker.call('todos.heartbeat', { ...todo.held, holdSeconds: 3600 })
    expect(beat).toMatchObject({ state: 'input-required', unread: 0 })
    const after = await rowOf(app, todo.id)
    expect(after.interrupted_at).toEqual(before.interrupted_at)
    // It is a sign of life, and renews the lease as any other heartbeat does.
    expect(after.lease_expires_at.getTime()).toBeGreaterThan(before.lease_expires_at.getTime())
    expect(after.seq).toBe(before.seq)
    expect(after.interrupt_held_until.toISOString()).toBe(beat.heldUntil)
    const [{ left }] = (await app.sql(
      `select extract(epoch from interrupt_held_until - now())::float8 as left from todos where id = $1`,
      [todo.id],
    )) as [{ left: number }]
    expect(left).toBeGreaterThan(3500)
    expect(left).toBeLessThanOrEqual(3600)
  })

  test('without a number it holds for as long as its endpoint’s lease', async () => {
    const here = await desk()
    const todo = await asked(here)
    const { heldUntil } = await here.worker.call('todos.heartbeat', todo.held)
    const hold = Date.parse(heldUntil) - (await rowOf(app, todo.id)).last_heartbeat_at.getTime()
    expect(Math.abs(hold - 300_000)).toBeLessThan(1000)
  })

  test('the sweep takes a row only once it is past its deadline and past its hold', async () => {
    const here = await desk()
    const todo = await asked(here)
    await here.worker.call('todos.heartbeat', { ...todo.held, holdSeconds: 3600 })
    await ageWait(app, DAY + 1, todo.id)
    expect(await app.sweep.reap()).toBe(0)
    expect((await operate(app, 'todos.why', { id: todo.id })).until).toBe(
      (await rowOf(app, todo.id)).interrupt_held_until.toISOString(),
    )
    await app.sql(
      `update todos set interrupt_held_until = now() - interval '1 second' where id = $1`,
      [todo.id],
    )
    expect(await app.sweep.reap()).toBe(1)
    expect(await rowOf(app, todo.id)).toMatchObject({
      state: 'pending',
      interrupt_held_until: null,
    })
  })

  test('a hold that ends before the deadline does not shorten the wait', async () => {
    const here = await desk()
    const todo = await asked(here)
    await here.worker.call('todos.heartbeat', { ...todo.held, holdSeconds: 1 })
    await app.sql(
      `update todos set interrupt_held_until = now() - interval '1 second' where id = $1`,
      [todo.id],
    )
    expect(await app.sweep.reap()).toBe(0)
  })

  test('however often it is extended, a wait is never longer than interrupt_max_wait_seconds, seven days by default', async () => {
    const here = await desk()
    const todo = await asked(here)
    const longest = async () => {
      const { heldUntil } = await here.worker.call('todos.heartbeat', {
        ...todo.held,
        holdSeconds: 100 * DAY,
      })
      const { interrupted_at } = await rowOf(app, todo.id)
      return Math.round((Date.parse(heldUntil) - interrupted_at.getTime()) / 1000)
    }
    expect(await longest()).toBe(7 * DAY)
    await setting(app, MAX_WAIT, String(2 * DAY))
    try {
      expect(await longest()).toBe(2 * DAY)
      await ageWait(app, 2 * DAY + 1, todo.id)
      expect(await longest()).toBe(2 * DAY)
      expect(await app.sweep.reap()).toBe(1)
    } finally {
      await setting(app, MAX_WAIT, null)
    }
  })

  test('only the holder with the fence of its claim may extend a wait', async () => {
    const here = await desk()
    const todo = await asked(here)
    const refused = async (worker: Desk['worker'], fence: string) =>
      (await refusalOf(worker.call('todos.heartbeat', { id: todo.id, fence }))).data.reason
    expect(await refused(here.other, todo.fence)).toBe('stale_fence')
    expect(await refused(here.worker, String(Number(todo.fence) + 1))).toBe('stale_fence')
    expect((await rowOf(app, todo.id)).interrupt_held_until).toBeNull()
  })

  test('a heartbeat that meets the answer on its way is one of either kind, never a refusal', async () => {
    const here = await desk()
    for (let round = 0; round < 15; round += 1) {
      const todo = await asked(here)
      const [beat] = await Promise.all([
        here.worker.call('todos.heartbeat', todo.held),
        answer(todo.id, 'yes'),
      ])
      expect(['claimed', 'input-required']).toContain(beat.state)
    }
  })
})

describe('resuming', () => {
  test('a resume grants a fresh lease, though the old one lapsed long ago: of the length granted before once its holder is heard of', async () => {
    const here = await desk()
    await here.a2a.submit('work')
    const todo = await here.worker.claim({ leaseSeconds: 120 })
    await ask(here.worker, todo, 'May I?')
    await lapseLease(app, todo.id)
    const leaseLeft = async (): Promise<number> =>
      (
        await app.sql<{ left: number }>(
          `select extract(epoch from lease_expires_at - now())::float8 as left from todos where id = $1`,
          [todo.id],
        )
      )[0]!.left
    expect(await answer(todo.id, 'yes')).toMatchObject({ outcome: 'resumed' })
    expect(await leaseLeft()).toBeGreaterThan(40)
    expect(await leaseLeft()).toBeLessThanOrEqual(60)
    await here.worker.call('todos.progress', todo.held)
    expect(await leaseLeft()).toBeGreaterThan(100)
    expect(await leaseLeft()).toBeLessThanOrEqual(120)

    expect(await app.sweep.reap()).toBe(0)
    expect((await here.other.call('todos.claim', {})).todos).toEqual([])
    const { messages } = await here.worker.call('todos.messages', todo.held)
    await here.worker.call('todos.complete', { ...todo.held, acknowledge: messages[0].seq })
    expect(await attemptsOf(app, todo.id)).toMatchObject([{ attempt: 1, outcome: 'completed' }])
  })

  test('the answer is stored in the very transaction that resumes the todo, and names its question', async () => {
    const here = await desk()
    for (const hold of [true, false]) {
      const todo = await asked(here, { hold })
      const receipt = await answer(todo.id, 'yes')
      const [row] = await app.sql(
        `select t.xmin = m.xmin as together, m.answers, m.owed, m.seq from todos t
           join messages m on m.todo_id = t.id and m.answers is not null where t.id = $1`,
        [todo.id],
      )
      expect(row).toEqual({ together: true, answers: 3, owed: true, seq: receipt.seq })
    }
  })

  test('the holder learns of the answer by long poll, also on another node', async () => {
    const here = await desk()
    const node = await startNode(app.databaseUrl, { reapMs: 3_600_000 })
    try {
      for (const url of [app.url, node.url]) {
        const todo = await asked(here)
        const elsewhere = agentClient(url, here.agent.token)
        const waiting = elsewhere.call('todos.messages', { ...todo.held, waitMs: 25_000 })
        const receipt = await answer(todo.id, 'go on')
        const { state, messages } = await waiting
        expect(state).toBe('claimed')
        expect(messages).toMatchObject([{ seq: receipt.seq, answers: 3, message: saying('go on') }])
      }
    } finally {
      await node.stop()
    }
  })

  test('the holder learns of the answer by its event stream', async () => {
    const here = await desk()
    const stream = await openStream(`${app.url}/agent/events`, { token: here.agent.token })
    const todo = await asked(here)
    await answer(todo.id, 'yes')
    const frames = await stream.until(({ event }) => event === 'answered')
    stream.close()
    expect(frames.at(-1)!.json).toEqual({ id: todo.id })
  })

  test('a holder whose wait expired is told so by its long poll', async () => {
    const here = await desk()
    const todo = await asked(here)
    const waiting = refusalOf(here.worker.call('todos.messages', { ...todo.held, waitMs: 25_000 }))
    await ageWait(app, DAY + 1, todo.id)
    await app.sweep.reap()
    expect((await waiting).data.reason).toBe('stale_fence')
  })

  test.each(['by the next claim', 'by the sweep'])(
    'if the holder is gone, the lease lapses %s and the next claimant has question and answer',
    async (how) => {
      const here = await desk()
      const todo = await asked(here)
      await answer(todo.id, 'yes')
      await lapseLease(app, todo.id)
      if (how === 'by the sweep') expect(await app.sweep.reap()).toBe(1)
      const next = await here.other.claim()
      expect(next).toMatchObject({ id: todo.id, attempt: 2 })
      expect(texts(next.history)).toEqual(['work', 'May I?', 'yes'])
      expect(next.unread).toMatchObject([{ answers: 3, message: saying('yes') }])
      expect(next.priorAttempts).toMatchObject([{ died: true, disposition: 'requeued' }])
      await allStale(here.worker, todo)
      const acknowledge = next.unread[0].seq
      await here.other.call('todos.complete', { ...next.held, acknowledge })
    },
  )

  test('while it waits a todo costs no lease: the holder may be dead for long and no attempt is lost', async () => {
    const here = await desk({ maxAttempts: 1 })
    const todo = await asked(here)
    await lapseLease(app, todo.id)
    expect(await app.sweep.reap()).toBe(0)
    expect((await here.other.call('todos.claim', {})).todos).toEqual([])
    expect(await rowOf(app, todo.id)).toMatchObject({ state: 'input-required', attempt: 1 })
    expect(await attemptsOf(app, todo.id)).toMatchObject([{ outcome: null, endedAt: null }])
  })

  test('streams show the task working before anything else that follows the answer', async () => {
    const here = await desk()
    const todo = await asked(here)
    const stream = await here.a2a.stream('SubscribeToTask', { id: todo.id })
    await stream.next()
    await answer(todo.id, 'yes')
    await here.worker.call('todos.say', { ...todo.held, message: saying('thank you') })
    const frames = [await stream.next(), await stream.next()].map(
      (frame) => frame!.json.result.statusUpdate.status,
    )
    stream.close()
    expect(frames[0]).toMatchObject({ state: 'TASK_STATE_WORKING' })
    expect(frames[0].message).toBeUndefined()
    expect(frames[1].message.parts).toEqual([{ text: 'thank you' }])
  })
})

describe('parked', () => {
  test('whoever asked with hold false has given the todo up: every verb with its fence is refused', async () => {
    const here = await desk()
    const todo = await asked(here, { hold: false })
    expect(await rowOf(app, todo.id)).toMatchObject({ owner: null, lease_expires_at: null })
    await allStale(here.worker, todo)
    expect((await here.other.call('todos.claim', {})).todos).toEqual([])
    await answer(todo.id, 'yes')
    await allStale(here.worker, todo)
    const next = await here.other.claim()
    expect(next).toMatchObject({ id: todo.id, attempt: 1 })
    await allStale(here.worker, todo)
    expect(Number(next.fence)).toBeGreaterThan(Number(todo.fence))
  })

  test('the answer makes it pending with ready reason answered, and wakes an agent that waits for work', async () => {
    const here = await desk()
    const board = await openBoard(app, `queue=${here.name}`)
    const todo = await asked(here, { hold: false })
    const waiting = here.other.claim({ waitMs: 25_000 })
    expect(await answer(todo.id, 'yes')).toMatchObject({ outcome: 'requeued', answers: 3 })
    const next = await waiting
    expect(next).toMatchObject({ id: todo.id, unread: [{ answers: 3 }] })
    const frames = await board.until(
      ({ event, json }) => event === 'ready' && json.reason !== 'created',
    )
    board.close()
    expect(frames.at(-1)!.json).toMatchObject({ id: todo.id, reason: 'answered' })
    expect(frames.at(-2)!.json).toMatchObject({
      verb: 'answer',
      from: 'input-required',
      to: 'pending',
    })
  })

  test('three questions of different workers cost none of the one attempt, and each sees the whole conversation', async () => {
    const here = await desk({ maxAttempts: 1 })
    const { id } = await here.a2a.submit('work')
    const workers = [here.worker, here.other, here.worker, here.other] as const
    const said = ['work']
    for (let question = 1; question <= 3; question += 1) {
      const todo = await workers[question - 1]!.claim()
      expect(todo).toMatchObject({ id, attempt: 1, attemptsTotal: question })
      expect(texts(todo.history)).toEqual(said)
      if (todo.unread.length > 0) {
        const through = todo.unread.at(-1).seq
        await workers[question - 1]!.call('todos.acknowledge', { ...todo.held, through })
      }
      await ask(workers[question - 1]!, todo, `question ${question}`, { hold: false })
      await here.a2a.submit(`answer ${question}`, { taskId: id })
      said.push(`question ${question}`, `answer ${question}`)
    }
    const last = await workers[3].claim()
    expect(texts(last.history)).toEqual(said)
    expect(texts(last.unread)).toEqual(['answer 3'])
    await workers[3].call('todos.complete', { ...last.held, acknowledge: last.unread[0].seq })
    expect((await here.a2a.get(id)).status.state).toBe('TASK_STATE_COMPLETED')
    expect((await attemptsOf(app, id)).map(({ outcome }) => outcome)).toEqual([
      'released',
      'released',
      'released',
      'completed',
    ])
  })

  test('an approval that takes days costs no process, where the operator allows days', async () => {
    const here = await desk({ interruptTtlSeconds: 4 * DAY })
    const todo = await asked(here, { hold: false })
    await ageWait(app, 3 * DAY, todo.id)
    expect(await app.sweep.reap()).toBe(0)
    expect(await answer(todo.id, 'approved')).toMatchObject({ outcome: 'requeued' })
    expect((await here.other.claim()).unread).toMatchObject([{ message: saying('approved') }])
  })

  test('a parked wait has the same deadline, the same counters and the same end as a held one', async () => {
    const here = await desk({ maxAttempts: 2 })
    const todo = await asked(here, { hold: false })
    await ageWait(app, DAY + 1, todo.id)
    await app.sweep.reap()
    expect(await rowOf(app, todo.id)).toMatchObject({ state: 'pending', attempt: 1 })
    const again = await here.other.claim()
    expect(again.result.interrupt.message).toMatchObject(saying('May I?'))
    await ask(here.other, again, 'Still?', { hold: false })
    await ageWait(app, DAY + 1, todo.id)
    await app.sweep.reap()
    expect(await stateOf(todo.id)).toBe('failed')
    expect([await leasesExpired(app, here.name), await reclaimed(app, here.name)]).toEqual([2, 2])
    expect(await verbsOf(app, todo.id)).toEqual([
      'send',
      'claim',
      'interrupt',
      'reapInterrupt',
      'claim',
      'interrupt',
      'reapInterrupt',
    ])
  })
})
