// Streams of A2A 1.0.
// Field cases: failure before the first event; subscribe opens with the task;
// resume after the last event seen; independent streams; hanging up is not canceling;
// a burst and then the end; streams and questions; keep-alives; frames are not held back;
// frame format; any open task can be followed.
import { request } from 'node:http'
import { expect, test } from 'vitest'
import { startApp, startNode } from '../support/app.ts'
import {
  type Answer,
  a2aClient,
  agentClient,
  resumeAfter,
  textMessage,
} from '../support/clients/actors.ts'
import {
  ask,
  type Claimed,
  metric,
  nextOf,
  resultsOf,
  saying,
  statesOf,
  UNKNOWN_ID,
} from '../support/steps.ts'
import { scaled } from '../support/timeouts.ts'
import { until } from '../support/until.ts'

const app = await startApp({ pollMs: 60_000, pingMs: 20 })
const { client, agent } = await app.queue('desk', { contexts: 'parallel' })
const a2a = a2aClient(app.url, 'desk', client.token)
const worker = agentClient(app.url, agent.token)

const submitAndClaim = async () => {
  await a2a.submit('x')
  return worker.claim()
}
const follow = (id: string, lastEventId?: string) =>
  a2a.stream(
    'SubscribeToTask',
    { id },
    lastEventId === undefined ? {} : { headers: resumeAfter(lastEventId) },
  )
const say = (todo: Claimed, text: string) =>
  worker.call('todos.say', { ...todo.held, message: saying(text) })
const chunk = (todo: Claimed, text: string, more = {}) =>
  worker.call('todos.artifact', {
    ...todo.held,
    artifact: { artifactId: 'a', parts: [{ text }] },
    ...more,
  })
const textsOf = (results: Answer[]) =>
  results.flatMap(
    (result) =>
      (result.statusUpdate?.status.message ?? result.artifactUpdate?.artifact)?.parts[0].text ?? [],
  )

test('a stream of a send opens with the task, and a failure before anything else still ends it in order', async () => {
  const stream = await a2a.stream('SendStreamingMessage', { message: textMessage('x') })
  const { task } = (await nextOf(stream)).json.result
  expect(task.status.state).toBe('TASK_STATE_SUBMITTED')
  const todo = await worker.claim()
  await worker.call('todos.fail', {
    ...todo.held,
    error: { code: 'boom', message: 'it broke' },
    message: saying('It broke.'),
    retryable: false,
  })
  const frames = await stream.rest()
  expect(statesOf(frames)).toEqual(['TASK_STATE_WORKING', 'TASK_STATE_FAILED'])
  expect(resultsOf(frames).at(-1).statusUpdate.status.message.parts).toEqual([
    { text: 'It broke.' },
  ])
  const ids = resultsOf(frames).map(({ statusUpdate }) => statusUpdate.taskId)
  expect(new Set([...ids, task.id, (await a2a.get(task.id)).id]).size).toBe(1)
})

test('a failure without a message of the agent still says something', async () => {
  const todo = await submitAndClaim()
  const stream = await follow(todo.id)
  await worker.call('todos.fail', {
    ...todo.held,
    error: { code: 'boom', message: 'it broke' },
    retryable: false,
  })
  const last = resultsOf(await stream.rest()).at(-1)
  expect(last.statusUpdate.status.state).toBe('TASK_STATE_FAILED')
  expect(last.statusUpdate.status.message?.parts[0].text).toBeTruthy()
})

test('a subscription opens with the whole task while it is open, and is refused as plain JSON after', async () => {
  const submitted = await a2a.submit('x')
  const stream = await follow(submitted.id)
  expect((await nextOf(stream)).json.result.task).toEqual(await a2a.get(submitted.id))
  stream.close()
  const todo = await worker.claim()
  await chunk(todo, 'so far')
  for (const act of [() => say(todo, 'busy'), () => ask(worker, todo, 'which?')]) {
    await act()
    const stream = await follow(todo.id)
    expect((await nextOf(stream)).json.result.task).toEqual(await a2a.get(todo.id))
    stream.close()
  }
  await a2a.call('CancelTask', { id: todo.id })
  for (const [id, code] of [
    [todo.id, -32004],
    [UNKNOWN_ID, -32001],
  ] as const) {
    const { headers, body } = await follow(id)
    expect(headers.get('content-type')).toMatch(/^application\/json/)
    expect(body.error.code).toBe(code)
  }
})

