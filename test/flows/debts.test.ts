/**
 * Messages that nobody has read are owed an answer: a todo that ends without reading them says so wherever it is
 * shown, and its retry has them, with all that was said before.
 */
import { expect, test } from 'vitest'
import { runCli } from '../cli/run.ts'
import { ADMIN_TOKEN, startApp } from '../support/app.ts'
import { type Answer, a2aClient, agentClient, textMessage } from '../support/clients/actors.ts'
import { ask, lapseLease, metric, operate, refusalOf, saying } from '../support/steps.ts'

const app = await startApp({ reapMs: 3_600_000 })
const { client, agent } = await app.queue('desk', { contexts: 'parallel', maxAttempts: 2 })
const a2a = a2aClient(app.url, 'desk', client.token)
const worker = agentClient(app.url, agent.token)
const error = { code: 'boom', message: 'it broke' }
const shown = (id: string): Promise<Answer> => operate(app, 'todos.show', { id })
const textsOf = (documents: Answer[]): string[] => documents.map(({ parts }) => parts[0].text)

/** A claimed todo to which two messages have come that its holder has not read. */
const owing = async (text = 'a table') => {
  const { id } = await a2a.submit(text)
  const todo = await worker.claim()
  for (const more of ['by the window', 'and quiet']) {
    await a2a.submit(more, { taskId: id })
  }
  return todo
}

test('a rejection, and a failure for good, say how many messages nobody has read', async () => {
  const series = (state: string) => `switchboard_todos_owing_total{queue="desk",state="${state}"}`
  const before = await metric(app, series('failed'))
  const rejected = await owing()
  await worker.call('todos.reject', { ...rejected.held, message: saying('no') })
  const failed = await owing()
  await worker.call('todos.fail', { ...failed.held, error, retryable: false })
  for (const { id } of [rejected, failed]) {
    const { unread, result, owed, events } = await shown(id)
    expect({ unread, owed: result.owed }).toEqual({ unread: 2, owed: 2 })
    expect(textsOf(owed.map(({ message }: Answer) => message))).toEqual([
      'by the window',
      'and quiet',
    ])
    expect(events.at(-1).detail.owed).toBe(2)
    expect((await operate(app, 'todos.why', { id })).why).toContain('owes an answer to 2 unread')
  }
  expect((await shown(failed.id)).result).toEqual({ error: 'boom', detail: 'it broke', owed: 2 })
  expect(await metric(app, series('failed'))).toBe(before + 1)
  expect(await metric(app, series('rejected'))).toBe(1)
})

test('one that is tried again owes it to the next attempt, and one that was read owes nothing', async () => {
  const first = await owing()
  await worker.call('todos.fail', { ...first.held, error, retryInSeconds: 0 })
  expect((await shown(first.id)).events.at(-1).detail.owed).toBeUndefined()
  const again = await worker.claim()
  expect(again.unread).toHaveLength(2)
  await worker.call('todos.acknowledge', { ...again.held, through: again.unread[1].seq })
  await worker.call('todos.fail', { ...again.held, error })
  const { result, owed, events } = await shown(first.id)
  expect([result, owed, events.at(-1).detail.owed]).toEqual([
    { error: 'boom', detail: 'it broke' },
    [],
    undefined,
  ])
  // A client that cancels has taken back what it said.
  const canceled = await owing()
  await a2a.call('CancelTask', { id: canceled.id })
  expect((await shown(canceled.id)).events.at(-1).detail?.owed).toBeUndefined()
})

test('a dead letter that the server makes says what it owes as well', async () => {
  const todo = await owing()
  await worker.call('todos.fail', { ...todo.held, error, retryInSeconds: 0 })
  const again = await worker.claim()
  await worker.call('todos.heartbeat', again.held)
  await lapseLease(app, todo.id)
  await app.sweep.reap()
  const { result, events } = await shown(todo.id)
  expect(result).toMatchObject({ error: 'lease_expired', owed: 2 })
  expect(events.at(-1).detail).toEqual({ error: { code: 'lease_expired' }, owed: 2 })
})

