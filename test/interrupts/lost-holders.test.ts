/**
 * Holders that die while they wait: one that has said that it lives and stops is parked, and its answer goes
 * to whoever claims next; of one that never says anything only the answer tells, by a short lease.
 */
import { randomUUID } from 'node:crypto'
import { afterEach, describe, expect, test } from 'vitest'
import { createAgent } from '../../src/agent-kit/agent.ts'
import { ADMIN_TOKEN } from '../support/app.ts'
import { type Answer, a2aClient, agentClient } from '../support/clients/actors.ts'
import { ask, attemptsOf, metric, openBoard, operate, refusalOf, saying } from '../support/steps.ts'
import { until } from '../support/until.ts'
import {
  ageWait,
  captureLog,
  DAY,
  leasesExpired,
  reclaimed,
  resultOf,
  rowOf,
  setting,
  startQuiet,
  verbsOf,
} from './support.ts'

const captured = captureLog()
const app = await startQuiet({ log: captured.log })
const ANSWER_LEASE = 'answer_lease_seconds'

const desk = async (policy: Record<string, unknown> = {}) => {
  const name = `q-${randomUUID().slice(0, 8)}`
  const { client, agent } = await app.queue(name, policy)
  return {
    name,
    agent,
    a2a: a2aClient(app.url, name, client.token),
    worker: agentClient(app.url, agent.token),
  }
}
type Desk = Awaited<ReturnType<typeof desk>>

const asked = async ({ a2a, worker }: Desk, more: Record<string, unknown> = {}) => {
  await a2a.submit('work')
  const todo = await worker.claim()
  await ask(worker, todo, 'May I?', more)
  return todo
}

/** The holder has heartbeated during the wait, and has then said nothing for longer than its lease. */
const dies = async ({ worker }: Desk, todo: Awaited<ReturnType<typeof asked>>) => {
  await worker.call('todos.heartbeat', todo.held)
  await silent(todo.id)
}
const silent = (...ids: string[]) =>
  app.sql(
    `update todos set lease_expires_at = now() - interval '1 second',
      wait_probe_at = case when wait_probe_at is not null then now() - interval '1 second' end,
      interrupt_held_until = case when interrupt_held_until is not null
        then now() - interval '1 second' end
    where id = any($1::uuid[])`,
    [ids],
  )

const answer = async (id: string, text = 'yes'): Promise<Answer> =>
  (await operate(app, 'todos.answer', { id, message: saying(text) })).receipt
const why = async (id: string): Promise<string> => (await operate(app, 'todos.why', { id })).why
const lost = ({ name }: Desk) => metric(app, `switchboard_wait_holders_lost_total{queue="${name}"}`)
const unheard = ({ name }: Desk) =>
  metric(app, `switchboard_answers_unheard_total{queue="${name}"}`)
const leaseLeft = async (id: string): Promise<number> =>
  Number(
    (
      await app.sql<Answer>(
        'select extract(epoch from lease_expires_at - now()) as s from todos where id = $1',
        [id],
      )
    )[0].s,
  )
const parkedLines = () =>
  captured.lines.filter(({ msg }) => msg === 'parked waits of holders that are gone')

afterEach(async () => {
  const left = await app.sql<{ id: string }>(
    `select id from todos where state in ('claimed', 'input-required', 'auth-required', 'pending')`,
  )
  for (const { id } of left) await operate(app, 'todos.cancel', { id })
})

