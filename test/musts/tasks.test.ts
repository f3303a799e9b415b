// What a server must say of tasks: their ids (MUSTs 15, 16), waiting and streams (11, 21), messages
// of the server (67), lists (34, 39), artifacts (66).
import { expect, test } from 'vitest'
import { startApp } from '../support/app.ts'
import { type Answer, a2aClient, agentClient, textMessage } from '../support/clients/actors.ts'
import { restClient } from '../support/clients/rest.ts'
import { ask, resultsOf, saying, statesOf } from '../support/steps.ts'

const app = await startApp()
const { client, agent } = await app.queue('desk', { contexts: 'parallel' })
const a2a = a2aClient(app.url, 'desk', client.token)
const rest = restClient(app.url, 'desk', client.token)
const worker = agentClient(app.url, agent.token)

const UUID = /^[\da-f]{8}-[\da-f]{4}-[1-8][\da-f]{3}-[89ab][\da-f]{3}-[\da-f]{12}$/
const cancel = (id: string) => a2a.call('CancelTask', { id })

test('each task has an id and a context of the server’s making, also where a message is sent twice', async () => {
  const message = textMessage('x')
  const tasks: Answer[] = []
  for (let n = 0; n < 3; n += 1) {
    const configuration = { returnImmediately: true }
    tasks.push((await a2a.call('SendMessage', { message, configuration })).result.task)
  }
  for (const each of ['id', 'contextId']) {
    const ids = tasks.map((task) => task[each])
    expect(new Set(ids).size).toBe(3)
    for (const id of ids) expect(id).toMatch(UUID)
    expect(ids).not.toContain(message.messageId)
  }
  for (const { id } of tasks) await cancel(id)
})

test('not to wait changes no stream: it goes on to the end', async () => {
  const stream = await a2a.stream('SendStreamingMessage', {
    message: textMessage('x'),
    configuration: { returnImmediately: true },
  })
  const todo = await worker.claim()
  await worker.call('todos.say', { ...todo.held, message: saying('on it') })
  await worker.call('todos.complete', todo.held)
  expect(statesOf(await stream.rest())).toEqual([
    'TASK_STATE_SUBMITTED',
    'TASK_STATE_WORKING',
    'TASK_STATE_WORKING',
    'TASK_STATE_COMPLETED',
  ])
})

test('a bare message ends the stream of its task as the last status, never beside the task', async () => {
  const stream = await a2a.stream('SendStreamingMessage', { message: textMessage('x') })
  const todo = await worker.claim()
  await worker.call('todos.complete', { ...todo.held, direct: true, message: saying('bare') })
  const results = resultsOf(await stream.rest())
  expect(results.map((result) => Object.keys(result))).toEqual([
    ['task'],
    ['statusUpdate'],
    ['statusUpdate'],
  ])
  expect(results.at(-1).statusUpdate.status).toMatchObject({
    state: 'TASK_STATE_COMPLETED',
    message: { parts: [{ text: 'bare' }] },
  })
})

test('whatever the agent says is told with its context, and its task', async () => {
  const bare = async (send: () => Promise<Answer>) => {
    const sent = send()
    const todo = await worker.claim()
    await worker.call('todos.complete', { ...todo.held, direct: true, message: saying('bare') })
    const { message } = await sent
    const { id: taskId, contextId } = todo
    expect(message).toMatchObject({ role: 'ROLE_AGENT', taskId, contextId })
    expect(message.messageId).toBeTruthy()
  }
  await bare(async () => (await a2a.send('x')).result)
  await bare(async () => (await rest.send('x')).body)

  const { id: taskId, contextId } = await a2a.submit('x')
  const todo = await worker.claim()
  const stream = await a2a.stream('SubscribeToTask', { id: taskId })
  await worker.call('todos.say', { ...todo.held, message: saying('one') })
  await ask(worker, todo, 'two?')
  await cancel(taskId)
  const told = resultsOf(await stream.rest()).flatMap(
    ({ statusUpdate }) => statusUpdate?.status.message ?? [],
  )
  const { history } = await a2a.get(taskId)
  expect(told.map(({ parts }: Answer) => parts[0].text)).toEqual(['one', 'two?'])
  for (const message of [...told, ...history]) expect(message).toMatchObject({ taskId, contextId })
})

test('a walk through the pages meets no task twice, and misses none, while others come and move', async () => {
  const ids: string[] = []
  const submit = async () => {
    ids.unshift((await a2a.submit('x', { contextId: 'walk' })).id)
  }
  for (let n = 0; n < 6; n += 1) await submit()
  const before = [...ids]
  const seen: string[] = []
  let pageToken = ''
  do {
    const { result } = await a2a.call('ListTasks', {
      contextId: 'walk',
      pageSize: 2,
      ...(pageToken && { pageToken }),
    })
    seen.push(...result.tasks.map(({ id }: Answer) => id))
    pageToken = result.nextPageToken
    // One comes on top, and one that was shown already moves there.
    if (seen.length <= 4) await submit()
    if (seen.length === 2) await cancel(seen[0]!)
  } while (pageToken)
  expect(seen).toEqual(before)
  for (const id of ids) await cancel(id)
})

test('who says no size gets fifty at most, over both bindings', async () => {
  const ids: string[] = []
  for (let n = 0; n < 51; n += 1) ids.push((await a2a.submit('x', { contextId: 'many' })).id)
  const pages = [
    (await a2a.call('ListTasks', { contextId: 'many' })).result,
    (await rest.get('/tasks', { contextId: 'many' })).body,
  ]
  for (const page of pages) {
    expect(page).toMatchObject({ pageSize: 50, totalSize: 51 })
    expect(page.tasks).toHaveLength(50)
    expect(page.nextPageToken).not.toBe('')
  }
  for (const id of ids) await cancel(id)
})

test('of two artifacts under one id the later one takes the place of the other', async () => {
  for (const artifacts of [['one', 'two'], ['two']]) {
    const { id } = await a2a.submit('x')
    const todo = await worker.claim()
    const artifact = (text: string) => ({ artifactId: 'a', parts: [{ text }] })
    if (artifacts.length === 1) {
      await worker.call('todos.artifact', { ...todo.held, artifact: artifact('one') })
    }
    await worker.call('todos.complete', { ...todo.held, artifacts: artifacts.map(artifact) })
    expect((await a2a.get(id)).artifacts).toEqual([artifact('two')])
  }
})
