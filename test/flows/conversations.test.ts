import { expect, test } from 'vitest'
import { startApp } from '../support/app.ts'
import { a2aClient, agentClient, textMessage } from '../support/clients/actors.ts'
import { withClient } from '../support/database/database.ts'
import { until } from '../support/until.ts'

const app = await startApp({ reapMs: 3_600_000 })
const operator = { kind: 'operator' } as const
const { client, agent } = await app.queue('serial')
const a2a = a2aClient(app.url, 'serial', client.token)
const worker = agentClient(app.url, agent.token)
const say = (text: string) => ({ parts: [{ text }] })

const inContext = (contextId: string, text: string, metadata?: Record<string, unknown>) =>
  a2a
    .call('SendMessage', {
      message: textMessage(text, { contextId }),
      configuration: { returnImmediately: true },
      ...(metadata && { metadata }),
    })
    .then(({ result }) => result.task)

const ask = (held: object, state = 'input-required') =>
  worker.call('todos.interrupt', { ...held, state, message: say('?') })
const answer = (taskId: string) =>
  a2a
    .call('SendMessage', {
      message: textMessage('yes', { taskId }),
      configuration: { returnImmediately: true },
    })
    .then(({ result }) => result.task)
const nothingToClaim = async () =>
  expect((await worker.call('todos.claim', { limit: 10 })).todos).toEqual([])
const stateOf = async (id: string) =>
  (await app.services.operator.show(id, operator)).view.todo.state

test('a second message of a conversation waits its turn, says behind whom, and becomes ready as unblocked', async () => {
  const first = await inContext('turns', 'one')
  const second = await inContext('turns', 'two')
  const third = await inContext('turns', 'three')
  expect(second.status.state).toBe('TASK_STATE_SUBMITTED')
  expect(second.metadata['urn:switchboard:waits-behind']).toBe(first.id)
  expect((await app.services.operator.why(third.id, operator)).why).toContain(first.id)

  for (const expected of [first, second, third]) {
    const todo = await worker.claim()
    expect(todo.id).toBe(expected.id)
    await nothingToClaim()
    await worker.call('todos.complete', todo.held)
  }
  const { events } = await app.services.operator.show(second.id, operator)
  expect(events.map(({ verb, ready }) => `${verb} ${ready}`)).toEqual([
    'send null',
    'unblock unblocked',
    'claim null',
    'complete null',
  ])
})

test('other conversations and other clients do not wait', async () => {
  const other = await app.vend(['send'], ['serial'])
  const theirs = a2aClient(app.url, 'serial', other.token)
  const one = await inContext('shared', 'mine')
  await inContext('elsewhere', 'mine, too')
  await theirs.submit('theirs', { contextId: 'shared' })
  const { todos } = await worker.call('todos.claim', { limit: 10 })
  expect(todos).toHaveLength(3)
  expect(todos.map(({ id }: { id: string }) => id)).toContain(one.id)
  for (const { id, fence } of todos) await worker.call('todos.complete', { id, fence })
})

test('a retry keeps its place, and a cancel of the one at work lets the next go on', async () => {
  const first = await inContext('retry', 'one')
  const second = await inContext('retry', 'two')
  const todo = await worker.claim()
  await worker.call('todos.fail', {
    ...todo.held,
    error: { code: 'x', message: 'x' },
    retryInSeconds: 3600,
  })
  await nothingToClaim()
  await a2a.call('CancelTask', { id: first.id })
  const next = await worker.claim()
  expect(next.id).toBe(second.id)
  await worker.call('todos.complete', next.held)
})

test('a question frees the line, so that a forgotten task id locks nobody out', async () => {
  const first = await inContext('question', 'one')
  const todo = await worker.claim()
  await ask(todo.held)
  const second = await inContext('question', 'two')
  const next = await worker.claim()
  expect(next.id).toBe(second.id)

  const answered = await answer(first.id)
  expect(answered.metadata['urn:switchboard:receipt']).toMatchObject({ outcome: 'deferred' })

  // One question takes one answer; what is said after it is for whoever goes on.
  const more = await answer(first.id)
  expect(more.status.state).toBe(answered.status.state)
  expect(more.metadata['urn:switchboard:receipt']).toMatchObject({
    outcome: 'inbox',
    answers: null,
  })
  expect(answered.status.state).toBe('TASK_STATE_INPUT_REQUIRED')
  const third = await inContext('question', 'three')
  await worker.call('todos.complete', next.held)
  await until(async () => (await stateOf(first.id)) === 'claimed', {
    what: 'the answer goes first',
  })
  expect(await stateOf(third.id)).toBe('pending')
  const { messages } = await worker.call('todos.messages', todo.held)
  expect(messages).toHaveLength(2)
  await worker.call('todos.complete', { ...todo.held, acknowledge: messages[1].seq })
  const last = await worker.claim()
  expect(last.id).toBe(third.id)
  await worker.call('todos.complete', last.held)
})

