// HTTP+JSON of A2A 1.0: every route, as the wire has it.
// Field cases: one task in two dialects; text survives every path; one meaning of history length;
// the shape of a list; lists since a moment; an answer has a body.
import { expect, test } from 'vitest'
import { startApp } from '../../support/app.ts'
import { a2aClient, agentClient, textMessage } from '../../support/clients/actors.ts'
import { restClient } from '../../support/clients/rest.ts'
import { ask, metric, ODD_TEXT, saying } from '../../support/steps.ts'
import { until } from '../../support/until.ts'

const app = await startApp({ maxWaitMs: 20_000 })
const { client, agent } = await app.queue('desk', { contexts: 'parallel' })
const rest = restClient(app.url, 'desk', client.token)
const a2a = a2aClient(app.url, 'desk', client.token)
const worker = agentClient(app.url, agent.token)

const atOnce = { returnImmediately: true }

const submitAndClaim = async (text = 'x', more = {}) => {
  await rest.submit(text, more)
  return worker.claim()
}

test('a send waits for the end and answers with the wrapped task, words unharmed', async () => {
  const sent = rest.send(ODD_TEXT)
  const todo = await worker.claim()
  expect(todo.message.parts[0].text).toBe(ODD_TEXT)
  await worker.call('todos.complete', {
    ...todo.held,
    message: saying(ODD_TEXT),
    artifacts: [{ artifactId: 'a', parts: [{ text: ODD_TEXT }] }],
  })
  const { status, headers, body } = await sent
  expect(status).toBe(200)
  expect(headers.get('content-type')).toMatch(/^application\/json\b/)
  expect(headers.get('cache-control')).toBe('no-store')
  expect(Object.keys(body)).toEqual(['task'])
  expect(body.task.status).toMatchObject({
    state: 'TASK_STATE_COMPLETED',
    message: { role: 'ROLE_AGENT', parts: [{ text: ODD_TEXT }] },
  })
  expect(body.task.artifacts[0].parts).toEqual([{ text: ODD_TEXT }])
})

test('a bare message of the agent comes wrapped as a message', async () => {
  const sent = rest.send('x')
  const todo = await worker.claim()
  await worker.call('todos.complete', { ...todo.held, direct: true, message: saying('bare') })
  expect((await sent).body).toMatchObject({ message: { parts: [{ text: 'bare' }] } })
})

test('a send that does not wait is answered at once, and its task is there', async () => {
  const task = await rest.submit('x')
  const { status, body } = await rest.get(`/tasks/${task.id}`)
  expect(status).toBe(200)
  expect(body).toEqual(task)
  await rest.call('POST', `/tasks/${task.id}:cancel`)
})

test('one task shows the same facts over both bindings', async () => {
  const todo = await submitAndClaim('both')
  await ask(worker, todo, 'well?')
  const { body } = await rest.get(`/tasks/${todo.id}`)
  expect(body).toEqual(await a2a.get(todo.id))
  expect((await rest.get('/tasks', { contextId: todo.contextId })).body).toEqual(
    (await a2a.call('ListTasks', { contextId: todo.contextId })).result,
  )
  await rest.call('POST', `/tasks/${todo.id}:cancel`)
})

test('a question is answered under the id of the task, its context inferred', async () => {
  const todo = await submitAndClaim('x')
  await ask(worker, todo, 'which?')
  const answered = rest.send('this', { taskId: todo.id })
  const { messages } = await worker.call('todos.messages', { ...todo.held, waitMs: 25_000 })
  await worker.call('todos.complete', { ...todo.held, acknowledge: messages[0].seq })
  const { body } = await answered
  expect(body.task).toMatchObject({
    id: todo.id,
    contextId: todo.contextId,
    status: { state: 'TASK_STATE_COMPLETED' },
  })
})

test('the history is as long as the query asks', async () => {
  const todo = await submitAndClaim('u1')
  for (const turn of [1, 2]) {
    await ask(worker, todo, `a${turn}`)
    await rest.submit(`u${turn + 1}`, { taskId: todo.id })
    const { messages } = await worker.call('todos.messages', todo.held)
    await worker.call('todos.acknowledge', { ...todo.held, through: messages.at(-1).seq })
  }
  await worker.call('todos.complete', todo.held)
  const history = async (query?: Record<string, string>) =>
    (await rest.get(`/tasks/${todo.id}`, query)).body.history?.map(
      (message: { parts: { text: string }[] }) => message.parts[0]!.text,
    )
  const all = ['u1', 'a1', 'u2', 'a2', 'u3']
  expect(await history()).toEqual(all)
  expect(await history({ historyLength: '0' })).toBeUndefined()
  expect(await history({ historyLength: '2' })).toEqual(all.slice(-2))
  expect(await history({ historyLength: '100' })).toEqual(all)
  for (const historyLength of ['-1', '1.5', 'x', '']) {
    const { status } = await rest.get(`/tasks/${todo.id}`, { historyLength })
    expect([historyLength, status]).toEqual([historyLength, 400])
  }
})