describe('a holder that has heartbeated during its wait, and stops', () => {
  test('is parked, which event, board, counter, log and why tell; its answer goes to the next claim and costs no attempt', async () => {
    const here = await desk({ maxAttempts: 1 })
    const board = await openBoard(app, `queue=${here.name}`)
    const todo = await asked(here)
    await dies(here, todo)
    const { interrupted_at } = await rowOf(app, todo.id)
    const before = parkedLines().length
    // It is no lease or wait that was taken back.
    expect(await app.sweep.reap()).toBe(0)
    expect(await rowOf(app, todo.id)).toMatchObject({
      state: 'input-required',
      owner: null,
      interrupted_at,
      attempt: 1,
    })
    expect((await verbsOf(app, todo.id)).at(-1)).toBe('park')
    const frames = await board.until(({ json }) => json.verb === 'park')
    expect(frames.at(-1)).toMatchObject({
      event: 'transition',
      json: { id: todo.id, from: 'input-required', to: 'input-required', phase: 'interrupted' },
    })
    const { lanes }: Answer = await (
      await fetch(`${app.url}/board/todos?queue=${here.name}`, {
        headers: { Authorization: `Bearer ${ADMIN_TOKEN}` },
      })
    ).json()
    expect(lanes.interrupted.todos).toMatchObject([{ id: todo.id, parked: true }])
    board.close()
    expect(await lost(here)).toBe(1)
    expect(await leasesExpired(app, here.name)).toBe(0)
    expect(parkedLines().slice(before)).toMatchObject([{ count: 1 }])
    expect(await why(todo.id)).toContain('parked, since')
    for (const method of ['todos.heartbeat', 'todos.progress', 'todos.messages']) {
      expect((await refusalOf(here.worker.call(method, todo.held))).data.reason).toBe('stale_fence')
    }

    expect(await answer(todo.id)).toMatchObject({ outcome: 'requeued' })
    const again = await here.worker.claim()
    expect(again).toMatchObject({
      id: todo.id,
      attempt: 1,
      unread: [{ message: { parts: [{ text: 'yes' }] } }],
      priorAttempts: [{ outcome: 'released', died: true }],
    })
    expect(await attemptsOf(app, todo.id)).toMatchObject([{ cause: 'holder_lost' }, {}])
    await here.worker.call('todos.complete', { ...again.held, acknowledge: again.unread[0].seq })
    // The next sweep has nothing to tell.
    await app.sweep.reap()
    expect(await lost(here)).toBe(1)
  })

  test('is parked once its lease and the wait it asked for are both over, and not before', async () => {
    const here = await desk()
    const todo = await asked(here)
    await here.worker.call('todos.heartbeat', { ...todo.held, holdSeconds: 3600 })
    const set = (columns: string) => app.sql(`update todos set ${columns} where id = $1`, [todo.id])
    const isParked = async (): Promise<boolean> => {
      await app.sweep.reap()
      return (await rowOf(app, todo.id)).owner === null
    }
    const past = `now() - interval '1 second'`
    await set(`wait_probe_at = ${past}`)
    expect(await isParked()).toBe(false)
    await set(`lease_expires_at = ${past}`)
    expect(await isParked()).toBe(false)
    // A heartbeat saves it in time.
    await set(`interrupt_held_until = ${past}`)
    await here.worker.call('todos.heartbeat', todo.held)
    expect(await isParked()).toBe(false)
    await silent(todo.id)
    expect(await isParked()).toBe(true)
  })

  test('goes back to its queue at the deadline like one that is held, with a dead letter at the cap', async () => {
    for (const parkedFirst of [true, false]) {
      const here = await desk({ maxAttempts: 2 })
      const todo = await asked(here)
      await dies(here, todo)
      if (parkedFirst) await app.sweep.reap()
      await ageWait(app, DAY + 1, todo.id)
      expect(await app.sweep.reap()).toBe(1)
      expect(await rowOf(app, todo.id)).toMatchObject({ state: 'pending', attempt: 1 })
      expect(await lost(here)).toBe(parkedFirst ? 1 : 0)
      expect(await reclaimed(app, here.name)).toBe(1)
      const again = await here.worker.claim()
      expect(again.priorAttempts).toMatchObject([{ outcome: 'reaped', died: true }])
      await ask(here.worker, again, 'Really?')
      await dies(here, again)
      if (parkedFirst) await app.sweep.reap()
      await ageWait(app, DAY + 1, todo.id)
      await app.sweep.reap()
      expect(await rowOf(app, todo.id)).toMatchObject({ state: 'failed' })
      expect(await resultOf(app, todo.id)).toMatchObject({ error: 'interrupt_expired' })
    }
  })

  test('and is then revoked: the question stays open where others may claim it, else it is a dead letter', async () => {
    const here = await desk()
    const second = await app.vend(['work'], [here.name])
    const todo = await asked(here)
    await dies(here, todo)
    await app.sweep.reap()
    const revoke = (id: string) => operate(app, 'endpoints.revoke', { id })
    const { caller } = here.agent
    await revoke(caller.kind === 'endpoint' ? caller.endpoint.id : '')
    expect(await rowOf(app, todo.id)).toMatchObject({ state: 'input-required', owner: null })
    await revoke(second.caller.kind === 'endpoint' ? second.caller.endpoint.id : '')
    await app.sweep.reap()
    expect(await rowOf(app, todo.id)).toMatchObject({ state: 'failed' })
    expect(await resultOf(app, todo.id)).toMatchObject({ error: 'endpoint_revoked' })
  })

  test('and whose answer waits for its turn in line: the next claim has it once the line is free', async () => {
    const here = await desk()
    const contextId = randomUUID()
    await here.a2a.submit('first', { contextId })
    const todo = await here.worker.claim()
    await ask(here.worker, todo, 'May I?')
    await here.a2a.submit('second', { contextId })
    const other = await here.worker.claim()
    await here.worker.call('todos.heartbeat', todo.held)
    expect(await answer(todo.id)).toMatchObject({ outcome: 'deferred' })
    await silent(todo.id)
    await app.sweep.reap()
    expect((await rowOf(app, todo.id)).owner).toBe(null)
    await here.worker.call('todos.complete', other.held)
    expect(await here.worker.claim()).toMatchObject({ id: todo.id, attempt: 1 })
    expect(await verbsOf(app, todo.id)).toContain('answerLater')
  })
})