test('an answer that was in time is not expired while the line is busy', async () => {
  const first = await inContext('in time', 'one')
  await ask((await worker.claim()).held)
  await inContext('in time', 'two')
  const next = await worker.claim()
  await answer(first.id)
  await app.sql(`update todos set interrupted_at = now() - interval '2 days' where id = $1`, [
    first.id,
  ])
  expect(await app.sweep.reap()).toBe(0)
  await worker.call('todos.complete', next.held)
  await until(async () => (await stateOf(first.id)) === 'claimed', { what: 'it is resumed' })
  await a2a.call('CancelTask', { id: first.id })
})

test('a parked question that was answered while the line was busy is claimable once it is free', async () => {
  const first = await inContext('parked', 'one')
  const todo = await worker.claim()
  await worker.call('todos.interrupt', {
    ...todo.held,
    state: 'input-required',
    message: say('?'),
    hold: false,
  })
  await inContext('parked', 'two')
  const next = await worker.claim()
  await answer(first.id)
  await nothingToClaim()
  await worker.call('todos.complete', next.held)
  const again = await worker.claim()
  expect(again).toMatchObject({ id: first.id, attempt: 1 })
  expect(again.unread).toHaveLength(1)
  await worker.call('todos.complete', { ...again.held, acknowledge: again.unread[0].seq })
})

test('an expired question goes back to its place in line, before newcomers', async () => {
  const first = await inContext('expired', 'one')
  await ask((await worker.claim()).held)
  await inContext('expired', 'two')
  const next = await worker.claim()
  await inContext('expired', 'three')
  await app.sql(`update todos set interrupted_at = now() - interval '2 days' where id = $1`, [
    first.id,
  ])
  expect(await app.sweep.reap()).toBe(1)
  expect(await stateOf(first.id)).toBe('pending')
  await nothingToClaim()
  await worker.call('todos.complete', next.held)
  const again = await worker.claim()
  expect(again.id).toBe(first.id)
  await worker.call('todos.complete', again.held)
  const last = await worker.claim()
  await worker.call('todos.complete', last.held)
})

test('in a parallel queue the todos of a conversation run side by side', async () => {
  const parallel = await app.queue('parallel', { contexts: 'parallel' })
  const both = a2aClient(app.url, 'parallel', parallel.client.token)
  await both.submit('one', { contextId: 'c' })
  await both.submit('two', { contextId: 'c' })
  const { todos } = await agentClient(app.url, parallel.agent.token).call('todos.claim', {
    limit: 10,
  })
  expect(todos).toHaveLength(2)
})

test('with author reentry a message without task id answers the open question, or goes to the todo at work', async () => {
  const authors = await app.queue('authors', { reentry: 'author' })
  const author = a2aClient(app.url, 'authors', authors.client.token)
  const at = agentClient(app.url, authors.agent.token)
  const task = await author.submit('one', { contextId: 'c' })
  const todo = await at.claim()
  const spoken = await author.submit('and another thing', { contextId: 'c' })
  expect(spoken.id).toBe(task.id)
  expect(spoken.metadata['urn:switchboard:receipt'].outcome).toBe('inbox')
  await at.call('todos.interrupt', { ...todo.held, state: 'input-required', message: say('?') })
  const answered = await author.submit('yes', { contextId: 'c' })
  expect(answered).toMatchObject({ id: task.id, status: { state: 'TASK_STATE_WORKING' } })
  expect((await author.submit('new', { contextId: 'another' })).id).not.toBe(task.id)
})

test('a sender may wish to be refused, to interrupt, or to roll back a busy conversation', async () => {
  const wish = (busy: string) => ({ 'urn:switchboard:busy': busy })
  const first = await inContext('wishes', 'one')
  const waiting = await inContext('wishes', 'two')
  const refused = await inContext('wishes', 'three', wish('reject'))
  expect(refused.status.state).toBe('TASK_STATE_REJECTED')
  expect((await a2a.get(first.id)).status.state).toBe('TASK_STATE_SUBMITTED')

  await inContext('wishes', 'four', wish('interrupt'))
  expect((await a2a.get(first.id)).status.state).toBe('TASK_STATE_CANCELED')
  expect((await a2a.get(waiting.id)).status.state).toBe('TASK_STATE_SUBMITTED')

  const last = await inContext('wishes', 'five', wish('rollback'))
  expect((await a2a.get(waiting.id)).status.state).toBe('TASK_STATE_CANCELED')
  const todo = await worker.claim()
  expect(todo.id).toBe(last.id)
  await nothingToClaim()
  await worker.call('todos.complete', todo.held)

  const wrong = await a2a.call('SendMessage', {
    message: textMessage('six', { contextId: 'wishes' }),
    metadata: wish('panic'),
  })
  expect(wrong.error.code).toBe(-32602)
})

