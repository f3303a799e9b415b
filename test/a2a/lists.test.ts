// Field cases: one meaning of history length; the shape of a list; lists since a moment.
import { expect, test } from 'vitest'
import { startApp } from '../support/app.ts'
import { type Answer, a2aClient, agentClient, textMessage } from '../support/clients/actors.ts'
import { ask, nextOf, saying } from '../support/steps.ts'

const app = await startApp()
const { client, agent } = await app.queue('desk', { contexts: 'parallel' })
const a2a = a2aClient(app.url, 'desk', client.token)
const worker = agentClient(app.url, agent.token)

const list = async (params: Record<string, unknown> = {}) => {
  const answer = await a2a.call('ListTasks', params)
  if (answer.error) throw new Error(JSON.stringify(answer.error))
  return answer.result
}
const idsOf = (page: Answer): string[] => page.tasks.map(({ id }: Answer) => id)

test('the list of a caller without tasks is empty, with all its members', async () => {
  const { token } = await app.vend(['send'], ['desk'])
  const { result } = await a2aClient(app.url, 'desk', token).call('ListTasks', {})
  expect(result).toEqual({ tasks: [], nextPageToken: '', pageSize: 50, totalSize: 0 })
})

test('artifacts are listed when they are asked for, and else there is no such member', async () => {
  const task = await a2a.submit('x')
  const todo = await worker.claim()
  const artifacts = [{ artifactId: 'a', parts: [{ text: 'content' }] }]
  await worker.call('todos.complete', { ...todo.held, artifacts })
  for (const params of [{}, { includeArtifacts: false }]) {
    for (const entry of (await list(params)).tasks) expect(entry).not.toHaveProperty('artifacts')
  }
  const { tasks } = await list({ includeArtifacts: true })
  expect(tasks.find(({ id }: Answer) => id === task.id).artifacts).toEqual(artifacts)
})

test('pages hold every task once, newest status first, and say how many there are', async () => {
  const ids = []
  for (let i = 0; i < 7; i += 1) {
    ids.push((await a2a.submit(`n${i}`, { contextId: 'pages' })).id)
  }
  // The oldest is touched last: it is the status that counts, not the age.
  await a2a.call('CancelTask', { id: ids[0] })
  const expected = [ids[0], ...ids.slice(1).reverse()]
  const seen: string[] = []
  let pageToken = ''
  do {
    const page = await list({ contextId: 'pages', pageSize: 3, ...(pageToken && { pageToken }) })
    expect(page).toMatchObject({ pageSize: 3, totalSize: 7 })
    seen.push(...idsOf(page))
    pageToken = page.nextPageToken
  } while (pageToken)
  expect(seen).toEqual(expected)
  const stamps = (await list({ contextId: 'pages' })).tasks.map((t: Answer) => t.status.timestamp)
  expect(stamps).toEqual(stamps.toSorted().reverse())
  for (const id of ids) await a2a.call('CancelTask', { id })
})

test('each state is listed under its own name, a failure with a retry due as submitted', async () => {
  const take = async () => {
    const { id } = await a2a.submit('x', { contextId: 'states' })
    const todo = await worker.claim()
    expect(todo.id).toBe(id)
    return todo
  }
  const error = { code: 'boom', message: 'it broke' }
  const expected: Record<string, string[]> = {}
  const put = (state: string, id: string) => {
    expected[state] = [...(expected[state] ?? []), id]
  }
  const done = await take()
  await worker.call('todos.complete', done.held)
  put('COMPLETED', done.id)
  const dead = await take()
  await worker.call('todos.fail', { ...dead.held, error, retryable: false })
  put('FAILED', dead.id)
  const retrying = await take()
  await worker.call('todos.fail', { ...retrying.held, error, retryInSeconds: 3600 })
  put('SUBMITTED', retrying.id)
  const rejected = await take()
  await worker.call('todos.reject', rejected.held)
  put('REJECTED', rejected.id)
  const canceled = await take()
  await a2a.call('CancelTask', { id: canceled.id })
  put('CANCELED', canceled.id)
  for (const state of ['input-required', 'auth-required']) {
    const asked = await take()
    await ask(worker, asked, 'well?', { state })
    put(state.toUpperCase().replace('-', '_'), asked.id)
  }
  put('WORKING', (await take()).id)
  put('SUBMITTED', (await a2a.submit('x', { contextId: 'states' })).id)

  for (const [state, ids] of Object.entries(expected)) {
    const page = await list({ contextId: 'states', status: `TASK_STATE_${state}` })
    expect([state, idsOf(page).sort()]).toEqual([state, ids.sort()])
    expect(page.totalSize).toBe(ids.length)
    for (const task of page.tasks) expect(task.status.state).toBe(`TASK_STATE_${state}`)
  }
  expect((await list({ contextId: 'states' })).totalSize).toBe(9)
})