test('a stream resumes after the last event it showed: the missed ones once, in order, then live ones, on any node and after a restart', async () => {
  const todo = await submitAndClaim()
  const stream = await follow(todo.id)
  for (let i = 1; i <= 4; i += 1) await say(todo, `n${i}`)
  const seen = [await nextOf(stream)]
  for (let i = 1; i <= 4; i += 1) seen.push(await nextOf(stream))
  stream.close()
  for (const { id } of seen) expect(id).toMatch(/^\d+$/)
  for (let i = 5; i <= 14; i += 1) await say(todo, `n${i}`)

  const other = await startNode(app.databaseUrl, { pollMs: 60_000 })
  const elsewhere = a2aClient(other.url, 'desk', client.token)
  const headers = resumeAfter(seen.at(-1)!.id!)
  const resumed = await Promise.all(
    [a2a, elsewhere].map((side) => side.stream('SubscribeToTask', { id: todo.id }, { headers })),
  )
  const missed = await Promise.all(
    resumed.map(async (stream) => {
      const frames = []
      for (let i = 5; i <= 14; i += 1) frames.push(await nextOf(stream))
      return frames
    }),
  )
  await say(todo, 'live')
  await worker.call('todos.complete', todo.held)
  const expected = Array.from({ length: 10 }, (_, i) => `n${i + 5}`)
  for (const [side, stream] of resumed.entries()) {
    const rest = await stream.rest()
    expect(textsOf(resultsOf([...missed[side]!, ...rest]))).toEqual([...expected, 'live'])
    expect(statesOf(rest).at(-1)).toBe('TASK_STATE_COMPLETED')
  }
  await other.stop()

  const restarted = await startNode(app.databaseUrl, { pollMs: 60_000 })
  const after = a2aClient(restarted.url, 'desk', client.token)
  const again = await after.stream('SubscribeToTask', { id: todo.id }, { headers })
  const frames = await again.rest()
  expect(textsOf(resultsOf(frames))).toEqual([...expected, 'live'])
  expect(statesOf(frames).at(-1)).toBe('TASK_STATE_COMPLETED')
  // Nothing is left for who saw the end: the stream is empty and over.
  const end = await after.stream(
    'SubscribeToTask',
    { id: todo.id },
    { headers: resumeAfter(frames.at(-1)!.id!) },
  )
  expect(await end.rest()).toEqual([])
  await restarted.stop()
})

test.each(['x', '-1', '1.5', '999999999', '99999999999999999999'])(
  'a cursor %j that is no event of the task is refused as plain JSON',
  async (cursor) => {
    const todo = await submitAndClaim()
    const { headers, body } = await follow(todo.id, cursor)
    expect(headers.get('content-type')).toMatch(/^application\/json/)
    expect(body.error.code).toBe(-32602)
    await worker.call('todos.complete', todo.held)
  },
)

test('streams of one task are independent and show the same events under the same ids', async () => {
  const todo = await submitAndClaim()
  const [first, second, third] = await Promise.all([1, 2, 3].map(() => follow(todo.id)))
  const heads = await Promise.all([first!, second!, third!].map(nextOf))
  expect(new Set(heads.map(({ id }) => id)).size).toBe(1)
  await say(todo, 'n0')
  await nextOf(second!)
  second!.close()
  for (let i = 1; i <= 10; i += 1) await say(todo, `n${i}`)
  await worker.call('todos.complete', todo.held)
  const strip = (frames: Answer[]) => frames.map(({ id, json }) => [id, json])
  const [one, three] = await Promise.all([first!.rest(), third!.rest()])
  expect(strip(one)).toEqual(strip(three))
  expect(textsOf(resultsOf(one))).toEqual(Array.from({ length: 11 }, (_, i) => `n${i}`))
})

/** The headers and the first bytes of a stream, then the socket is destroyed at `cut` bytes. */
const cutAfter = (cut: number): Promise<string> =>
  new Promise((resolve, reject) => {
    const message = textMessage('x')
    const req = request(a2a.endpoint, {
      method: 'POST',
      headers: {
        'Content-Type': 'application/json',
        'A2A-Version': '1.0',
        Authorization: `Bearer ${client.token}`,
      },
    })
    req.on('response', (res) => {
      let seen = ''
      res.on('data', (bytes) => {
        seen += bytes
        const id = /"task":\{"id":"([^"]+)"/.exec(seen)?.[1]
        if (!id || seen.length < cut) return
        req.destroy()
        resolve(id)
      })
      res.on('error', () => {})
    })
    req.on('error', reject)
    req.end(
      JSON.stringify({
        jsonrpc: '2.0',
        id: 1,
        method: 'SendStreamingMessage',
        params: { message },
      }),
    )
  })