test('a hand-over that was missed is found by the sweep', async () => {
  const first = await inContext('missed', 'one')
  await worker.call('todos.complete', (await worker.claim()).held)
  // As if it had come in the very moment in which the first one left.
  const [stalled] = await app.sql<{ id: string }>(
    `insert into todos (id, queue, context_id, client_id, state, max_attempts, line)
    select gen_random_uuid(), queue, context_id, client_id, 'pending', 5, line from todos
    where id = $1 returning id`,
    [first.id],
  )
  await nothingToClaim()
  await app.sweep.reap()
  const { todos } = await worker.call('todos.claim', {})
  expect(todos[0].id).toBe(stalled!.id)
  await worker.call('todos.complete', { id: todos[0].id, fence: todos[0].fence })
})

test('an answer that came in the very moment in which the line became free is not left to the sweep', async () => {
  const first = await inContext('crossing', 'one')
  await ask((await worker.claim()).held)
  const second = await inContext('crossing', 'two')
  await worker.claim()
  await withClient(app.databaseUrl, async (leaving) => {
    await leaving.query('begin')
    await leaving.query(
      `with ended as (
        update attempts set ended_at = now(), outcome = 'completed', disposition = 'done'
        where todo_id = $1)
      update todos set state = 'done', finished_at = now(), front = false, owner = null,
        lease_expires_at = null where id = $1`,
      [second.id],
    )
    const answered = await answer(first.id)
    expect(answered.metadata['urn:switchboard:receipt'].outcome).toBe('deferred')
    await leaving.query('commit')
  })
  await until(async () => (await stateOf(first.id)) === 'claimed', { what: 'it is resumed' })
  await a2a.call('CancelTask', { id: first.id })
})

test('8 senders and 8 claimers: never two claimed todos of one conversation, each in order, none left', async () => {
  const contexts = ['a', 'b', 'c'].map((name) => `race-${name}`)
  const EACH = 12
  const senders = Array.from({ length: 8 }, async (_, sender) => {
    for (let n = 0; n < EACH; n += 1) {
      await inContext(contexts[(sender + n) % contexts.length]!, `${sender}-${n}`)
    }
  })
  const total = 8 * EACH
  let done = 0
  const claimers = Array.from({ length: 8 }, async (_, n) => {
    while (done < total) {
      const { todos } = await worker.call('todos.claim', { limit: 1 + (n % 3), waitMs: 200 })
      for (const { id, fence } of todos) {
        if (n % 4 === 3) {
          await worker.call('todos.interrupt', {
            id,
            fence,
            state: 'input-required',
            message: say('?'),
          })
          await answer(id)
          await until(async () => (await stateOf(id)) === 'claimed', { what: 'it is resumed' })
          const { messages } = await worker.call('todos.messages', { id, fence })
          await worker.call('todos.complete', { id, fence, acknowledge: messages.at(-1).seq })
        } else await worker.call('todos.complete', { id, fence })
        done += 1
      }
    }
  })
  await Promise.all([...senders, ...claimers])

  // From the log alone: the spans in which each todo was claimed.
  const events = await app.sql<{
    todo_id: string
    context_id: string
    to_state: string
    id: number
  }>(
    `select todo_id, context_id, to_state, id from events where context_id = any($1) order by id`,
    [contexts],
  )
  const claimed = new Map<string, Set<string>>()
  for (const { todo_id, context_id, to_state } of events) {
    const open = claimed.get(context_id) ?? new Set()
    if (to_state === 'claimed') open.add(todo_id)
    else open.delete(todo_id)
    claimed.set(context_id, open)
    expect(open.size).toBeLessThanOrEqual(1)
  }
  const [left] = await app.sql<{ n: number }>(
    'select count(*)::int as n from todos where context_id = any($1) and finished_at is null',
    [contexts],
  )
  expect(left!.n).toBe(0)
})

// An answer that was deferred behind a todo which has since been handed back must go before it (and
// before any newcomer). An agent with one slot, the kit's default, waits for the answer in that
// slot: it would never claim the pending todo, and neither would go on.
test('an answer goes before a todo that was handed back while it waited behind it', async () => {
  const first = await inContext('handed back', 'one')
  const todo = await worker.claim()
  await ask(todo.held)
  const second = await inContext('handed back', 'two')
  const next = await worker.claim()
  await answer(first.id)
  await worker.call('todos.release', { ...next.held, summary: 'not now' })
  await app.sweep.reap()
  expect(await stateOf(first.id)).toBe('claimed')
  await worker.call('todos.complete', { ...todo.held, acknowledge: 1_000_000 })
  const again = await worker.claim()
  expect(again.id).toBe(second.id)
  await worker.call('todos.complete', again.held)
})

test('an answer goes before a newcomer that nobody has claimed yet', async () => {
  const first = await inContext('full agent', 'one')
  const todo = await worker.claim()
  const second = await inContext('full agent', 'two')
  await ask(todo.held)
  const answered = await answer(first.id)
  expect(answered.status.state).toBe('TASK_STATE_WORKING')
  // Its turn is not over: who came later waits again, and is ready when it ends.
  await nothingToClaim()
  await worker.call('todos.complete', { ...todo.held, acknowledge: 1_000_000 })
  const next = await worker.claim()
  expect(next.id).toBe(second.id)
  await worker.call('todos.complete', next.held)
})
