/** Limits on how much runs at once: who waits for a place, who is told of one, and what is said. */
import { describe, expect, test } from 'vitest'
import { type App, startApp, startNode } from '../support/app.ts'
import { a2aClient, agentClient } from '../support/clients/actors.ts'
import { type Claimed, lapseLease, operate, saying } from '../support/steps.ts'
import { until } from '../support/until.ts'

// Nobody polls, and a wait is longer than a test may take: whoever goes on was woken.
const IDLE = { reapMs: 3_600_000, pollMs: 3_600_000 }
const app = await startApp(IDLE)

type Agent = ReturnType<typeof agentClient>

let desks = 0
/** A queue, its client, and as many agents as are wanted. */
const desk = async (policy: object = {}) => {
  desks += 1
  const name = `desk-${desks}`
  await operate(app, 'queues.put', {
    name,
    policy: { contexts: 'parallel', maxAttempts: 1, ...policy },
  })
  const a2a = a2aClient(app.url, name, (await app.vend(['send'], [name])).token)
  let vended = 0
  return {
    name,
    put: (changed: object) => operate(app, 'queues.put', { name, policy: changed }),
    send: async (): Promise<string> => (await a2a.submit('a job')).id,
    vend: async (concurrency?: number) => {
      vended += 1
      const { endpoint, token } = await operate(app, 'endpoints.vend', {
        name: `${name}-agent-${vended}`,
        queues: [name],
        verbs: ['work', 'send'],
        ...(concurrency && { concurrency }),
      })
      const { id, name: label } = endpoint
      return { id: id as string, name: label as string, token, at: agentClient(app.url, token) }
    },
  }
}

const waiting = async (on: Pick<App, 'metrics'>): Promise<number> =>
  (await on.metrics.waitingClaims.get()).values[0]!.value

/** A claim that waits, and has found no place. */
const waitsForRoom = async (at: Agent, on: Pick<App, 'metrics'> = app) => {
  const before = await waiting(on)
  const next = at.claim({ waitMs: 60_000 })
  await until(async () => (await waiting(on)) === before + 1, { what: 'a claim waits' })
  expect((await at.call('todos.claim', {})).todos).toEqual([])
  return { next }
}

const expire = async (id: string): Promise<void> => {
  await app.sql('update todos set close_at = now(), alarm_at = now() where id = $1', [id])
  await app.sweep.timeOut()
}

/** Everything that ends or parks a todo so that it is not claimable again at once. */
const LEAVING: [string, (at: Agent, todo: Claimed, queue: string) => Promise<unknown>][] = [
  ['a completion', (at, { held }) => at.call('todos.complete', held)],
  ['a rejection', (at, { held }) => at.call('todos.reject', held)],
  [
    'a failure',
    (at, { held }) =>
      at.call('todos.fail', { ...held, error: { code: 'x', message: 'x' }, retryable: false }),
  ],
  [
    'a question',
    (at, { held }) =>
      at.call('todos.interrupt', { ...held, state: 'input-required', message: saying('which?') }),
  ],
  [
    'a join',
    async (at, { held }, queue) => {
      // Its child waits behind the one that was sent before.
      const children = [{ queue, message: saying('later') }]
      const made = await at.call('todos.fork', { ...held, children })
      await at.call('todos.join', { ...held, children: [made.children[0].id], until: 'all' })
    },
  ],
  ['a cancel', (_, { id }) => operate(app, 'todos.cancel', { id })],
  [
    'the reaper',
    async (_, { id }) => {
      await lapseLease(app, id)
      await app.sweep.reap()
    },
  ],
  ['a limit on its time', (_, { id }) => expire(id)],
]

describe.each(['queue', 'endpoint'])('a place within the limit of the %s', (whose) => {
  test.each(LEAVING)(
    'that is freed by %s is taken at once by who waits for it',
    async (_, leave) => {
      const here = await desk(whose === 'queue' ? { concurrency: 1 } : {})
      const { at } = await here.vend(whose === 'endpoint' ? 1 : undefined)
      await here.send()
      const todo = await at.claim()
      const second = await here.send()
      const { next } = await waitsForRoom(at)
      await leave(at, todo, here.name)
      expect((await next).id).toBe(second)
    },
  )

  test('that is freed on another node is taken at once, too', async () => {
    const node = await startNode(app.databaseUrl, IDLE)
    try {
      const here = await desk(whose === 'queue' ? { concurrency: 1 } : {})
      const { at, token } = await here.vend(whose === 'endpoint' ? 1 : undefined)
      await here.send()
      const todo = await at.claim()
      const second = await here.send()
      const { next } = await waitsForRoom(agentClient(node.url, token), node)
      await operate(app, 'todos.cancel', { id: todo.id })
      expect((await next).id).toBe(second)
    } finally {
      await node.stop()
    }
  })

  test('is not taken by a holder whose lease has lapsed', async () => {
    const here = await desk({ ...(whose === 'queue' && { concurrency: 1 }), maxAttempts: 5 })
    const { at } = await here.vend(whose === 'endpoint' ? 1 : undefined)
    const first = await here.send()
    const todo = await at.claim()
    const second = await here.send()
    expect((await at.call('todos.claim', {})).todos).toEqual([])
    await lapseLease(app, todo.id)
    const next = await at.claim()
    expect([first, second]).toContain(next.id)
    expect((await at.call('todos.claim', {})).todos).toEqual([])
  })
})

