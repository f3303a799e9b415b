/**
 * The answer inbox: every answer has one defined result, and a receipt that says which.
 *
 * Field cases: expiry of a question; each question needs its own answer.
 */
import { randomUUID } from 'node:crypto'
import { afterAll, afterEach, describe, expect, test } from 'vitest'
import { tryTransition } from '../../src/store/move/move.ts'
import { openDatabase } from '../../src/store/postgres/database.ts'
import { type Answer, a2aClient, agentClient, rpc, textMessage } from '../support/clients/actors.ts'
import { ask, attemptsOf, operate, refusalOf, saying } from '../support/steps.ts'
import { until } from '../support/until.ts'
import {
  ageWait,
  DAY,
  direct,
  leasesExpired,
  reclaimed,
  rowOf,
  setting,
  startQuiet,
  TTL,
  verbsOf,
} from './support.ts'

const app = await startQuiet()
const database = openDatabase({ connectionString: app.databaseUrl, poolSize: 2 })
afterAll(() => database.close())

const RECEIPT = 'urn:switchboard:receipt'

const desk = async (policy?: Record<string, unknown>) => {
  const name = `q-${randomUUID().slice(0, 8)}`
  const { client, agent } = await app.queue(name, policy)
  return {
    name,
    a2a: a2aClient(app.url, name, client.token),
    worker: agentClient(app.url, agent.token),
  }
}
type Desk = Awaited<ReturnType<typeof desk>>

const claimed = async ({ a2a, worker }: Desk) => {
  await a2a.submit('work')
  return worker.claim()
}

const asked = async (here: Desk, more: Record<string, unknown> = {}) => {
  const todo = await claimed(here)
  await ask(here.worker, todo, 'May I?', more)
  return todo
}

/** By an operator. */
const answer = async (id: string, message: Record<string, unknown>): Promise<Answer> =>
  (await operate(app, 'todos.answer', { id, message })).receipt

/** By the client, which finds its receipt in the metadata of the task. */
const reply = async (here: Desk, id: string, message: Record<string, unknown> = {}) => {
  const { result, error } = await here.a2a.call('SendMessage', {
    message: textMessage('yes', { taskId: id, ...message }),
    configuration: { returnImmediately: true },
  })
  return { error, task: result?.task, receipt: result?.task.metadata[RECEIPT] }
}

const messagesOf = async (id: string): Promise<Answer[]> =>
  (await operate(app, 'todos.show', { id })).messages
const stateOf = async (id: string): Promise<string> => (await rowOf(app, id)).state

afterEach(async () => {
  const left = await app.sql<{ id: string }>(
    `select id from todos where state in ('claimed', 'input-required', 'auth-required')`,
  )
  for (const { id } of left) await operate(app, 'todos.cancel', { id })
})