describe('a holder that never heartbeats during its wait', () => {
  test('keeps its todo until the deadline, however long its lease has lapsed', async () => {
    const here = await desk()
    const todo = await asked(here)
    await silent(todo.id)
    await ageWait(app, DAY - 60, todo.id)
    expect(await app.sweep.reap()).toBe(0)
    expect((await rowOf(app, todo.id)).owner).not.toBe(null)
    expect(await answer(todo.id)).toMatchObject({ outcome: 'resumed' })
    await here.worker.call('todos.complete', { ...todo.held, acknowledge: 100 })
  })

  test.each([
    ['heartbeat', {}],
    ['progress', {}],
    ['say', { message: saying('x') }],
    ['artifact', { artifact: { artifactId: 'a', ...saying('x') } }],
    ['acknowledge', { through: 100 }],
  ])(
    'gets a lease of a minute with its answer, which todos.%s makes whole',
    async (verb, params) => {
      const here = await desk()
      const todo = await asked(here)
      await answer(todo.id)
      const short = await leaseLeft(todo.id)
      expect(short).toBeGreaterThan(30)
      expect(short).toBeLessThanOrEqual(60)
      expect(await why(todo.id)).toContain('not heard of since the answer')
      await here.worker.call(`todos.${verb}`, { ...todo.held, ...params })
      expect(await leaseLeft(todo.id)).toBeGreaterThan(270)
      expect(await why(todo.id)).not.toContain('not heard of since the answer')
      // The second call finds nothing to mend.
      await app.sql(`update todos set lease_expires_at = now() + interval '40 s' where id = $1`, [
        todo.id,
      ])
      await here.worker.call('todos.progress', todo.held)
      expect(await leaseLeft(todo.id)).toBeLessThanOrEqual(40)
    },
  )

  test('has as long as the setting says; with 0 its lease is whole, as is that of one that holds on', async () => {
    const here = await desk()
    const leaseFor = async (value: string | null, holds = false) => {
      const todo = await asked(here)
      if (holds) await here.worker.call('todos.heartbeat', todo.held)
      await setting(app, ANSWER_LEASE, value)
      try {
        await answer(todo.id)
        return await leaseLeft(todo.id)
      } finally {
        await setting(app, ANSWER_LEASE, null)
        await here.worker.call('todos.release', todo.held).catch(() => {})
        await operate(app, 'todos.cancel', { id: todo.id })
      }
    }
    expect(await leaseFor('7')).toBeLessThanOrEqual(7)
    expect(await leaseFor('0')).toBeGreaterThan(270)
    // Never longer than the lease that was granted.
    expect(await leaseFor('86400')).toBeLessThanOrEqual(300)
    expect(await leaseFor(null, true)).toBeGreaterThan(270)
    for (const value of ['-1', '86401', 'soon', '']) {
      expect((await refusalOf(setting(app, ANSWER_LEASE, value))).data.reason).toBe('invalid')
    }
  })

  test.each(['the reaper', 'the next claim'])(
    'and is gone: its answer comes back by %s, as often as that happens, and costs no attempt',
    async (way) => {
      const here = await desk({ maxAttempts: 1 })
      await here.a2a.submit('work')
      for (let round = 1; round <= 3; round += 1) {
        const todo = await here.worker.claim()
        expect(todo.attempt).toBe(1)
        await ask(here.worker, todo, `May I, ${round}?`)
        await answer(todo.id, `yes ${round}`)
        await silent(todo.id)
        if (way === 'the reaper') expect(await app.sweep.reap()).toBe(1)
      }
      const last = await here.worker.claim()
      expect(last.attempt).toBe(1)
      expect(last.unread).toHaveLength(3)
      expect(last.priorAttempts.map(({ died }: Answer) => died)).toEqual([true, true, true])
      const attempts = await attemptsOf(app, last.id)
      expect(attempts.slice(0, 3).map(({ cause }) => cause)).toEqual(
        Array(3).fill('answer_unheard'),
      )
      expect(await unheard(here)).toBe(3)
      // From here on it is heard of, and the attempt counts like any other.
      await ask(here.worker, last, 'And now?')
      await answer(last.id)
      await here.worker.call('todos.progress', last.held)
      await silent(last.id)
      await app.sweep.reap()
      expect(await rowOf(app, last.id)).toMatchObject({ state: 'failed' })
      expect(await unheard(here)).toBe(3)
    },
  )
})

