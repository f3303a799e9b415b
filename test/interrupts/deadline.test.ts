/**
 * The deadline of a wait: each sentence of docs/design/interrupt-deadline.md on the decision, its
 * mechanics and its consequences.
 *
 * Field cases: expiry of a question; each question needs its own answer; expiry over a restart;
 * a wait that ended stays quiet.
 */
import { randomUUID } from 'node:crypto'
import { afterEach, describe, expect, test } from 'vitest'
import { INTERRUPT_TTL, LEASE } from '../../src/domain/policy.ts'
import { startNode, type Vended } from '../support/app.ts'
import { type Answer, a2aClient, agentClient } from '../support/clients/actors.ts'
import {
  ask,
  attemptsOf,
  lapseLease,
  metric,
  openBoard,
  operate,
  refusalOf,
  saying,
} from '../support/steps.ts'
import { until } from '../support/until.ts'
import {
  ageWait,
  askedInBulk,
  captureLog,
  DAY,
  leasesExpired,
  reapedLines,
  reclaimed,
  resultOf,
  rowOf,
  setting,
  startQuiet,
  TTL,
  verbsOf,
} from './support.ts'

const captured = captureLog()
const app = await startQuiet({ log: captured.log })

const desk = async (policy?: Record<string, unknown>, vend?: Record<string, unknown>) => {
  const name = `q-${randomUUID().slice(0, 8)}`
  const { client, agent } = await app.queue(name, policy)
  const own = vend
    ? await operate(app, 'endpoints.vend', {
        name: 'own',
        queues: [name],
        verbs: ['work'],
        ...vend,
      })
    : { token: agent.token }
  return {
    name,
    agent: agent as Vended,
    a2a: a2aClient(app.url, name, client.token),
    worker: agentClient(app.url, own.token),
  }
}
type Desk = Awaited<ReturnType<typeof desk>>

const asked = async ({ a2a, worker }: Desk, more: Record<string, unknown> = {}, lease = {}) => {
  await a2a.submit('work')
  const todo = await worker.claim(lease)
  const wait = await ask(worker, todo, 'May I?', more)
  return { ...todo, wait }
}

/** What one test leaves waiting is none of the next one's. */
afterEach(async () => {
  const left = await app.sql<{ id: string }>(
    `select id from todos where state in ('claimed', 'input-required', 'auth-required')`,
  )
  for (const { id } of left) await operate(app, 'todos.cancel', { id })
})

const stateOf = async (id: string): Promise<string> => (await rowOf(app, id)).state

describe('the default', () => {
  test('a wait lasts 24 hours, which is the longest lease that can be granted, so it outlives every lease its holder may have', async () => {
    expect(INTERRUPT_TTL.defaultSeconds).toBe(LEASE.maxSeconds)
    const here = await desk()
    const todo = await asked(here, {}, { leaseSeconds: LEASE.maxSeconds })
    const { deadline, interruptedAt } = todo.wait
    expect(Date.parse(deadline) - Date.parse(interruptedAt)).toBe(DAY * 1000)
    expect(Date.parse(deadline)).toBeGreaterThanOrEqual(Date.parse(todo.leaseExpiresAt))
    await refusalOf(here.worker.call('todos.claim', { leaseSeconds: LEASE.maxSeconds + 1 }))

    await ageWait(app, DAY - 30, todo.id)
    expect(await app.sweep.reap()).toBe(0)
    await ageWait(app, 31, todo.id)
    expect(await app.sweep.reap()).toBe(1)
    expect(await stateOf(todo.id)).toBe('pending')
  })

  test('touching a waiting row does not move its deadline: the wait has a clock of its own', async () => {
    const here = await desk()
    const todo = await asked(here, { schema: { type: 'object', required: ['yes'] } })
    await ageWait(app, DAY + 1, todo.id)
    const { interrupted_at } = await rowOf(app, todo.id)
    await app.sql('update todos set updated_at = now() where id = $1', [todo.id])
    await app.sql('insert into details (todo_id, result) values ($1, $2)', [todo.id, '{"a":1}'])
    await refusalOf(operate(app, 'todos.answer', { id: todo.id, message: saying('no data') }))
    expect((await rowOf(app, todo.id)).interrupted_at).toEqual(interrupted_at)
    expect(await app.sweep.reap()).toBe(1)
  })

  test('a lapsed lease does not shorten the wait: the lease sweep does not see an interrupted row', async () => {
    const todo = await asked(await desk())
    await lapseLease(app, todo.id)
    expect(await app.sweep.reap()).toBe(0)
    expect(await stateOf(todo.id)).toBe('input-required')
  })
})