describe('receipts', () => {
  test('an answer to a held question resumes it, one to a parked question requeues it, and operator and client get the same receipt', async () => {
    const here = await desk()
    for (const [hold, outcome] of [
      [true, 'resumed'],
      [false, 'requeued'],
    ] as const) {
      const byOperator = await asked(here, { hold })
      expect(await answer(byOperator.id, { ...saying('yes'), messageId: 'op' })).toEqual({
        messageId: 'op',
        seq: 4,
        outcome,
        answers: 3,
      })
      const byClient = await here.worker
        .call('todos.claim', { limit: 5 })
        .then(() => asked(here, { hold }))
      const { receipt } = await reply(here, byClient.id, { messageId: 'cl' })
      expect(receipt).toEqual({ messageId: 'cl', seq: 4, outcome, answers: 3 })
    }
  })

  test('the receipt is the sender’s alone: the task reads the same to everyone afterwards', async () => {
    const here = await desk()
    const todo = await asked(here)
    await reply(here, todo.id)
    expect((await here.a2a.get(todo.id)).metadata).toBeUndefined()
  })

  test('an answer that comes before the question goes into the inbox, and the question still waits for its own', async () => {
    const here = await desk()
    const todo = await claimed(here)
    const early = await answer(todo.id, saying('yes, in advance'))
    expect(early).toMatchObject({ outcome: 'inbox', answers: null })
    await ask(here.worker, todo, 'May I?')
    expect(await stateOf(todo.id)).toBe('input-required')
    const { state, messages } = await here.worker.call('todos.messages', todo.held)
    expect(state).toBe('input-required')
    expect(messages).toMatchObject([{ seq: early.seq, message: saying('yes, in advance') }])
    expect(messages[0].answers).toBeUndefined()
    expect(await answer(todo.id, saying('yes'))).toMatchObject({ outcome: 'resumed', answers: 4 })
  })

  test('an answer and its question at the same moment: it answers or is in the inbox, and is never lost', async () => {
    const here = await desk()
    for (let round = 0; round < 15; round += 1) {
      const todo = await claimed(here)
      const [, receipt] = await Promise.all([
        ask(here.worker, todo, 'May I?'),
        answer(todo.id, saying('yes')),
      ])
      const { state, messages } = await here.worker.call('todos.messages', todo.held)
      expect(messages).toMatchObject([{ seq: receipt.seq }])
      expect(state).toBe(receipt.outcome === 'resumed' ? 'claimed' : 'input-required')
      await operate(app, 'todos.cancel', { id: todo.id })
    }
  })

  test('the same message again, now or later, is one message with one effect', async () => {
    const here = await desk()
    for (const hold of [true, false]) {
      const todo = await asked(here, { hold })
      const first = await answer(todo.id, { ...saying('yes'), messageId: 'once' })
      const second = await answer(todo.id, { ...saying('yes'), messageId: 'once' })
      expect(second).toEqual({ ...first, outcome: 'repeated' })
      expect((await reply(here, todo.id, { messageId: 'once' })).receipt).toEqual(second)
      expect(await messagesOf(todo.id)).toHaveLength(3)
      await here.worker.call('todos.claim', { limit: 5 })
    }
  })

  test('the same message many times at once has one effect, and every sender is told', async () => {
    const here = await desk()
    const todo = await asked(here)
    const receipts = await Promise.all(
      Array.from({ length: 12 }, () => answer(todo.id, { ...saying('yes'), messageId: 'once' })),
    )
    expect(new Set(receipts.map(({ seq }) => seq))).toEqual(new Set([4]))
    expect(receipts.map(({ outcome }) => outcome).sort()).toEqual([
      ...Array(11).fill('repeated'),
      'resumed',
    ])
    expect((await verbsOf(app, todo.id)).filter((verb) => verb === 'resume')).toHaveLength(1)
    expect((await rowOf(app, todo.id)).unread).toBe(1)
  })

  test('the same message after the end is repeated, not refused', async () => {
    const here = await desk()
    const todo = await asked(here)
    await answer(todo.id, { ...saying('yes'), messageId: 'once' })
    await operate(app, 'todos.cancel', { id: todo.id })
    expect(await answer(todo.id, { ...saying('yes'), messageId: 'once' })).toMatchObject({
      outcome: 'repeated',
      answers: 3,
    })
  })

  test('of two people who answer at once one answers, the other is in the inbox, and the holder gets both in order', async () => {
    const here = await desk()
    for (let round = 0; round < 15; round += 1) {
      const hold = round % 2 === 0
      const todo = await asked(here, { hold })
      const receipts = await Promise.all([
        answer(todo.id, saying('yes')),
        reply(here, todo.id).then(({ receipt }) => receipt),
      ])
      const first = receipts.find(({ outcome }) => outcome !== 'inbox')
      const second = receipts.find(({ outcome }) => outcome === 'inbox')
      expect(first).toMatchObject({ outcome: hold ? 'resumed' : 'requeued', seq: 4, answers: 3 })
      expect(second).toMatchObject({ seq: 5, answers: null })
      const next = hold ? todo : await here.worker.claim()
      const { messages } = await here.worker.call('todos.messages', next.held)
      expect(messages.map(({ seq }: Answer) => seq)).toEqual([4, 5])
      await operate(app, 'todos.cancel', { id: todo.id })
    }
  })

  test('an answer from somebody who may not see the task is answered as if there were none', async () => {
    const here = await desk()
    const todo = await asked(here)
    const stranger = await app.vend(['send'], [here.name])
    const theirs = a2aClient(app.url, here.name, stranger.token)
    const refusal = async (taskId: string) =>
      (await theirs.call('SendMessage', { message: textMessage('yes', { taskId }) })).error
    expect(await refusal(todo.id)).toEqual(await refusal(randomUUID()))
    expect(await stateOf(todo.id)).toBe('input-required')
  })

  test('an endpoint that may answer answers in its queue, by either door, and is named as the sender', async () => {
    const here = await desk()
    const person = await app.vend(['answer'], [here.name])
    const byOperatorApi = await asked(here)
    const { result } = await rpc(
      `${app.url}/operator`,
      'todos.answer',
      { id: byOperatorApi.id, message: saying('yes') },
      { token: person.token },
    )
    expect(result.receipt).toMatchObject({ outcome: 'resumed' })
    const byA2a = await asked(here)
    const { result: sent } = await a2aClient(app.url, here.name, person.token).call('SendMessage', {
      message: textMessage('yes', { taskId: byA2a.id }),
      configuration: { returnImmediately: true },
    })
    expect(sent.task.metadata[RECEIPT]).toMatchObject({ outcome: 'resumed' })
    const senders = await app.sql(
      'select sender from messages where answers is not null and todo_id = any($1::uuid[])',
      [[byOperatorApi.id, byA2a.id]],
    )
    expect(senders).toEqual([{ sender: person.endpoint.id }, { sender: person.endpoint.id }])
  })
})

