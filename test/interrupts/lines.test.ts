/** Questions whose todos stand in line: answered while it is busy, expired, and left by their holder. */
import { randomUUID } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { type Answer, a2aClient, agentClient } from '../support/clients/actors.ts'
import { ask, attemptsOf, operate, saying } from '../support/steps.ts'
import { until } from '../support/until.ts'
import {
  ageWait,
  askedInBulk,
  captureLog,
  DAY,
  reclaimed,
  resultOf,
  rowOf,
  startQuiet,
} from './support.ts'

const captured = captureLog('debug')
const app = await startQuiet({ log: captured.log })

const desk = async (policy?: Record<string, unknown>) => {
  const name = `q-${randomUUID().slice(0, 8)}`
  const { client, agent } = await app.queue(name, policy)
  const a2a = a2aClient(app.url, name, client.token)
  const contextId = randomUUID()
  return {
    name,
    id: agent.endpoint.id,
    a2a,
    worker: agentClient(app.url, agent.token),
    another: async () => agentClient(app.url, (await app.vend(['work'], [name])).token),
    say: (text: string) => a2a.submit(text, { contextId }),
    answer: (id: string, text = 'yes') => a2a.submit(text, { taskId: id }),
  }
}
type Desk = Awaited<ReturnType<typeof desk>>
type Worker = Desk['worker']

const receiptOf = (task: Answer): Answer => task.metadata['urn:switchboard:receipt']
const revoke = (id: string) => operate(app, 'endpoints.revoke', { id })
const stateOf = async (id: string): Promise<string> => (await rowOf(app, id)).state
const nothingToClaim = async (worker: Worker) =>
  expect((await worker.call('todos.claim', { limit: 10 })).todos).toEqual([])

const finish = (worker: Worker, { held }: Answer) =>
  worker.call('todos.complete', { ...held, acknowledge: 1_000_000 })

/** One asks, and so lets the other, who is at work; a third waits. */
const oneAsksOneWorks = async (here: Desk, question: Record<string, unknown> = {}) => {
  await here.say('one')
  const asking = await here.worker.claim()
  await ask(here.worker, asking, 'May I?', question)
  await here.say('two')
  const working = await here.worker.claim()
  const { id: waiting } = await here.say('three')
  return { asking, working, waiting }
}

describe('a request for authorisation that is answered while its line is busy', () => {
  test.each([true, false])(
    'waits with its answer, which stays secret and in time, and goes on before the newcomer (held: %j)',
    async (hold) => {
      const here = await desk()
      const question = { state: 'auth-required', hold }
      const { asking, working, waiting } = await oneAsksOneWorks(here, question)
      const secret = `hunter2-${randomUUID()}`
      const answered = await here.answer(asking.id, secret)
      expect(receiptOf(answered)).toMatchObject({ outcome: 'deferred', answers: 3 })
      expect(answered.status.state).toBe('TASK_STATE_AUTH_REQUIRED')
      await ageWait(app, DAY + 1, asking.id)
      expect(await app.sweep.reap()).toBe(0)

      await finish(here.worker, working)
      const going = hold ? asking : await here.worker.claim()
      await until(async () => (await stateOf(asking.id)) === 'claimed', { what: 'it goes on' })
      expect(going.id).toBe(asking.id)
      expect(await stateOf(waiting)).toBe('pending')
      const { messages } = await here.worker.call('todos.messages', going.held)
      expect(messages).toMatchObject([{ answers: 3, message: { parts: [{ text: secret }] } }])

      const shown = async () =>
        JSON.stringify([
          await operate(app, 'todos.show', { id: asking.id }),
          await operate(app, 'todos.list', { queue: here.name }),
          await app.sql('select * from events where queue = $1', [here.name]),
        ])
      expect(await shown()).not.toContain('hunter2')
      expect(captured.text()).not.toContain('hunter2')
      // It has been answered: what comes now is no credential.
      await here.answer(asking.id, 'by the way')
      expect(await shown()).toContain('by the way')
      await finish(here.worker, going)
      await finish(here.worker, await here.worker.claim())
    },
  )
})