describe('past the deadline', () => {
  test('below the cap the todo goes back to pending without owner, lease and stamp, its attempt is closed reaped and requeued, and the next claimant reads what was asked', async () => {
    const here = await desk({ maxAttempts: 3 })
    const todo = await asked(here)
    await ageWait(app, DAY + 1, todo.id)
    await app.sweep.reap()

    expect(await rowOf(app, todo.id)).toMatchObject({
      state: 'pending',
      owner: null,
      claimant: null,
      lease_expires_at: null,
      interrupted_at: null,
      interrupt_held_until: null,
      attempt: 1,
      finished_at: null,
    })
    expect(await attemptsOf(app, todo.id)).toMatchObject([
      {
        attempt: 1,
        outcome: 'reaped',
        disposition: 'requeued',
        cause: 'interrupt_expired',
        died: true,
      },
    ])
    expect((await here.a2a.get(todo.id)).status.state).toBe('TASK_STATE_SUBMITTED')

    const next = await here.worker.claim()
    expect(next).toMatchObject({
      id: todo.id,
      attempt: 2,
      result: {
        interrupt: { state: 'input-required', message: { parts: [{ text: 'May I?' }] } },
      },
      priorAttempts: [{ outcome: 'reaped', disposition: 'requeued', died: true }],
    })
    expect(next.result.interrupt.interruptedAt).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
    expect(next.result.error).toBeUndefined()
    for (const [method, params] of [
      ['todos.complete', {}],
      ['todos.heartbeat', {}],
      ['todos.fail', { error: { code: 'x', message: 'x' } }],
      ['todos.messages', {}],
    ] as const) {
      const refusal = await refusalOf(here.worker.call(method, { ...todo.held, ...params }))
      expect(refusal.data.reason, method).toBe('stale_fence')
    }
  })

  test('at the cap it is dead-lettered with interrupt_expired and one line that explains it, and stays ended', async () => {
    const here = await desk({ maxAttempts: 1 })
    const todo = await asked(here)
    await ageWait(app, DAY + 1, todo.id)
    await app.sweep.reap()
    expect(await rowOf(app, todo.id)).toMatchObject({
      state: 'failed',
      owner: null,
      next_retry_at: null,
      interrupted_at: null,
      finished_at: expect.any(Date),
    })
    const result = await resultOf(app, todo.id)
    expect(result).toMatchObject({
      error: 'interrupt_expired',
      interrupt: { state: 'input-required', message: { parts: [{ text: 'May I?' }] } },
    })
    expect(result.detail).toMatch(/^[^\n]{10,120}$/)
    expect(await attemptsOf(app, todo.id)).toMatchObject([
      { outcome: 'reaped', disposition: 'dead_lettered', cause: 'interrupt_expired' },
    ])
    expect((await here.a2a.get(todo.id)).status.state).toBe('TASK_STATE_FAILED')
    expect((await here.worker.call('todos.claim', {})).todos).toEqual([])
    expect(await app.sweep.reap()).toBe(0)
    expect((await operate(app, 'todos.list', { queue: here.name, dead: true })).todos).toHaveLength(
      1,
    )
  })

  test('a todo that is asked about and never answered ends after as many waits as it has attempts', async () => {
    const here = await desk({ maxAttempts: 3 })
    await here.a2a.submit('work')
    const seen: number[] = []
    let id = ''
    for (let wait = 1; wait <= 3; wait += 1) {
      const todo = await here.worker.claim()
      id = todo.id
      seen.push(todo.attempt)
      await ask(here.worker, todo, `question ${wait}`)
      await ageWait(app, DAY + 1, id)
      await app.sweep.reap()
    }
    expect(seen).toEqual([1, 2, 3])
    expect(await stateOf(id)).toBe('failed')
    expect((await resultOf(app, id)).interrupt.message.parts).toEqual([{ text: 'question 3' }])
    expect((await attemptsOf(app, id)).map(({ disposition }) => disposition)).toEqual([
      'requeued',
      'requeued',
      'dead_lettered',
    ])
  })

  test('the wait of a second question begins when that is asked', async () => {
    const here = await desk()
    const todo = await asked(here)
    await ageWait(app, DAY - 60, todo.id)
    await here.a2a.call('SendMessage', {
      message: { messageId: 'a1', role: 'ROLE_USER', taskId: todo.id, parts: [{ text: 'yes' }] },
      configuration: { returnImmediately: true },
    })
    const { messages } = await here.worker.call('todos.messages', todo.held)
    await here.worker.call('todos.acknowledge', { ...todo.held, through: messages[0].seq })
    await ask(here.worker, todo, 'And now?')
    await ageWait(app, 120, todo.id)
    expect(await app.sweep.reap()).toBe(0)
    expect(await stateOf(todo.id)).toBe('input-required')
  })

  test('the start of the wait is cleared by resume, by cancel and by the sweep', async () => {
    const here = await desk()
    const [resumed, canceled, swept] = [await asked(here), await asked(here), await asked(here)]
    expect((await rowOf(app, resumed.id)).interrupted_at).toEqual(expect.any(Date))
    await operate(app, 'todos.answer', { id: resumed.id, message: saying('yes') })
    await operate(app, 'todos.cancel', { id: canceled.id })
    await ageWait(app, DAY + 1, swept.id)
    await app.sweep.reap()
    for (const { id } of [resumed, canceled, swept]) {
      expect((await rowOf(app, id)).interrupted_at).toBeNull()
    }
  })

  test('a canceled wait has no later event, and a resumed one is not expired by its old clock', async () => {
    const here = await desk()
    const [canceled, resumed] = [await asked(here), await asked(here)]
    await ageWait(app, DAY - 1, canceled.id, resumed.id)
    await operate(app, 'todos.cancel', { id: canceled.id })
    await operate(app, 'todos.answer', { id: resumed.id, message: saying('yes') })
    expect(await app.sweep.reap()).toBe(0)
    expect(await verbsOf(app, canceled.id)).toEqual(['send', 'claim', 'interrupt', 'cancel'])
    expect(await verbsOf(app, resumed.id)).toEqual(['send', 'claim', 'interrupt', 'resume'])
  })

  test('the sweep is nobody’s own: it takes back what several agents hold in several queues', async () => {
    const todos = await Promise.all([desk(), desk(), desk()].map(async (each) => asked(await each)))
    await ageWait(app, DAY + 1, ...todos.map(({ id }) => id))
    expect(await app.sweep.reap()).toBe(3)
  })

  test('a todo that never interrupts, or whose lease lapses, is swept as before', async () => {
    const here = await desk()
    await here.a2a.submit('quiet')
    await here.a2a.submit('held')
    const todo = await here.worker.claim()
    expect(await app.sweep.reap()).toBe(0)
    await lapseLease(app, todo.id)
    expect(await app.sweep.reap()).toBe(1)
    expect(await attemptsOf(app, todo.id)).toMatchObject([
      { outcome: 'reaped', disposition: 'requeued', cause: 'lease_expired' },
    ])
    expect(await resultOf(app, todo.id)).toBeNull()
  })
})