describe('after the deadline', () => {
  test('below the cap a late answer is in the inbox of the requeued todo, owed to whoever claims it next', async () => {
    const here = await desk()
    for (const hold of [true, false]) {
      const todo = await asked(here, { hold })
      await ageWait(app, DAY + 1, todo.id)
      await app.sweep.reap()
      const { receipt, task } = await reply(here, todo.id)
      expect(receipt).toMatchObject({ outcome: 'inbox', answers: null })
      expect(task.status.state).toBe('TASK_STATE_SUBMITTED')
      const next = await here.worker.claim()
      expect(next.unread).toMatchObject([
        { seq: receipt.seq, message: { parts: [{ text: 'yes' }] } },
      ])
      expect(next.result.interrupt.message).toMatchObject(saying('May I?'))
      await operate(app, 'todos.cancel', { id: todo.id })
    }
  })

  test('at the cap a late answer is refused with the reason, and nothing resumes', async () => {
    const here = await desk({ maxAttempts: 1 })
    const todo = await asked(here)
    await ageWait(app, DAY + 1, todo.id)
    await app.sweep.reap()
    const { error } = await reply(here, todo.id)
    expect(error.code).toBe(-32004)
    expect(error.data[0]).toMatchObject({
      reason: 'UNSUPPORTED_OPERATION',
      metadata: { state: 'TASK_STATE_FAILED', error: 'interrupt_expired' },
    })
    const refusal = await refusalOf(
      operate(app, 'todos.answer', { id: todo.id, message: saying('yes') }),
    )
    expect(refusal).toMatchObject({
      code: -32010,
      data: { reason: 'wrong_state', state: 'failed', error: 'interrupt_expired' },
    })
    expect(await messagesOf(todo.id)).toHaveLength(2)
    expect((await verbsOf(app, todo.id)).at(-1)).toBe('reapInterrupt')
  })

  test('an answer past the deadline but before the sweep still answers: whoever commits first has it', async () => {
    const here = await desk()
    const todo = await asked(here)
    await ageWait(app, DAY + 1, todo.id)
    expect(await answer(todo.id, saying('yes'))).toMatchObject({ outcome: 'resumed' })
    expect(await app.sweep.reap()).toBe(0)
    expect(await stateOf(todo.id)).toBe('claimed')
  })

  test('an answer and an expiry at the same moment never both take effect', async () => {
    const name = `q-${randomUUID().slice(0, 8)}`
    const { agent } = await app.queue(name, { maxAttempts: 2 })
    const hands = direct(app)
    const seen = { answered: 0, expired: 0, dead: 0 }
    const rounds = 60
    for (let round = 0; round < rounds; round += 1) {
      const hold = round % 2 === 0
      const atCap = round % 4 >= 2
      const id = await hands.send(name)
      await hands.ask((await hands.claim(agent.caller, name))!, agent.caller, { hold })
      await ageWait(app, DAY + 1, id)
      if (atCap) {
        await app.sweep.reap()
        await hands.ask((await hands.claim(agent.caller, name))!, agent.caller, { hold })
        await ageWait(app, DAY + 1, id)
      }
      // The sweep has other predicates to look at first: the answer starts at any time of that.
      const late = (round % 10) * 1.5
      const [sent, swept] = await Promise.all([
        new Promise((resolve) => setTimeout(resolve, late)).then(() => hands.answer(id)),
        app.sweep.reap(),
      ])
      const verbs = (await verbsOf(app, id)).slice(atCap ? 6 : 3)
      const row = await rowOf(app, id)
      if (swept === 0) {
        seen.answered += 1
        expect(sent).toMatchObject({ outcome: hold ? 'resumed' : 'requeued' })
        expect(verbs).toEqual([hold ? 'resume' : 'answer'])
        expect(row).toMatchObject({ state: hold ? 'claimed' : 'pending', unread: 1 })
      } else if (atCap) {
        seen.dead += 1
        expect(sent).toBe('finished')
        expect(verbs).toEqual(['reapInterrupt'])
        expect(row).toMatchObject({ state: 'failed', unread: 0 })
      } else {
        seen.expired += 1
        expect(sent).toMatchObject({ outcome: 'inbox', answers: null })
        expect(verbs).toEqual(['reapInterrupt', 'message'])
        expect(row).toMatchObject({ state: 'pending', unread: 1 })
      }
      if (row.state !== 'failed') await hands.cancel(id)
    }
    expect(seen.answered).toBeGreaterThan(0)
    expect(seen.expired + seen.dead).toBeGreaterThan(0)
    const taken = seen.expired + seen.dead + rounds / 2
    expect(await leasesExpired(app, name)).toBe(taken)
    expect(await reclaimed(app, name)).toBe(taken)
  })
})