test('a list has its four members always, and artifacts where they were asked for', async () => {
  const { client: other } = await app.queue('lists')
  const lists = restClient(app.url, 'lists', other.token)
  expect((await lists.get('/tasks')).body).toEqual({
    tasks: [],
    nextPageToken: '',
    pageSize: 50,
    totalSize: 0,
  })
  const ids: string[] = []
  for (const text of ['1', '2', '3']) ids.unshift((await lists.submit(text)).id)
  const first = (await lists.get('/tasks', { pageSize: '2' })).body
  expect(first).toMatchObject({ pageSize: 2, totalSize: 3 })
  const rest = (await lists.get('/tasks/', { pageSize: '2', pageToken: first.nextPageToken })).body
  expect([...first.tasks, ...rest.tasks].map(({ id }: { id: string }) => id)).toEqual(ids)
  expect(rest.nextPageToken).toBe('')
  const shown = (await lists.get('/tasks', { includeArtifacts: 'true' })).body.tasks
  expect(shown.every((task: object) => 'artifacts' in task)).toBe(true)
  const hidden = (await lists.get('/tasks', { includeArtifacts: 'false' })).body.tasks
  expect(hidden.some((task: object) => 'artifacts' in task)).toBe(false)

  const since = shown[0].status.timestamp
  const after = async (statusTimestampAfter: string) =>
    (await lists.get('/tasks', { statusTimestampAfter })).body.totalSize
  expect(await after(since)).toBeGreaterThan(0)
  expect(await after(new Date(Date.parse(since) + 1).toISOString())).toBe(0)
  expect((await lists.get('/tasks', { status: 'TASK_STATE_WORKING' })).body.totalSize).toBe(0)
})

test.each([
  ['no body', {}],
  ['no body, of a type', { headers: { 'Content-Type': 'application/json' } }],
  ['no body, of a type that is none of ours', { headers: { 'Content-Type': 'text/plain' } }],
  ['an empty object', { body: {} }],
  ['metadata', { body: { metadata: { why: 'no more' } } }],
  ['null', { body: 'null' }],
  [
    'null of the type of A2A',
    { body: 'null', headers: { 'Content-Type': 'application/a2a+json' } },
  ],
  ['blanks', { body: ' \n' }],
])('a task is canceled with %s', async (_what, options) => {
  const { id } = await rest.submit('x')
  const { status, body } = await rest.call('POST', `/tasks/${id}:cancel`, options)
  expect([status, body.status?.state]).toEqual([200, 'TASK_STATE_CANCELED'])
})

test('null with no type at all is no body', async () => {
  const { id } = await rest.submit('x')
  // A Blob without a type is the one body that fetch gives no type.
  const response = await fetch(`${rest.base}/tasks/${id}:cancel`, {
    method: 'POST',
    headers: { 'A2A-Version': '1.0', Authorization: `Bearer ${client.token}` },
    body: new Blob(['null']),
  })
  expect(response.status).toBe(200)
})

test('the extended card is served where there is one', async () => {
  await app.services.operator.putQueue({
    name: 'famous',
    card: {
      capabilities: { extendedAgentCard: true },
      extended: { description: 'for friends' },
    },
  })
  const { token } = await app.vend(['send'], ['famous'])
  const { status, body } = await restClient(app.url, 'famous', token).get('/extendedAgentCard')
  expect([status, body.description]).toEqual([200, 'for friends'])
})

test('the version comes by the query where no header can be set, and the header wins', async () => {
  const plain = restClient(app.url, 'desk', client.token, null)
  expect((await plain.get('/tasks', { 'A2A-Version': '1.0' })).status).toBe(200)
  expect((await plain.get('/tasks', { 'A2A-Version': '1.0.7' })).status).toBe(200)
  expect((await rest.get('/tasks', { 'A2A-Version': '9.9' })).status).toBe(200)
})