describe('what is seen of it', () => {
  test('each reclaimed row counts once in both counters, below the cap and at it, held and parked, and so does each closed attempt', async () => {
    const here = await desk({ maxAttempts: 2 })
    const below = await asked(here)
    const parked = await asked(here, { hold: false })
    await ageWait(app, DAY + 1, below.id, parked.id)
    await app.sweep.reap()
    const again = [await here.worker.claim(), await here.worker.claim()]
    for (const todo of again) await ask(here.worker, todo, 'Again?')
    await ageWait(app, DAY + 1, below.id, parked.id)
    await app.sweep.reap()
    expect(await Promise.all([below.id, parked.id].map(stateOf))).toEqual(['failed', 'failed'])
    expect(await leasesExpired(app, here.name)).toBe(4)
    expect(await reclaimed(app, here.name)).toBe(4)
    const labels = `queue="${here.name}"`
    expect(await metric(app, `switchboard_attempts_ended_total{${labels},outcome="reaped"}`)).toBe(
      4,
    )
    expect(await metric(app, `switchboard_todos_finished_total{${labels},state="failed"}`)).toBe(2)
  })

  test('lapsed leases and overdue interrupts of one tick are one log line', async () => {
    const here = await desk()
    const waiting = await asked(here)
    await here.a2a.submit('work')
    const working = await here.worker.claim()
    await ageWait(app, DAY + 1, waiting.id)
    await lapseLease(app, working.id)
    captured.lines.length = 0
    await app.sweep.reap()
    expect(captured.lines).toHaveLength(1)
    expect(reapedLines(captured)).toMatchObject([{ count: 2 }])
  })

  test('the board is told of the transition with the committed state, and of a ready todo with reason requeued unless it is dead', async () => {
    const here = await desk({ maxAttempts: 2 })
    const board = await openBoard(app, `after=0&queue=${here.name}`)
    const todo = await asked(here)
    await ageWait(app, DAY + 1, todo.id)
    await app.sweep.reap()
    await ask(here.worker, await here.worker.claim(), 'Again?')
    await ageWait(app, DAY + 1, todo.id)
    await app.sweep.reap()
    const frames = await board.until(({ json }) => json.to === 'failed')
    await here.a2a.submit('the next one')
    const after = await board.until(({ event }) => event === 'ready')
    board.close()
    const told = frames.slice(frames.findIndex(({ json }) => json.verb === 'reapInterrupt'))
    expect(told.map(({ event, json }) => [event, json.verb ?? json.reason])).toEqual([
      ['transition', 'reapInterrupt'],
      ['ready', 'requeued'],
      ['transition', 'claim'],
      ['transition', 'interrupt'],
      ['transition', 'reapInterrupt'],
    ])
    expect(told[0]!.json).toMatchObject({ id: todo.id, from: 'input-required', to: 'pending' })
    expect(told.at(-1)!.json).toMatchObject({
      from: 'input-required',
      to: 'failed',
      detail: { error: { code: 'interrupt_expired' } },
    })
    expect(after.map(({ json }) => json.verb ?? json.reason)).toEqual(['send', 'created'])
  })

  test('a client’s stream shows the task as submitted again', async () => {
    const here = await desk()
    const todo = await asked(here)
    const stream = await here.a2a.stream('SubscribeToTask', { id: todo.id })
    await stream.next()
    await ageWait(app, DAY + 1, todo.id)
    await app.sweep.reap()
    const frame = await stream.next()
    stream.close()
    expect(frame!.json.result.statusUpdate.status.state).toBe('TASK_STATE_SUBMITTED')
  })

  test('the gauges show how many wait and for how long the oldest has, from the first scrape on', async () => {
    const here = await desk()
    const count = (state: string) =>
      metric(app, `switchboard_queue_todos{queue="${here.name}",state="${state}"}`)
    const oldest = () => metric(app, `switchboard_interrupt_oldest_seconds{queue="${here.name}"}`)
    const scrape = await (await fetch(`${app.url}/metrics`)).text()
    for (const series of [
      `switchboard_interrupt_oldest_seconds{queue="${here.name}"} 0`,
      `switchboard_queue_todos{queue="${here.name}",state="input-required"} 0`,
      `switchboard_queue_todos{queue="${here.name}",state="auth-required"} 0`,
    ]) {
      expect(scrape).toContain(`${series}\n`)
    }
    const first = await asked(here)
    await asked(here, { state: 'auth-required' })
    await ageWait(app, 5000, first.id)
    expect([await count('input-required'), await count('auth-required')]).toEqual([1, 1])
    expect(Math.floor((await oldest()) / 100)).toBe(50)
    await operate(app, 'todos.answer', { id: first.id, message: saying('yes') })
    expect(await oldest()).toBeLessThan(100)
  })

  test('a queue that was made on another node has its counters at zero here, too', async () => {
    const other = await startNode(app.databaseUrl, { reapMs: 3_600_000 })
    try {
      const { name } = await desk()
      const text = await (await fetch(`${other.url}/metrics`)).text()
      expect(text).toContain(`switchboard_interrupt_leases_reclaimed_total{queue="${name}"} 0\n`)
      expect(text).toContain(`switchboard_todo_leases_expired_total{queue="${name}"} 0\n`)
    } finally {
      await other.stop()
    }
  })

  test('the sweep tells its own duration, rows and failures', async () => {
    const todo = await asked(await desk())
    const rows = () => metric(app, 'switchboard_sweep_rows_total{sweep="interrupt"}')
    await app.sweep.reap()
    const before = await rows()
    await ageWait(app, DAY + 1, todo.id)
    await app.sweep.reap()
    expect(await rows()).toBe(before + 1)
    const text = await (await fetch(`${app.url}/metrics`)).text()
    expect(text).toContain('switchboard_sweep_failures_total{sweep="reap"} 0\n')
    expect(text).toMatch(/switchboard_sweep_seconds_count\{sweep="reap"\} \d/)
  })
})