describe('matched to the question', () => {
  test('each answer names the question it answered, in order, and stays after it in the history', async () => {
    const here = await desk()
    const todo = await claimed(here)
    for (let question = 1; question <= 3; question += 1) {
      await ask(here.worker, todo, `question ${question}`)
      const { receipt } = await reply(here, todo.id, { parts: [{ text: `answer ${question}` }] })
      expect(await stateOf(todo.id)).toBe('claimed')
      await here.worker.call('todos.acknowledge', { ...todo.held, through: receipt.seq })
    }
    const told = (await messagesOf(todo.id)).map(({ seq, answers, message }) => [
      message.parts[0].text,
      answers && seq - answers,
    ])
    expect(told).toEqual([
      ['work', undefined],
      ['question 1', undefined],
      ['answer 1', 1],
      ['question 2', undefined],
      ['answer 2', 1],
      ['question 3', undefined],
      ['answer 3', 1],
    ])
  })

  test('an answer that was checked against one question never answers the next one', async () => {
    const here = await desk()
    const todo = await asked(here)
    await answer(todo.id, saying('yes'))
    await ask(here.worker, todo, 'And the other thing?')
    const stale = {
      message: { messageId: randomUUID(), role: 'ROLE_USER' as const, parts: [{ text: 'late' }] },
      question: 3,
    }
    expect(await tryTransition(database, 'resume', todo.id, stale)).toBeNull()
    expect(await stateOf(todo.id)).toBe('input-required')
    expect(
      await tryTransition(database, 'resume', todo.id, { ...stale, question: 5 }),
    ).not.toBeNull()
  })

  test('a todo cannot be completed over an answer nobody has read', async () => {
    const here = await desk()
    const todo = await asked(here)
    await answer(todo.id, saying('stop'))
    const { data } = await refusalOf(here.worker.call('todos.complete', todo.held))
    expect(data).toMatchObject({ reason: 'unread_messages', unread: [{ message: saying('stop') }] })
    await here.worker.call('todos.complete', { ...todo.held, acknowledge: data.unread[0].seq })
  })
})

