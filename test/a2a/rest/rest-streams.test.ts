// Streams of HTTP+JSON in A2A 1.0.
// Field cases: failure before the first event; subscribe opens with the task;
// resume after the last event seen; independent streams; hanging up is not canceling; keep-alives.
import { request } from 'node:http'
import { expect, test } from 'vitest'
import { startApp, startNode } from '../../support/app.ts'
import {
  type Answer,
  agentClient,
  type Frame,
  resumeAfter,
  textMessage,
} from '../../support/clients/actors.ts'
import { restClient } from '../../support/clients/rest.ts'
import { ask, type Claimed, metric, nextOf, saying } from '../../support/steps.ts'
import { until } from '../../support/until.ts'

const app = await startApp({ pollMs: 60_000, pingMs: 20 })
const { client, agent } = await app.queue('desk', { contexts: 'parallel' })
const rest = restClient(app.url, 'desk', client.token)
const worker = agentClient(app.url, agent.token)

const submitAndClaim = async () => {
  await rest.submit('x')
  return worker.claim()
}
const say = (todo: Claimed, text: string) =>
  worker.call('todos.say', { ...todo.held, message: saying(text) })
const stateOf = ({ json }: Frame): string | undefined =>
  (json.task ?? json.statusUpdate)?.status.state
const textsOf = (frames: Frame[]): string[] =>
  frames.flatMap(({ json }) => json.statusUpdate?.status.message?.parts[0].text ?? [])
const strip = (frames: Frame[]): Answer[] => frames.map(({ id, json }) => [id, json])

const METHODS = ['GET', 'POST'] as const

test('a stream of a send shows bare payloads of one member each: task, work, artifact, end', async () => {
  const stream = await rest.stream('POST', '/message:stream', {
    body: { message: textMessage('x') },
  })
  expect(stream.headers.get('content-type')).toMatch(/^text\/event-stream/)
  const first = await nextOf(stream)
  expect(Object.keys(first.json)).toEqual(['task'])
  expect(stateOf(first)).toBe('TASK_STATE_SUBMITTED')
  const todo = await worker.claim()
  await worker.call('todos.artifact', {
    ...todo.held,
    artifact: { artifactId: 'a', parts: [{ text: 'A' }] },
  })
  await worker.call('todos.complete', { ...todo.held, message: saying('done') })
  const frames = [first, ...(await stream.rest())]
  expect(frames.map(({ json }) => Object.keys(json))).toEqual([
    ['task'],
    ['statusUpdate'],
    ['artifactUpdate'],
    ['statusUpdate'],
  ])
  expect(stateOf(frames.at(-1)!)).toBe('TASK_STATE_COMPLETED')
  expect(frames[2]!.json.artifactUpdate).toMatchObject({
    taskId: todo.id,
    contextId: todo.contextId,
    artifact: { artifactId: 'a', parts: [{ text: 'A' }] },
  })
  for (const { id, event } of frames) {
    expect(id).toMatch(new RegExp(`^${todo.id}:\\d+$`))
    expect(event).toBeUndefined()
  }
})

test.each(METHODS)(
  'a subscription by %s opens with the task and stays open over a question',
  async (method) => {
    const todo = await submitAndClaim()
    await ask(worker, todo, 'well?')
    const stream = await rest.stream(method, `/tasks/${todo.id}:subscribe`)
    expect(stateOf(await nextOf(stream))).toBe('TASK_STATE_INPUT_REQUIRED')
    await rest.submit('so', { taskId: todo.id })
    const { messages } = await worker.call('todos.messages', todo.held)
    await worker.call('todos.complete', { ...todo.held, acknowledge: messages.at(-1).seq })
    const frames = await stream.rest()
    expect(frames.map(stateOf)).toEqual(['TASK_STATE_WORKING', 'TASK_STATE_COMPLETED'])
  },
)

test.each([{ body: 'null' }, { body: {} }, { headers: { 'Content-Type': 'application/json' } }])(
  'a subscription with %j is one',
  async (options) => {
    const todo = await submitAndClaim()
    const stream = await rest.stream('POST', `/tasks/${todo.id}:subscribe`, options)
    expect(stateOf(await nextOf(stream))).toBe('TASK_STATE_WORKING')
    stream.close()
    await worker.call('todos.complete', todo.held)
  },
)

