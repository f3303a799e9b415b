// Field cases: a retried task names what it redoes.
import { expect, test } from 'vitest'
import { startApp } from '../support/app.ts'
import { a2aClient, agentClient, textMessage } from '../support/clients/actors.ts'
import { v03Client } from '../support/clients/old-clients.ts'
import { operate } from '../support/steps.ts'

const app = await startApp()
const { client, agent } = await app.queue('desk')
const a2a = a2aClient(app.url, 'desk', client.token)
const worker = agentClient(app.url, agent.token)

const die = async () => {
  const todo = await worker.claim()
  const error = { code: 'boom', message: 'it broke' }
  await worker.call('todos.fail', { ...todo.held, error, retryable: false })
  return todo
}

test('for its client the new task names the dead one, in its message and its metadata, and the dead one the new', async () => {
  const first = await a2a.submit('x', { referenceTaskIds: ['earlier'], contextId: 'c' })
  await die()
  expect((await a2a.get(first.id)).metadata).toBeUndefined()
  const { id, retryOf } = await operate(app, 'todos.retry', { id: first.id })
  expect(retryOf).toBe(first.id)

  const second = await a2a.get(id)
  expect(second.metadata).toEqual({ 'urn:switchboard:retry-of': first.id })
  expect(second.history[0].referenceTaskIds).toEqual(['earlier', first.id])
  expect((await a2a.get(first.id)).metadata).toEqual({ 'urn:switchboard:retried-as': id })
  expect(await operate(app, 'todos.show', { id: first.id })).toMatchObject({ retriedAs: id })

  // The same in a list, in 0.3, and for the agent that works on it.
  const { result } = await a2a.call('ListTasks', { contextId: 'c' })
  expect(result.tasks.map(({ metadata }: { metadata: object }) => metadata)).toEqual([
    second.metadata,
    { 'urn:switchboard:retried-as': id },
  ])
  const old = v03Client(app.url, 'desk', client.token)
  expect(await old.get(id)).toMatchObject({
    metadata: second.metadata,
    history: [{ referenceTaskIds: ['earlier', first.id] }],
  })
  const todo = await die()
  expect(todo.message.referenceTaskIds).toEqual(['earlier', first.id])

  // A retry of the retry refers to both, each once.
  const third = await a2a.get((await operate(app, 'todos.retry', { id })).id)
  expect(third.history[0].referenceTaskIds).toEqual(['earlier', first.id, id])
  expect(third.metadata).toEqual({ 'urn:switchboard:retry-of': id })
  expect((await a2a.get(id)).metadata).toEqual({
    'urn:switchboard:retry-of': first.id,
    'urn:switchboard:retried-as': third.id,
  })
})

test('what the client put into its metadata is kept beside it', async () => {
  const { result } = await a2a.call('SendMessage', {
    message: textMessage('x'),
    metadata: { ticket: 7 },
    configuration: { returnImmediately: true },
  })
  await app.sql(`update todos set priority = 0 where id = $1`, [result.task.id])
  const todo = await die()
  expect(todo.id).toBe(result.task.id)
  const { id } = await operate(app, 'todos.retry', { id: todo.id })
  expect((await a2a.get(id)).metadata).toEqual({
    ticket: 7,
    'urn:switchboard:retry-of': todo.id,
  })
})