describe('schemas', () => {
  const schema = {
    type: 'object',
    required: ['nights'],
    properties: {
      nights: { type: 'integer', minimum: 1 },
      guests: { type: 'array', items: { type: 'object', required: ['name'] } },
    },
  }
  const data = (value: unknown) => ({ parts: [{ text: 'Here:' }, { data: value }] })

  test('an answer that does not fit is refused with every path at fault, and the task stays interrupted', async () => {
    const here = await desk()
    for (const hold of [true, false]) {
      const todo = await asked(here, { schema, hold })
      const before = await rowOf(app, todo.id)
      const bad = data({ nights: 0, guests: [{ name: 'A' }, {}] })
      const { code, data: told } = await refusalOf(
        operate(app, 'todos.answer', { id: todo.id, message: bad }),
      )
      expect(code).toBe(-32602)
      expect(told.violations).toMatchObject([
        { field: 'message.parts[1].data/nights', description: expect.stringContaining('>= 1') },
        { field: 'message.parts[1].data/guests/1', description: expect.stringContaining('name') },
      ])
      const { error } = await reply(here, todo.id, bad)
      expect(error.code).toBe(-32602)
      expect(JSON.stringify(error.data)).toContain('message.parts[1].data/nights')
      expect(await rowOf(app, todo.id)).toEqual(before)
      expect(await messagesOf(todo.id)).toHaveLength(2)
      expect(await answer(todo.id, data({ nights: 2 }))).toMatchObject({
        outcome: hold ? 'resumed' : 'requeued',
      })
    }
  })

  test('an answer without a data part is refused where the question has a schema', async () => {
    const here = await desk()
    const todo = await asked(here, { schema })
    const { data: told } = await refusalOf(
      operate(app, 'todos.answer', { id: todo.id, message: saying('two nights') }),
    )
    expect(told.violations).toMatchObject([{ field: 'message.parts' }])
    expect(await stateOf(todo.id)).toBe('input-required')
  })

  test.each([
    ['an unknown type', { type: 'wish' }],
    ['a reference to nowhere', { $ref: 'https://example.com/schema.json' }],
    ['one that answers later', { $async: true, type: 'object' }],
    ['one that is too long', { description: 'x'.repeat(20_001) }],
  ])('a schema that is %s is refused at the ask, and the todo goes on', async (_, bad) => {
    const here = await desk()
    const todo = await claimed(here)
    const refusal = await refusalOf(ask(here.worker, todo, 'May I?', { schema: bad }))
    expect(refusal).toMatchObject({ code: -32602, data: { violations: [{ field: 'schema' }] } })
    expect(await stateOf(todo.id)).toBe('claimed')
    await ask(here.worker, todo, 'May I?')
  })

  const circles = Object.fromEntries(
    Array.from({ length: 60 }, (_, i) => {
      const next = { $ref: `#/$defs/d${i + 1}` }
      return [`d${i}`, i === 59 ? { minLength: 2 } : { allOf: [next, next] }]
    }),
  )
  test.each([
    ['whose pattern backtracks', { type: 'string', pattern: '^(a+)+$' }],
    ['that refers to itself', { $ref: '#' }],
    ['that doubles with each reference', { $defs: circles, $ref: '#/$defs/d0' }],
    ['whose pattern is too large to run', { pattern: '(?:(?:a{1000}){1000}){1000}' }],
  ])('a schema %s stops neither the node nor the task', async (_, greedy) => {
    const here = await desk()
    const todo = await asked(here, { schema: greedy })
    // Twice: the second time it waits until the asking endpoint has rested.
    for (let i = 0; i < 2; i += 1) {
      // A machine that is starved has it come again later.
      const refusal = await until(async () => {
        const refused = await refusalOf(
          operate(app, 'todos.answer', { id: todo.id, message: data(`${'a'.repeat(60)}!`) }),
        )
        return refused.data.reason !== 'unavailable' && refused
      })
      expect(refusal).toMatchObject({
        code: -32602,
        data: { violations: [{ field: 'message.parts[1].data' }] },
      })
    }
    expect(await stateOf(todo.id)).toBe('input-required')
    await operate(app, 'todos.cancel', { id: todo.id })
  })

  test('two questions with different schemas each check their own answer', async () => {
    const here = await desk()
    const todo = await asked(here, { schema: { type: 'string' } })
    await refusalOf(operate(app, 'todos.answer', { id: todo.id, message: data(1) }))
    const first = await answer(todo.id, data('one'))
    await here.worker.call('todos.acknowledge', { ...todo.held, through: first.seq })
    await ask(here.worker, todo, 'How many?', { schema: { type: 'number' } })
    await refusalOf(operate(app, 'todos.answer', { id: todo.id, message: data('one') }))
    expect(await answer(todo.id, data(1))).toMatchObject({ outcome: 'resumed' })
    await ask(here.worker, todo, 'Anything else?')
    expect(await answer(todo.id, saying('no'))).toMatchObject({ outcome: 'resumed' })
  })

  test('a message that answers nothing is not held to a schema', async () => {
    const here = await desk()
    const todo = await asked(here, { schema })
    await setting(app, TTL, '60')
    await ageWait(app, 61, todo.id)
    await app.sweep.reap()
    await setting(app, TTL, null)
    expect(await answer(todo.id, saying('too late'))).toMatchObject({ outcome: 'inbox' })
    expect(await attemptsOf(app, todo.id)).toMatchObject([{ outcome: 'reaped' }])
  })
})