describe('a holder whose endpoint is revoked', () => {
  test('loses a question and the todo at work of one line: both go back to their places, and nobody overtakes', async () => {
    for (const deferred of [false, true]) {
      const here = await desk()
      const other = await here.another()
      const { asking, working, waiting } = await oneAsksOneWorks(here)
      if (deferred) expect(receiptOf(await here.answer(asking.id)).outcome).toBe('deferred')
      await revoke(here.id)
      expect(await rowOf(app, working.id)).toMatchObject({ state: 'pending', front: true })
      expect(await rowOf(app, asking.id)).toMatchObject({ state: 'pending', front: false })
      const order: string[] = []
      for (const _ of [1, 2, 3]) {
        const todo = await other.claim()
        order.push(todo.id)
        expect(todo.unread).toHaveLength(deferred && todo.id === asking.id ? 1 : 0)
        await nothingToClaim(other)
        await finish(other, todo)
      }
      expect(order).toEqual([working.id, asking.id, waiting])
    }
  })

  test('loses several questions of one line: the first comes to its front, the others stand behind it', async () => {
    const here = await desk()
    const other = await here.another()
    const todos = []
    for (const text of ['one', 'two', 'three']) {
      await here.say(text)
      const todo = await here.worker.claim()
      await ask(here.worker, todo, 'May I?')
      todos.push(todo)
    }
    captured.lines.length = 0
    await revoke(here.id)
    for (const [place, { id }] of todos.entries()) {
      expect(await rowOf(app, id)).toMatchObject({ state: 'pending', front: place === 0 })
      expect(await attemptsOf(app, id)).toMatchObject([{ disposition: 'requeued' }])
    }
    for (const { id } of todos) {
      const todo = await other.claim()
      expect(todo.id).toBe(id)
      await nothingToClaim(other)
      await finish(other, todo)
    }
  })

  test('loses the todo at work for good, at its cap: the question that goes back to the same line is not left to a sweep', async () => {
    const here = await desk()
    const other = await here.another()
    await here.say('one')
    const asking = await here.worker.claim()
    await ask(here.worker, asking, 'May I?')
    await here.say('two')
    const working = await here.worker.claim()
    await app.sql('update todos set attempt = max_attempts where id = $1', [working.id])
    await revoke(here.id)
    expect(await stateOf(working.id)).toBe('failed')
    const todo = await other.claim()
    expect(todo.id).toBe(asking.id)
    await finish(other, todo)
  })

  test('leaves a line that nobody else may work on: what it held is dead, and the line is handed on', async () => {
    for (const deferred of [false, true]) {
      for (const hold of [true, false]) {
        const here = await desk()
        const { asking, working, waiting } = await oneAsksOneWorks(here, { hold })
        if (deferred) expect(receiptOf(await here.answer(asking.id)).outcome).toBe('deferred')
        await revoke(here.id)
        for (const { id } of [asking, working]) {
          expect(await rowOf(app, id)).toMatchObject({ state: 'failed', front: false })
          expect(await resultOf(app, id)).toMatchObject({ error: 'endpoint_revoked' })
        }
        const late = await here.another()
        const todo = await late.claim()
        expect(todo.id).toBe(waiting)
        await finish(late, todo)
      }
    }
  })
})

describe('questions of one line that expire at once', () => {
  test('go back in one statement, the first to the front and the others behind it, and are claimed in their order', async () => {
    const here = await desk()
    const COUNT = 240
    const LINES = 8
    const ids = await askedInBulk(app, {
      queue: here.name,
      owner: here.id,
      count: COUNT,
      age: DAY + 1,
      lines: LINES,
    })
    await app.sql(`
      create table batches (rows int);
      create function note() returns trigger language plpgsql as $$
        begin insert into batches select count(*) from fresh; return null; end $$;
      create trigger batch after insert on events referencing new table as fresh
        for each statement execute function note()`)
    expect(await app.sweep.reap()).toBe(COUNT)
    const batches = await app.sql<{ rows: number }>('select rows from batches where rows > 0')
    await app.sql('drop trigger batch on events; drop function note; drop table batches')
    expect(batches.map(({ rows }) => rows)).toEqual([200, 40])
    expect(await reclaimed(app, here.name)).toBe(COUNT)

    const fronts = await app.sql<{ id: string; due: boolean }>(
      `select id, due_at is not null as due from todos where queue = $1 and front
       order by lined_at`,
      [here.name],
    )
    expect(fronts).toEqual(ids.slice(0, LINES).map((id) => ({ id, due: true })))
    const [behind] = await app.sql<{ count: number }>(
      `select count(*)::int as count from todos
       where queue = $1 and state = 'pending' and not front and due_at is null`,
      [here.name],
    )
    expect(behind!.count).toBe(COUNT - LINES)

    const readies = await app.sql<{ ready: string; count: number }>(
      `select ready, count(*)::int from events where queue = $1 and ready is not null group by 1`,
      [here.name],
    )
    expect(readies).toEqual([{ ready: 'requeued', count: LINES }])
    for (let turn = 0; turn < 3; turn += 1) {
      const { todos } = await here.worker.call('todos.claim', { limit: 100 })
      const expected = ids.slice(turn * LINES, (turn + 1) * LINES)
      expect(todos.map(({ id }: Answer) => id).toSorted()).toEqual(expected.toSorted())
      for (const { id, fence } of todos) await finish(here.worker, { held: { id, fence } })
    }
  })

  test('one that has used its attempts takes no front from the one behind it', async () => {
    const here = await desk()
    const asked = { queue: here.name, owner: here.id, count: 3, age: DAY + 1, lines: 1 }
    const [dead, next, last] = await askedInBulk(app, asked)
    await app.sql('update todos set max_attempts = 1 where id = $1', [dead])
    expect(await app.sweep.reap()).toBe(3)
    expect(await rowOf(app, dead!)).toMatchObject({ state: 'failed', front: false })
    expect(await rowOf(app, next!)).toMatchObject({ state: 'pending', front: true })
    expect(await rowOf(app, last!)).toMatchObject({ state: 'pending', front: false })
  })
})

test('a question that expires in a busy line waits behind whoever is at work', async () => {
  const here = await desk()
  const { asking, working, waiting } = await oneAsksOneWorks(here)
  await ageWait(app, DAY + 1, asking.id)
  expect(await app.sweep.reap()).toBe(1)
  await operate(app, 'todos.answer', { id: asking.id, message: saying('late') })
  await finish(here.worker, working)
  for (const id of [asking.id, waiting]) {
    const todo = await here.worker.claim()
    expect(todo.id).toBe(id)
    await finish(here.worker, todo)
  }
})
