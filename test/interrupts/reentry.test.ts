// Field cases: answers without a task id.
/** Messages of a client that knows its conversation and not its task. */
import { expect, test } from 'vitest'
import { startApp } from '../support/app.ts'
import { type Answer, a2aClient, agentClient, textMessage } from '../support/clients/actors.ts'
import { ask, operate } from '../support/steps.ts'

const app = await startApp()

const queueOf = async (name: string, policy: Record<string, unknown>) => {
  const { client, agent } = await app.queue(name, policy)
  const author = a2aClient(app.url, name, client.token)
  const worker = agentClient(app.url, agent.token)
  return {
    author,
    other: a2aClient(app.url, name, (await app.vend(['send'], [name])).token),
    worker,
    asking: async (contextId: string, more: Record<string, unknown> = {}) => {
      await author.submit('first', { contextId })
      const todo = await worker.claim()
      await ask(worker, todo, 'which?', more)
      return todo
    },
  }
}
const receiptOf = (task: Answer) => task.metadata?.['urn:switchboard:receipt']

test.each(['serial', 'parallel'])(
  'by the policy a message without a task id answers its author’s one question there (%s)',
  async (contexts) => {
    const name = `question-${contexts}`
    const { author, other, worker, asking } = await queueOf(name, { reentry: 'question', contexts })
    const todo = await asking('c')
    // Another client's message and one of another conversation make tasks, as ever.
    for (const task of [
      await other.submit('this', { contextId: 'c' }),
      await author.submit('this', { contextId: 'd' }),
      await author.submit('this'),
    ]) {
      expect(task.id).not.toBe(todo.id)
      expect(receiptOf(task)).toBeUndefined()
      await worker.call('todos.complete', (await worker.claim()).held)
    }
    const answer = await author.submit('this', { contextId: 'c' })
    expect(answer.id).toBe(todo.id)
    expect(receiptOf(answer)).toMatchObject({ outcome: 'resumed' })
    // It is at work now, so what follows is new work and no word into it.
    const next = await author.submit('and a taxi', { contextId: 'c' })
    expect(next.id).not.toBe(todo.id)
    expect(receiptOf(next)).toBeUndefined()
    const { messages } = await worker.call('todos.messages', todo.held)
    expect(messages).toHaveLength(1)
    expect(messages[0].message.parts).toEqual([{ text: 'this' }])
  },
)

test('where two questions are open, nobody guesses: a new task says that both stay open', async () => {
  const parallel = await queueOf('two-parallel', { reentry: 'explicit', contexts: 'parallel' })
  const first = await parallel.asking('c')
  const second = await parallel.asking('c')
  await operate(app, 'queues.put', { name: 'two-parallel', policy: { reentry: 'question' } })
  const created = await parallel.author.submit('this', { contextId: 'c' })
  expect([first.id, second.id]).not.toContain(created.id)
  expect(receiptOf(created)).toEqual({
    messageId: created.history[0].messageId,
    seq: 1,
    outcome: 'created',
    answers: null,
    openQuestions: [first.id, second.id],
  })
})

test('by default a message without a task id is a new task, and its receipt names the open question', async () => {
  const { author, other, asking } = await queueOf('explicit', {})
  const todo = await asking('c')
  const created = await author.submit('this', { contextId: 'c' })
  expect(created.id).not.toBe(todo.id)
  expect(receiptOf(created)).toMatchObject({ outcome: 'created', openQuestions: [todo.id] })
  expect((await author.get(todo.id)).status.state).toBe('TASK_STATE_INPUT_REQUIRED')
  // Nobody learns of another's question, and a message that names the task answers as ever.
  expect(receiptOf(await other.submit('this', { contextId: 'c' }))).toBeUndefined()
  const named = await author.submit('this', { taskId: todo.id })
  expect(receiptOf(named)).not.toHaveProperty('openQuestions')
  expect(receiptOf(named).outcome).toBe('resumed')
})

test('an answer by context must fit the question, and a repeat of it answers nothing more', async () => {
  const { author, worker, asking } = await queueOf('fitting', {
    reentry: 'question',
    dedupe: 'messageId',
  })
  const schema = { type: 'object', required: ['n'] }
  const todo = await asking('c', { schema })
  const message = textMessage('', { contextId: 'c', parts: [{ data: { n: 1 } }] })
  const send = (params: object) =>
    author.call('SendMessage', { configuration: { returnImmediately: true }, ...params })
  const wrong = await send({ message: textMessage('', { contextId: 'c', parts: [{ data: {} }] }) })
  expect(wrong.error.code).toBe(-32602)
  expect(receiptOf((await send({ message })).result.task).outcome).toBe('resumed')
  const { messages } = await worker.call('todos.messages', todo.held)
  for (const { seq } of messages)
    await worker.call('todos.acknowledge', { ...todo.held, through: seq })
  await ask(worker, todo, 'and?', { schema })
  const again = (await send({ message })).result.task
  expect(again).toMatchObject({ id: todo.id, status: { state: 'TASK_STATE_INPUT_REQUIRED' } })
  expect(receiptOf(again).outcome).toBe('repeated')
})