test('the type of A2A is answered to those who name it, and JSON to all others', async () => {
  const type = async (Accept: string, path = '/tasks') =>
    (await rest.call('GET', path, { headers: { Accept } })).headers.get('content-type')
  for (const accept of [
    'application/a2a+json',
    'application/a2a+json, application/json',
    'text/html, Application/A2A+JSON;q=0.5',
  ]) {
    expect(await type(accept)).toBe('application/a2a+json')
    expect(await type(accept, '/tasks/none')).toBe('application/a2a+json')
    expect(await type(accept, '/nowhere')).toBe('application/a2a+json')
  }
  for (const accept of ['*/*', 'application/*', 'application/json', 'application/a2a+json;q=0']) {
    expect(await type(accept)).toMatch(/^application\/json\b/)
  }
})

test('bodies of either type are read', async () => {
  const { status } = await rest.call('POST', '/message:send', {
    body: { message: textMessage('x'), configuration: { return_immediately: true } },
    headers: { 'Content-Type': 'application/a2a+json; charset=utf-8' },
  })
  expect(status).toBe(200)
})

test('each answer is an object of JSON, that of a delete too, however often it is called', async () => {
  const { id } = await rest.submit('x')
  const configs = `/tasks/${id}/pushNotificationConfigs`
  const config = { id: 'c', url: 'https://example.com/' }
  const calls: [string, string, object?][] = [
    ['POST', '/message:send', { message: textMessage('y'), configuration: atOnce }],
    ['GET', '/tasks'],
    ['GET', `/tasks/${id}`],
    ['POST', configs, config],
    ['GET', configs],
    ['GET', `${configs}/c`],
    ['DELETE', `${configs}/c`],
    ['DELETE', `${configs}/c`],
    ['POST', `/tasks/${id}:cancel`],
  ]
  for (const [verb, path, body] of calls) {
    const answer = await rest.call(verb, path, body ? { body } : {})
    expect([path, answer.status]).toEqual([path, 200])
    expect(answer.headers.get('content-type')).toMatch(/^application\/json\b/)
    expect(answer.body).toBeTypeOf('object')
    if (verb === 'DELETE') expect(answer.body).toEqual({})
  }
})

test('HEAD is GET without a body, and OPTIONS tells what a path takes', async () => {
  const head = await rest.call('HEAD', '/tasks')
  expect([head.status, head.body]).toEqual([200, null])
  expect(Number(head.headers.get('content-length'))).toBeGreaterThan(0)
  expect((await rest.call('HEAD', '/tasks/none')).status).toBe(404)
  for (const [path, allow] of [
    ['/message:send', 'POST, OPTIONS'],
    ['/tasks', 'GET, HEAD, OPTIONS'],
    ['/tasks/x:subscribe', 'POST, GET, OPTIONS'],
    ['/tasks/x/pushNotificationConfigs', 'POST, GET, HEAD, OPTIONS'],
    ['/tasks/x/pushNotificationConfigs/c', 'GET, HEAD, DELETE, OPTIONS'],
  ]) {
    const { status, headers, body } = await rest.call('OPTIONS', path!, { token: null })
    expect([path, status, headers.get('allow'), body]).toEqual([path, 204, allow, null])
  }
  expect((await rest.call('OPTIONS', '/nowhere')).status).toBe(404)
})

test('a client that hangs up while its send waits leaves the task alone', async () => {
  const hangUp = new AbortController()
  const sent = rest.call('POST', '/message:send', {
    body: { message: textMessage('long') },
    signal: hangUp.signal,
  })
  sent.catch(() => {})
  const todo = await worker.claim()
  hangUp.abort()
  await expect(sent).rejects.toThrow()
  expect((await worker.call('todos.heartbeat', todo.held)).state).toBe('claimed')
  await worker.call('todos.complete', todo.held)
  expect((await rest.get(`/tasks/${todo.id}`)).body.status.state).toBe('TASK_STATE_COMPLETED')
})

test('calls are counted under the name of the method, whatever the binding', async () => {
  const series = (code: number) =>
    `switchboard_requests_total{surface="a2a",method="GetTask",code="${code}"}`
  const before = [await metric(app, series(0)), await metric(app, series(-32001))]
  const { id } = await rest.submit('x')
  await rest.get(`/tasks/${id}`)
  await rest.get('/tasks/none')
  await until(async () => (await metric(app, series(0))) === before[0]! + 1)
  await until(async () => (await metric(app, series(-32001))) === before[1]! + 1)
})