test('what was missed is replayed from the last id, on any node, by either method and either binding', async () => {
  const todo = await submitAndClaim()
  const stream = await rest.stream('GET', `/tasks/${todo.id}:subscribe`)
  for (let i = 1; i <= 4; i += 1) await say(todo, `n${i}`)
  const seen = [await nextOf(stream)]
  for (let i = 1; i <= 4; i += 1) seen.push(await nextOf(stream))
  stream.close()
  for (let i = 5; i <= 14; i += 1) await say(todo, `n${i}`)

  const other = await startNode(app.databaseUrl, { pollMs: 60_000 })
  const headers = resumeAfter(seen.at(-1)!.id!)
  const streams = await Promise.all(
    [rest, restClient(other.url, 'desk', client.token)].flatMap((side) =>
      METHODS.map((method) => side.stream(method, `/tasks/${todo.id}:subscribe`, { headers })),
    ),
  )
  await say(todo, 'live')
  await worker.call('todos.complete', todo.held)
  const all = await Promise.all(streams.map((each) => each.rest()))
  const expected = [...Array.from({ length: 10 }, (_, i) => `n${i + 5}`), 'live']
  for (const frames of all) {
    expect(textsOf(frames)).toEqual(expected)
    expect(stateOf(frames.at(-1)!)).toBe('TASK_STATE_COMPLETED')
    expect(strip(frames)).toEqual(strip(all[0]!))
  }
  // Also after the end; and for who saw it, an empty stream.
  const after = await rest.stream('GET', `/tasks/${todo.id}:subscribe`, { headers })
  expect(strip(await after.rest())).toEqual(strip(all[0]!))
  const last = resumeAfter(all[0]!.at(-1)!.id!)
  const nothing = await rest.stream('GET', `/tasks/${todo.id}:subscribe`, { headers: last })
  expect(await nothing.rest()).toEqual([])
  await other.stop()
})

test.each(['x', '-1', '999999999'])(
  'the cursor %j is refused as a plain answer',
  async (cursor) => {
    const todo = await submitAndClaim()
    const answer = await rest.call('GET', `/tasks/${todo.id}:subscribe`, {
      headers: resumeAfter(cursor),
    })
    expect([answer.status, answer.body.error.status]).toEqual([400, 'INVALID_ARGUMENT'])
    await worker.call('todos.complete', todo.held)
  },
)

test('streams of one task are independent, whichever binding they came by', async () => {
  const todo = await submitAndClaim()
  const [one, two, three] = await Promise.all(
    (['GET', 'POST', 'GET'] as const).map((method) =>
      rest.stream(method, `/tasks/${todo.id}:subscribe`),
    ),
  )
  for (const each of [one!, two!, three!]) await nextOf(each)
  await say(todo, 'n0')
  await nextOf(two!)
  two!.close()
  for (let i = 1; i <= 5; i += 1) await say(todo, `n${i}`)
  await worker.call('todos.complete', todo.held)
  const [first, third] = await Promise.all([one!.rest(), three!.rest()])
  expect(textsOf(first)).toEqual(['n0', 'n1', 'n2', 'n3', 'n4', 'n5'])
  expect(strip(first)).toEqual(strip(third))
})

/** A stream of a send whose socket is destroyed once `cut` characters of it have come. */
const cutAfter = (cut: number): Promise<string> =>
  new Promise((resolve, reject) => {
    const req = request(`${rest.base}/message:stream`, {
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
    req.end(JSON.stringify({ message: textMessage('x') }))
  })

test('a client that hangs up on its stream leaves the task alone, and the stream is let go', async () => {
  for (const cut of [1, 120]) {
    const id = await cutAfter(cut)
    const todo = await worker.claim()
    expect(todo.id).toBe(id)
    await say(todo, 'on and on')
    await worker.call('todos.complete', todo.held)
    expect((await rest.get(`/tasks/${id}`)).body.status.state).toBe('TASK_STATE_COMPLETED')
  }
  await until(async () => (await metric(app, 'switchboard_streams_open{kind="a2a"}')) === 0)
})

test('a silent stream is kept awake by comments, and a server that stops says when to come again', async () => {
  const node = await startNode(app.databaseUrl, { pollMs: 60_000, pingMs: 20 })
  const { id } = await rest.submit('x')
  const stream = await restClient(node.url, 'desk', client.token).stream(
    'GET',
    `/tasks/${id}:subscribe`,
  )
  const first = await nextOf(stream)
  const over = stream.rest()
  await until(() => stream.comments.length > 1)
  await node.stop()
  expect(await over).toEqual([])
  expect(stream.retries).toHaveLength(1)
  const again = await rest.stream('GET', `/tasks/${id}:subscribe`, {
    headers: resumeAfter(first.id!),
  })
  await rest.call('POST', `/tasks/${id}:cancel`)
  expect((await again.rest()).map(stateOf)).toEqual(['TASK_STATE_CANCELED'])
})