test('a call that reaches an endpoint at its limit goes on to one that is not', async () => {
  const here = await desk()
  const small = await here.vend(1)
  const other = await here.vend()
  await here.send()
  const todo = await small.at.claim()
  // Three that cannot, and behind them one that can.
  const full = []
  for (let n = 0; n < 3; n += 1) full.push(await waitsForRoom(small.at))
  const { next } = await waitsForRoom(other.at)
  const second = await here.send()
  expect((await next).id).toBe(second)
  // Those in front were passed over, and not forgotten: each goes on when one before it has ended.
  for (let n = 0; n < 3; n += 1) await here.send()
  const ended = full.map(async (one) =>
    small.at.call('todos.complete', { ...(await one.next).held }),
  )
  await small.at.call('todos.complete', todo.held)
  await Promise.all(ended)
})

describe('a limit that is changed', () => {
  test('of a queue lets those who wait go on at once; null is none', async () => {
    const here = await desk({ concurrency: 1 })
    const { at } = await here.vend()
    for (let n = 0; n < 4; n += 1) await here.send()
    await at.claim()
    const raised = await waitsForRoom(at)
    expect((await here.put({ concurrency: 2 })).policy.concurrency).toBe(2)
    await raised.next
    const unset = [await waitsForRoom(at), await waitsForRoom(at)]
    const { policy } = await here.put({ concurrency: null })
    expect(policy).toMatchObject({ contexts: 'parallel', maxAttempts: 1 })
    expect(policy).not.toHaveProperty('concurrency')
    await Promise.all(unset.map(({ next }) => next))
    // What is left out keeps its value: none.
    expect((await here.put({ maxAttempts: 2 })).policy).not.toHaveProperty('concurrency')
  })

  test('of an endpoint, too', async () => {
    const here = await desk()
    const { at, id } = await here.vend(1)
    const update = async (change: object) =>
      (await operate(app, 'endpoints.update', { id, ...change })).endpoint.concurrency
    for (let n = 0; n < 4; n += 1) await here.send()
    await at.claim()
    const raised = await waitsForRoom(at)
    expect(await update({ concurrency: 2 })).toBe(2)
    await raised.next
    const unset = [await waitsForRoom(at), await waitsForRoom(at)]
    expect(await update({ name: 'renamed' })).toBe(2)
    expect(await update({ concurrency: null })).toBeNull()
    await Promise.all(unset.map(({ next }) => next))
    expect(await update({ name: 'again' })).toBeNull()
  })
})

describe('why', () => {
  const why = (id: string) => operate(app, 'todos.why', { id })
  const leaseOf = async (id: string): Promise<string> =>
    (await operate(app, 'todos.show', { id })).leaseExpiresAt

  test('names the endpoints at their limits, and the first lease among theirs to lapse', async () => {
    const here = await desk()
    const small = await here.vend(2)
    for (let n = 0; n < 2; n += 1) await here.send()
    const longer = await small.at.claim({ leaseSeconds: 2000 })
    const shorter = await small.at.claim({ leaseSeconds: 1000 })
    const id = await here.send()
    const told = await why(id)
    expect(told.why).toMatch(
      new RegExp(
        `until one of the todos at work ends or asks: 2 of 2 running for endpoint ${small.name}$`,
      ),
    )
    expect(told.until).toBe(await leaseOf(shorter.id))
    // A limit on its time may come before the lease.
    await app.sql(
      `update todos set start_to_close_seconds = 60, alarm_at = started_at + interval '60 seconds'
      where id = $1`,
      [longer.id],
    )
    const { alarm } = (
      await app.sql<{ alarm: Date }>('select alarm_at as alarm from todos where id = $1', [
        longer.id,
      ])
    )[0]!
    expect((await why(id)).until).toBe(alarm.toISOString())

    const other = await here.vend(5)
    const may = await why(id)
    expect(may.why).toContain(
      `an agent of ${here.name} claims it (2 endpoints may; 2 of 2 running for endpoint ${small.name})`,
    )
    expect(may.until).toBeNull()
    expect((await other.at.claim()).id).toBe(id)
  })

  test('names the limit of the queue, and who is at its own besides', async () => {
    const here = await desk({ concurrency: 2 })
    const small = await here.vend(1)
    const other = await here.vend()
    for (let n = 0; n < 2; n += 1) await here.send()
    await small.at.claim({ leaseSeconds: 1000 })
    const { id: held } = await other.at.claim({ leaseSeconds: 500 })
    const id = await here.send()
    const told = await why(id)
    expect(told.why).toContain(
      `one of the todos at work ends or asks: 2 of 2 running for queue ${here.name}, 1 of 1 running for endpoint ${small.name}`,
    )
    expect(told.until).toBe(await leaseOf(held))
    // A lapsed lease holds no place.
    await lapseLease(app, held)
    expect((await why(id)).why).toContain('claims it (2 endpoints may; 1 of 1')
  })
})