test('the bound of a status timestamp takes in what is shown with that timestamp', async () => {
  const { id } = await a2a.submit('x', { contextId: 'bound' })
  const { timestamp } = (await a2a.get(id)).status
  const later = new Date(Date.parse(timestamp) + 1).toISOString()
  const after = async (statusTimestampAfter: string) =>
    idsOf(await list({ contextId: 'bound', statusTimestampAfter }))
  expect(await after(timestamp)).toEqual([id])
  expect(await after(later)).toEqual([])
  expect(await after(timestamp.replace('Z', '+00:00'))).toEqual([id])
  expect(await after('1970-01-01T00:00:00Z')).toEqual([id])
  await a2a.call('CancelTask', { id })
})

test('the same history is shown by each method that takes its length, and reading never shortens it', async () => {
  const task = await a2a.submit('u1', { contextId: 'history' })
  const todo = await worker.claim({ queues: ['desk'] }).then(async (first) => {
    let claimed = first
    while (claimed.id !== task.id) claimed = await worker.claim()
    return claimed
  })
  for (const turn of [1, 2]) {
    await ask(worker, todo, `a${turn}`)
    await a2a.submit(`u${turn + 1}`, { taskId: task.id })
  }
  const all = ['u1', 'a1', 'u2', 'a2', 'u3']
  const repeat = textMessage('u3', { taskId: task.id })
  let sent = 0
  const texts = (shown: Answer) => shown.history?.map(({ parts }: Answer) => parts[0].text)
  for (const [historyLength, expected] of [
    [undefined, all],
    [0, undefined],
    [2, ['a2', 'u3']],
    [100, all],
    ['2', ['a2', 'u3']],
  ] as const) {
    const length = historyLength === undefined ? {} : { historyLength }
    const { result: read } = await a2a.call('GetTask', { id: task.id, ...length })
    expect(texts(read)).toEqual(expected)
    if (expected === undefined) expect(read).not.toHaveProperty('history')
    const { tasks } = await list({ contextId: 'history', ...length })
    expect(texts(tasks[0])).toEqual(expected)
  }
  // A follow-up adds to the history that it then shows; the repeated one adds nothing.
  for (const historyLength of [undefined, 0, 2, 100]) {
    const configuration = {
      returnImmediately: true,
      ...(historyLength !== undefined && { historyLength }),
    }
    const { task: answered } = (await a2a.call('SendMessage', { message: repeat, configuration }))
      .result
    sent = 1
    const now = [...all, 'u3'].slice(historyLength === undefined ? 0 : -Math.max(historyLength, 0))
    const expected = historyLength === 0 ? undefined : now
    expect(texts(answered)).toEqual(expected)
    const stream = await a2a.stream('SendStreamingMessage', { message: repeat, configuration })
    const { json } = await nextOf(stream)
    expect(texts(json.result.task)).toEqual(expected)
    stream.close()
  }
  expect((await a2a.get(task.id)).history).toHaveLength(all.length + sent)
  const { messages } = await worker.call('todos.messages', todo.held)
  const acknowledge = messages.at(-1).seq
  await worker.call('todos.complete', { ...todo.held, acknowledge, message: saying('done') })
})

test('a page of large tasks ends early, and its token leads to the rest', async () => {
  const large = 'x'.repeat(3_500_000)
  const ids = []
  for (let i = 0; i < 4; i += 1) ids.push((await a2a.submit(large, { contextId: 'large' })).id)
  const first = await list({ contextId: 'large' })
  expect(idsOf(first)).toEqual(ids.slice(1).reverse())
  const rest = await list({ contextId: 'large', pageToken: first.nextPageToken })
  expect(idsOf(rest)).toEqual(ids.slice(0, 1))
  expect(rest.nextPageToken).toBe('')
  for (const id of ids) await a2a.call('CancelTask', { id })
})

test('of a long history an answer shows the first message and the newest, and says how many it leaves out', async () => {
  const task = await a2a.submit('first', { contextId: 'long' })
  const long = 'y'.repeat(1_200_000)
  for (let n = 0; n < 10; n += 1) await a2a.submit(`${n} ${long}`, { taskId: task.id })
  for (const shown of [
    await a2a.get(task.id),
    (await list({ contextId: 'long' })).tasks[0],
    (await a2a.call('GetTask', { id: task.id, historyLength: 100 })).result,
  ]) {
    const texts = shown.history.map(({ parts }: Answer) => parts[0].text.slice(0, 5))
    // Six times 1.2 MB are less than 8 MB.
    expect(texts).toEqual(['first', ...[4, 5, 6, 7, 8, 9].map((n) => `${n} yyy`)])
    expect(shown.metadata['urn:switchboard:omitted']).toEqual({ messages: 4, artifactBytes: 0 })
  }
  await a2a.call('CancelTask', { id: task.id })
})