test('a client that hangs up on its stream leaves the task alone: early, in the middle and late', async () => {
  for (const cut of [1, 120, 400]) {
    const id = await cutAfter(cut)
    const todo = await worker.claim()
    expect(todo.id).toBe(id)
    await chunk(todo, 'A')
    expect((await worker.call('todos.heartbeat', todo.held)).state).toBe('claimed')
    await chunk(todo, 'B', { append: true, lastChunk: true })
    await worker.call('todos.complete', todo.held)
    const done = await a2a.get(id)
    expect(done.status.state).toBe('TASK_STATE_COMPLETED')
    expect(done.artifacts[0].parts).toEqual([{ text: 'A' }, { text: 'B' }])
  }
  await until(async () => (await metric(app, 'switchboard_streams_open{kind="a2a"}')) === 0)
})

test('a burst of a hundred chunks and the end arrive whole and in order, and the stream closes cleanly', async () => {
  const todo = await submitAndClaim()
  const response = await fetch(a2a.endpoint, {
    method: 'POST',
    headers: {
      'Content-Type': 'application/json',
      'A2A-Version': '1.0',
      Authorization: `Bearer ${client.token}`,
    },
    body: JSON.stringify({
      jsonrpc: '2.0',
      id: 1,
      method: 'SubscribeToTask',
      params: { id: todo.id },
    }),
  })
  const batch = Array.from({ length: 99 }, (_, i) => ({
    jsonrpc: '2.0',
    id: i,
    method: 'todos.artifact',
    params: {
      ...todo.held,
      artifact: { artifactId: 'a', parts: [{ text: `c${i}` }] },
      append: i > 0,
    },
  }))
  const posted = await fetch(`${app.url}/agent`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', Authorization: `Bearer ${agent.token}` },
    body: JSON.stringify([
      ...batch,
      { jsonrpc: '2.0', id: 'end', method: 'todos.complete', params: todo.held },
    ]),
  })
  for (const answer of (await posted.json()) as Answer[]) expect(answer.error).toBeUndefined()
  // Reading to the end throws where the connection was reset or the last chunk is missing.
  const text = await response.text()
  const results = text
    .split('\n')
    .filter((line) => line.startsWith('data: '))
    .map((line) => JSON.parse(line.slice(6)).result)
  expect(textsOf(results)).toEqual(batch.map((_, i) => `c${i}`))
  expect(results.flatMap((result) => result.statusUpdate?.status.state ?? [])).toEqual([
    'TASK_STATE_COMPLETED',
  ])
  expect(results.at(-1).statusUpdate).toBeDefined()
  expect((await a2a.get(todo.id)).artifacts[0].parts).toHaveLength(99)
})

test('a subscription stays open through questions and authorisations, and only the end ends it', async () => {
  const { id } = await a2a.submit('x')
  const stream = await follow(id)
  const todo = await worker.claim()
  for (const state of ['input-required', 'auth-required']) {
    await ask(worker, todo, 'well?', { state })
    await a2a.submit('there', { taskId: todo.id })
  }
  const { messages } = await worker.call('todos.messages', todo.held)
  await worker.call('todos.complete', { ...todo.held, acknowledge: messages.at(-1).seq })
  expect(statesOf(await stream.rest())).toEqual([
    'TASK_STATE_SUBMITTED',
    'TASK_STATE_WORKING',
    'TASK_STATE_INPUT_REQUIRED',
    'TASK_STATE_WORKING',
    'TASK_STATE_AUTH_REQUIRED',
    'TASK_STATE_WORKING',
    'TASK_STATE_COMPLETED',
  ])
})

test('a failed attempt with a retry to come does not end a stream', async () => {
  const todo = await submitAndClaim()
  const stream = await follow(todo.id)
  await worker.call('todos.fail', {
    ...todo.held,
    error: { code: 'boom', message: 'it broke' },
    retryInSeconds: 0,
  })
  const again = await worker.claim()
  expect(again).toMatchObject({ id: todo.id, attempt: 2 })
  await worker.call('todos.complete', again.held)
  expect(statesOf(await stream.rest())).toEqual([
    'TASK_STATE_WORKING',
    'TASK_STATE_SUBMITTED',
    'TASK_STATE_WORKING',
    'TASK_STATE_COMPLETED',
  ])
})