describe('the setting', () => {
  /** Null is never. */
  test.each<[string | null, number | null]>([
    [null, DAY],
    ['3600', 3600],
    [' 90 ', 90],
    ['1', 60],
    ['59', 60],
    ['60', 60],
    ['0', null],
    ['-1', null],
    ['-86400', null],
    ['', DAY],
    ['a day', DAY],
    ['1.5', DAY],
    ['9007199254740991', INTERRUPT_TTL.maxSeconds],
  ])('%j makes a wait of %j seconds, from the next tick on', async (value, seconds) => {
    const todo = await asked(await desk())
    await setting(app, TTL, value)
    try {
      const { until: deadline } = await operate(app, 'todos.why', { id: todo.id })
      const since = (await rowOf(app, todo.id)).interrupted_at.getTime()
      expect(deadline && Date.parse(deadline) - since).toBe(seconds && seconds * 1000)
      await ageWait(app, (seconds ?? 20 * 365 * DAY) - 20, todo.id)
      expect(await app.sweep.reap()).toBe(0)
      await ageWait(app, 21, todo.id)
      expect(await app.sweep.reap()).toBe(seconds ? 1 : 0)
    } finally {
      await setting(app, TTL, null)
      await operate(app, 'todos.cancel', { id: todo.id })
    }
  })

  test('a value that does not parse is logged once each time it changes, not at every tick', async () => {
    captured.lines.length = 0
    for (const value of ['a day', 'a day', 'a week', '3600', 'a week']) {
      await setting(app, TTL, value)
      await app.sweep.reap()
      await app.sweep.reap()
    }
    await setting(app, TTL, null)
    await app.sweep.reap()
    expect(captured.lines).toMatchObject([
      { level: 'warn', setting: TTL, value: 'a day' },
      { level: 'warn', setting: TTL, value: 'a week' },
      { level: 'warn', setting: TTL, value: 'a week' },
    ])
  })

  test('a row of the table that nobody announced is read within two seconds all the same', async () => {
    const todo = await asked(await desk())
    await ageWait(app, 100, todo.id)
    await app.sql(`insert into settings (key, value) values ($1, '60')`, [TTL])
    await until(async () => (await app.sweep.reap()) === 1)
    await setting(app, TTL, null)
  })
})