const gate = () => {
  let open = (): void => {}
  const opened = new Promise<void>((resolve) => {
    open = resolve
  })
  return { open: () => open(), opened }
}

test('the kit says that it lives as soon as it has asked, and as soon as it has the answer', async () => {
  const here = await desk()
  const [mayAsk, mayEnd] = [gate(), gate()]
  const kit = createAgent(
    { url: app.url, token: here.agent.token, leaseSeconds: 3600 },
    async (ctx) => {
      await mayAsk.opened
      await ctx.requireInput('May I?')
      await mayEnd.opened
    },
  )
  kit.start()
  try {
    const { id } = await here.a2a.submit('work')
    // Once the first beat of its claim is over, the next one is due in twenty minutes.
    await until(async () => {
      const { last_heartbeat_at: beat, started_at: start } = await rowOf(app, id)
      return beat - start > 500
    })
    mayAsk.open()
    const row = await until(async () => {
      const found = await rowOf(app, id)
      return found.interrupt_held_until ? found : null
    })
    expect(row).toMatchObject({ state: 'input-required' })
    await answer(id)
    await until(async () => {
      const { state, unheard_since } = await rowOf(app, id)
      return state === 'claimed' && unheard_since === null
    })
    expect(await leaseLeft(id)).toBeGreaterThan(3500)
  } finally {
    mayAsk.open()
    mayEnd.open()
    await kit.stop()
  }
})