test('a silent stream is kept awake by comments, and never by a frame without JSON', async () => {
  const todo = await submitAndClaim()
  const stream = await follow(todo.id)
  await nextOf(stream)
  const next = stream.next()
  await until(() => stream.comments.length >= 3, { what: 'three comments' })
  await worker.call('todos.complete', todo.held)
  expect((await next)!.json.result.statusUpdate.status.state).toBe('TASK_STATE_COMPLETED')
  expect(await stream.next()).toBeNull()
})

test('the headers of a stream come before its first event, forbid to hold it back, and nothing is compressed', async () => {
  const todo = await submitAndClaim()
  const { seq } = await say(todo, 'x')
  const stream = await a2a.stream(
    'SubscribeToTask',
    { id: todo.id },
    { headers: { ...resumeAfter(String(seq)), 'Accept-Encoding': 'gzip, br' } },
  )
  expect(stream.status).toBe(200)
  expect(stream.headers.get('content-type')).toMatch(/^text\/event-stream/)
  expect(stream.headers.get('cache-control')).toMatch(/no-cache/)
  expect(stream.headers.get('cache-control')).toMatch(/no-transform/)
  expect(stream.headers.get('x-accel-buffering')).toBe('no')
  expect(stream.headers.get('content-encoding')).toBeNull()
  for (let i = 0; i < 10; i += 1) {
    await say(todo, `n${i}`)
    const stored = performance.now()
    expect(textsOf(resultsOf([await nextOf(stream)]))).toEqual([`n${i}`])
    // The poll is a minute away: what comes now was told, not found.
    expect(performance.now() - stored).toBeLessThan(scaled(5000))
  }
  await worker.call('todos.complete', todo.held)
})

test('a frame is one line of whole JSON-RPC under the id of its own call, with one result, also of a megabyte', async () => {
  const todo = await submitAndClaim()
  const open = async (id: string | number) => {
    const response = await fetch(a2a.endpoint, {
      method: 'POST',
      headers: {
        'Content-Type': 'application/json',
        'A2A-Version': '1.0',
        Authorization: `Bearer ${client.token}`,
      },
      body: JSON.stringify({
        jsonrpc: '2.0',
        id,
        method: 'SubscribeToTask',
        params: { id: todo.id },
      }),
    })
    return response.text()
  }
  const streams = () => metric(app, 'switchboard_streams_open{kind="a2a"}')
  // Those of the tests before are over, also at the server.
  await until(async () => (await streams()) === 0)
  const texts = Promise.all([open('s1'), open(42)])
  await until(async () => (await streams()) === 2)
  const long = `one\r\ntwo\n\n${'x'.repeat(1_000_000)}`
  await say(todo, long)
  await worker.call('todos.complete', todo.held)
  for (const [index, text] of (await texts).entries()) {
    expect(text.endsWith('\n\n')).toBe(true)
    const blocks = text
      .replaceAll(/^:.*\n/gm, '')
      .split('\n\n')
      .filter((block) => block !== '')
    expect(blocks).toHaveLength(3)
    for (const block of blocks) {
      const data = block.split('\n').filter((line) => line.startsWith('data: '))
      expect(data).toHaveLength(1)
      const body = JSON.parse(data[0]!.slice(6))
      expect(body).toMatchObject({ jsonrpc: '2.0', id: ['s1', 42][index] })
      expect(Object.keys(body.result)).toHaveLength(1)
      expect(['task', 'message', 'statusUpdate', 'artifactUpdate']).toContain(
        Object.keys(body.result)[0],
      )
    }
    const said = JSON.parse(
      blocks[1]!
        .split('\n')
        .find((line) => line.startsWith('data: '))!
        .slice(6),
    )
    expect(said.result.statusUpdate.status.message.parts[0].text).toBe(long)
  }
})

test('a task sent without a stream can be followed to its end from another node that came later', async () => {
  const task = await a2a.submit('x')
  const later = await startNode(app.databaseUrl, { pollMs: 60_000 })
  const stream = await a2aClient(later.url, 'desk', client.token).stream('SubscribeToTask', {
    id: task.id,
  })
  const todo = await worker.claim()
  await chunk(todo, 'A', { lastChunk: true })
  await worker.call('todos.complete', todo.held)
  const results = resultsOf(await stream.rest())
  expect(results.map((result) => Object.keys(result)[0])).toEqual([
    'task',
    'statusUpdate',
    'artifactUpdate',
    'statusUpdate',
  ])
  await later.stop()
})