describe('precedence', () => {
  test('an endpoint’s wait rules over its queue’s, that over the setting, that over the default, held and parked alike', async () => {
    const cases = await Promise.all(
      [undefined, 500].flatMap((endpoint) =>
        [undefined, 1000].flatMap((queue) =>
          [true, false].map(async (hold) => {
            const here = await desk(
              queue === undefined ? undefined : { interruptTtlSeconds: queue },
              endpoint === undefined ? {} : { interruptTtlSeconds: endpoint },
            )
            const todo = await asked(here, { hold })
            return { todo, own: endpoint ?? queue, text: JSON.stringify({ endpoint, queue, hold }) }
          }),
        ),
      ),
    )
    try {
      for (const value of [null, '2000']) {
        await setting(app, TTL, value)
        for (const { todo, own, text } of cases) {
          const expected = own ?? (value === null ? DAY : 2000)
          const { until: deadline } = await operate(app, 'todos.why', { id: todo.id })
          const { interrupted_at } = await rowOf(app, todo.id)
          expect(Date.parse(deadline) - interrupted_at.getTime(), text).toBe(expected * 1000)
        }
      }
      // The setting is 2000 now.
      const early = cases.map(({ todo, own }) => ageWait(app, (own ?? 2000) - 20, todo.id))
      await Promise.all(early)
      expect(await app.sweep.reap()).toBe(0)
      await ageWait(app, 21, ...cases.map(({ todo }) => todo.id))
      expect(await app.sweep.reap()).toBe(cases.length)
    } finally {
      await setting(app, TTL, null)
    }
  })

  test.each([
    ['an endpoint', {}, { interruptTtlSeconds: 0 }],
    ['a queue', { interruptTtlSeconds: -5 }, {}],
  ])('%s may have no deadline at all, whatever the setting says', async (_, policy, vend) => {
    const todo = await asked(await desk(policy, vend))
    expect(todo.wait.deadline).toBeNull()
    await ageWait(app, 400 * DAY, todo.id)
    expect(await app.sweep.reap()).toBe(0)
    await operate(app, 'todos.cancel', { id: todo.id })
  })

  test.each([
    ['an endpoint', {}, { interruptTtlSeconds: 1 }],
    ['a queue', { interruptTtlSeconds: 30 }, {}],
  ])('%s with less than a minute has a minute', async (_, policy, vend) => {
    const todo = await asked(await desk(policy, vend))
    expect(Date.parse(todo.wait.deadline) - Date.parse(todo.wait.interruptedAt)).toBe(60_000)
    await ageWait(app, 45, todo.id)
    expect(await app.sweep.reap()).toBe(0)
    await ageWait(app, 16, todo.id)
    expect(await app.sweep.reap()).toBe(1)
  })

  test('a queue with a wait of its own has it also where the setting switches the sweep off', async () => {
    await setting(app, TTL, '0')
    const todo = await asked(await desk({ interruptTtlSeconds: 100 }))
    const unbounded = await asked(await desk())
    await ageWait(app, 101, todo.id, unbounded.id)
    expect(await app.sweep.reap()).toBe(1)
    expect(await stateOf(unbounded.id)).toBe('input-required')
    await setting(app, TTL, null)
    await operate(app, 'todos.cancel', { id: unbounded.id })
  })
})