test('a retry has the whole conversation, and owes what the dead one owed', async () => {
  const { id } = await a2a.submit('a table')
  const todo = await worker.claim()
  const { seq: question } = (await ask(worker, todo, 'when?').then(() => shown(id))).question
  await a2a.submit('tonight', { taskId: id })
  const [answer] = (await worker.call('todos.messages', { ...todo.held })).messages
  await worker.call('todos.acknowledge', { ...todo.held, through: answer.seq })
  // A number keeps its digits on the way.
  await a2a.submit('x', { parts: [{ data: 1.5e300 }, { text: 'x' }], taskId: id })
  await a2a.submit('for two', { taskId: id })
  await worker.call('todos.artifact', {
    ...todo.held,
    artifact: { artifactId: 'draft', parts: [{ text: 'Dear' }] },
  })
  await worker.call('todos.fail', {
    ...todo.held,
    error,
    retryable: false,
    message: saying('sorry'),
  })

  const retried = await operate(app, 'todos.retry', { id })
  expect(retried.unread).toBe(2)
  expect(retried.artifacts).toEqual([])
  const task = await a2a.get(retried.id)
  expect(task.status.state).toBe('TASK_STATE_SUBMITTED')
  expect(task.history.map(({ parts }: Answer) => parts.at(-1).text)).toEqual([
    'a table',
    'when?',
    'tonight',
    'x',
    'for two',
    'sorry',
  ])
  expect(new Set(task.history.map(({ taskId }: Answer) => taskId))).toEqual(new Set([retried.id]))
  const next = await worker.claim()
  expect(next.id).toBe(retried.id)
  expect(next.history).toHaveLength(6)
  expect(textsOf(next.unread.slice(1).map(({ message }: Answer) => message))).toEqual(['for two'])
  expect(next.history[2].parts).toEqual([{ text: 'tonight' }])
  const { messages } = await shown(retried.id)
  expect(messages.find((each: Answer) => each.answers !== undefined).answers).toBe(question)

  // The debts bind as those of any todo; what is done from here on stands behind what was carried.
  const refusal = await refusalOf(worker.call('todos.complete', { ...next.held }))
  expect(refusal.data.reason).toBe('unread_messages')
  const { seq } = await worker.call('todos.say', { ...next.held, message: saying('on it') })
  expect(seq).toBeGreaterThan(next.unread[1].seq)
  const done = { ...next.held, acknowledge: seq, message: saying('booked') }
  expect(await worker.call('todos.complete', done)).toEqual({ state: 'done' })
  const stored = await app.sql<{ message: string }>(
    `select d.message::text as message from messages d join messages r
      on r.todo_id = $2 and r.seq = d.seq and (r.message -> 'parts')::text = (d.message -> 'parts')::text
    where d.todo_id = $1`,
    [id, retried.id],
  )
  expect(stored).toHaveLength(6)
})

test('artifacts come along where they are wanted, and can be dropped like those of an earlier attempt', async () => {
  const { result } = await a2a.call('SendMessage', {
    message: textMessage('a letter'),
    metadata: { 'switchboard/author': 'ann' },
    configuration: { returnImmediately: true },
  })
  const { id } = result.task
  const todo = await worker.claim()
  const chunk = (artifactId: string, text: string, more = {}) =>
    worker.call('todos.artifact', {
      ...todo.held,
      artifact: { artifactId, parts: [{ text }] },
      ...more,
    })
  await chunk('whole', 'all', { lastChunk: true })
  await chunk('begun', 'Dear ')
  await chunk('begun', 'Ada', { append: true })
  await worker.call('todos.fail', { ...todo.held, error, retryable: false })
  const env = { SWITCHBOARD_URL: app.url, SWITCHBOARD_ADMIN_TOKEN: ADMIN_TOKEN }
  const { stdout } = await runCli(['retry', id, '--artifacts', '--json'], { env })
  const retried = JSON.parse(stdout)
  expect(retried.artifacts.map(({ artifactId }: Answer) => artifactId)).toEqual(['whole', 'begun'])
  const { events } = await shown(retried.id)
  expect(events.map(({ verb, author }: Answer) => `${verb} ${author}`)).toEqual([
    'send ann',
    ...[1, 2, 3].map(() => 'artifact ann'),
  ])
  const next = await worker.claim()
  expect(next.artifacts.map(({ parts }: Answer) => parts.map(({ text }: Answer) => text))).toEqual([
    ['all'],
    ['Dear ', 'Ada'],
  ])
  const listed = await worker.call('todos.documents', { id: next.id })
  expect(listed.documents.filter(({ artifact }: Answer) => artifact)).toHaveLength(3)
  const { discarded } = await worker.call('todos.discardArtifacts', { ...next.held })
  expect(discarded).toEqual(['begun'])
  await worker.call('todos.complete', next.held)
  const task = await a2a.get(next.id)
  expect(task.artifacts.map(({ artifactId }: Answer) => artifactId)).toEqual(['whole'])
})

test('a rejected todo is retried where it owes something, and not where it does not', async () => {
  const todo = await owing('who is there?')
  await worker.call('todos.reject', todo.held)
  const { id } = await operate(app, 'todos.retry', { id: todo.id })
  const next = await worker.claim()
  expect([next.id, next.unread.length]).toEqual([id, 2])
  await worker.call('todos.reject', { ...next.held })
  const third = await operate(app, 'todos.retry', { id })
  expect((await a2a.get(third.id)).history).toHaveLength(3)
  const last = await worker.claim()
  await worker.call('todos.acknowledge', { ...last.held, through: last.unread[1].seq })
  await worker.call('todos.reject', last.held)
  const refusal = await refusalOf(operate(app, 'todos.retry', { id: last.id }))
  expect(refusal.data).toMatchObject({ reason: 'wrong_state', state: 'rejected' })
})

test('a child is retried with its debts, too', async () => {
  const boss = await app.vend(['work', 'send'], ['desk'])
  const parent = agentClient(app.url, boss.token)
  await a2a.submit('a feast')
  const todo = await parent.claim()
  const { children } = await parent.call('todos.fork', {
    ...todo.held,
    children: [{ queue: 'desk', message: saying('a cake') }],
  })
  const child = await worker.claim()
  await operate(app, 'todos.answer', { id: child.id, message: saying('with cherries') })
  await worker.call('todos.fail', { ...child.held, error, retryable: false })
  const { id, parentId } = await operate(app, 'todos.retry', { id: children[0].id })
  expect(parentId).toBe(todo.id)
  const next = await worker.claim()
  expect([next.id, textsOf(next.unread.map(({ message }: Answer) => message))]).toEqual([
    id,
    ['with cherries'],
  ])
})