describe('many rows, several nodes, bad rows', () => {
  const bulk = async (count: number) => {
    const here = await desk()
    const owner = here.agent.endpoint.id
    return { here, ids: await askedInBulk(app, { queue: here.name, owner, count, age: DAY + 10 }) }
  }

  test('two nodes that sweep at the same time count each reclaim once', async () => {
    const other = await startNode(app.databaseUrl, { reapMs: 3_600_000 })
    try {
      await until(() => metric(other, 'switchboard_sweep_seconds_count{sweep="reap"}'))
      const { here, ids } = await bulk(1000)
      const [mine, theirs] = await Promise.all([app.sweep.reap(), other.sweep.reap()])
      expect(mine + theirs).toBe(ids.length)
      for (const counter of [leasesExpired, reclaimed]) {
        expect((await counter(app, here.name)) + (await counter(other, here.name))).toBe(ids.length)
      }
      const [closed] = await app.sql(
        `select count(*)::int as attempts, (select count(*)::int from events
           where queue = $1 and verb = 'reapInterrupt') as events
         from attempts where todo_id = any($2::uuid[]) and outcome = 'reaped'`,
        [here.name, ids],
      )
      expect(closed).toEqual({ attempts: ids.length, events: ids.length })
    } finally {
      await other.stop()
    }
  })

  test('waits that ran out while every node was down expire at the first tick, once each', async () => {
    const { here, ids } = await bulk(3)
    const other = await startNode(app.databaseUrl, { reapMs: 3_600_000 })
    try {
      await until(async () => (await reclaimed(other, here.name)) === 3)
      for (const id of ids) expect(await verbsOf(app, id)).toEqual(['reapInterrupt'])
    } finally {
      await other.stop()
    }
  })

  test('a row that cannot be moved does not stop the sweep: it is logged with its id and left', async () => {
    const { ids } = await bulk(450)
    const [poisoned] = ids as [string]
    await app.sql(`
      create function refuse() returns trigger language plpgsql as $$
        begin raise exception 'poisoned'; end $$;
      create trigger poison before update on todos for each row
        when (old.id = '${poisoned}') execute function refuse()`)
    captured.lines.length = 0
    try {
      expect(await app.sweep.reap()).toBe(449)
      expect(captured.lines.filter(({ level }: Answer) => level === 'error')).toMatchObject([
        { todo: poisoned, verb: 'reapInterrupt' },
      ])
      expect(reapedLines(captured)).toMatchObject([{ count: 449 }])
      expect(await stateOf(poisoned)).toBe('input-required')
      expect(await app.sweep.reap()).toBe(0)
    } finally {
      await app.sql('drop trigger poison on todos; drop function refuse')
    }
    expect(await app.sweep.reap()).toBe(1)
  })

  test('thousands of overdue rows are swept in bounded batches, each its own short transaction', async () => {
    const { ids } = await bulk(5000)
    await app.sql(`
      create table batches (rows int, transaction bigint default txid_current());
      create function note() returns trigger language plpgsql as $$
        begin insert into batches (rows) select count(*) from fresh; return null; end $$;
      create trigger batch after insert on events referencing new table as fresh
        for each statement execute function note()`)
    expect(await app.sweep.reap()).toBe(5000)
    const [seen] = await app.sql<Answer>(
      `select sum(rows)::int as rows, max(per)::int as largest, count(*)::int as transactions from (
         select transaction, sum(rows) as rows, sum(rows) as per from batches group by transaction) b`,
    )
    await app.sql('drop trigger batch on events; drop function note; drop table batches')
    expect(seen.rows).toBe(ids.length)
    expect(seen.largest).toBeLessThanOrEqual(200)
    expect(seen.transactions).toBeGreaterThanOrEqual(25)
  })
})
