// Streams of A2A 0.3.
// Field cases: resume after the last event seen; independent streams; hanging up is not canceling;
// streams and questions; frames are not held back; frame format; any open task can be followed.
import { expect, test } from 'vitest'
import { startApp, startNode } from '../../support/app.ts'
import { type Answer, a2aClient, agentClient, type Frame } from '../../support/clients/actors.ts'
import { textMessage03, v03Client } from '../../support/clients/old-clients.ts'
import { ask, type Claimed, nextOf, resultsOf, saying, UNKNOWN_ID } from '../../support/steps.ts'
import { until } from '../../support/until.ts'

const app = await startApp({ pollMs: 60_000, pingMs: 20 })
const { client, agent } = await app.queue('desk', { contexts: 'parallel' })
const v03 = v03Client(app.url, 'desk', client.token)
const v1 = a2aClient(app.url, 'desk', client.token)
const worker = agentClient(app.url, agent.token)

const submitAndClaim = async () => {
  await v03.submit('x')
  return worker.claim()
}
const follow = (id: string, lastEventId?: string, side = v03) =>
  side.stream(
    'tasks/resubscribe',
    { id },
    lastEventId === undefined ? {} : { headers: { 'Last-Event-ID': lastEventId } },
  )
const say = (todo: Claimed, text: string) =>
  worker.call('todos.say', { ...todo.held, message: saying(text) })

/** What a frame says, in a word. */
const wordOf = ({ json: { result } }: Frame): string => {
  if (result.kind === 'artifact-update') return `artifact ${result.artifact.parts[0].text}`
  const { state, message } = result.status
  const text = message ? ` ${message.parts[0].text}` : ''
  return `${result.kind === 'task' ? 'task ' : ''}${state}${text}${result.final ? ' final' : ''}`
}
const wordsOf = (frames: Frame[]) => frames.map(wordOf)

test('a stream of a send opens with the task and ends with its one final event', async () => {
  const stream = await v03.stream('message/stream', { message: textMessage03('x') })
  expect(stream.headers.get('content-type')).toMatch(/^text\/event-stream/)
  const first = await nextOf(stream)
  expect(first.json).toMatchObject({ jsonrpc: '2.0', id: 's', result: { kind: 'task' } })
  const { id, contextId } = first.json.result
  const todo = await worker.claim()
  const artifact = { artifactId: 'a', parts: [{ text: 'A' }] }
  await worker.call('todos.artifact', { ...todo.held, artifact })
  await worker.call('todos.artifact', { ...todo.held, artifact, append: true, lastChunk: true })
  await worker.call('todos.complete', { ...todo.held, message: saying('done') })
  const frames = await stream.rest()
  expect(wordsOf([first, ...frames])).toEqual([
    'task submitted',
    'working',
    'artifact A',
    'artifact A',
    'completed done final',
  ])
  const ids = { taskId: id, contextId }
  const results = resultsOf(frames)
  for (const result of results) expect(result).toMatchObject(ids)
  expect(results.map(({ kind, final }) => [kind, final])).toEqual([
    ['status-update', false],
    ['artifact-update', undefined],
    ['artifact-update', undefined],
    ['status-update', true],
  ])
  expect(results[2]).toEqual({
    kind: 'artifact-update',
    ...ids,
    artifact: { artifactId: 'a', parts: [{ kind: 'text', text: 'A' }] },
    append: true,
    lastChunk: true,
  })
})

test.each(['input-required', 'auth-required'])(
  'a stream of 0.3 ends with %s, one of 1.0 goes on',
  async (state) => {
    const sent = await v03.stream('message/stream', { message: textMessage03('x') })
    const todo = await worker.claim()
    const [newer, older] = [
      await v1.stream('SubscribeToTask', { id: todo.id }),
      await follow(todo.id),
    ]
    await nextOf(newer)
    await ask(worker, todo, 'well?', { state })
    expect(wordsOf(await sent.rest()).at(-1)).toBe(`${state} well? final`)
    expect(wordsOf(await older.rest())).toEqual(['task working', `${state} well? final`])

    // The answer's own stream shows what becomes of it.
    const answer = await v03.stream('message/stream', {
      message: textMessage03('this', { taskId: todo.id }),
    })
    await nextOf(answer)
    const { messages } = await worker.call('todos.messages', { ...todo.held, waitMs: 25_000 })
    await worker.call('todos.complete', { ...todo.held, acknowledge: messages[0].seq })
    expect(wordsOf(await answer.rest()).at(-1)).toBe('completed final')
    const names = resultsOf(await newer.rest()).map(({ statusUpdate }) => statusUpdate.status.state)
    expect(names).toEqual([
      `TASK_STATE_${state.toUpperCase().replace('-', '_')}`,
      'TASK_STATE_WORKING',
      'TASK_STATE_COMPLETED',
    ])
  },
)

test('a stream of a task that asks already says so and ends', async () => {
  const todo = await submitAndClaim()
  await ask(worker, todo, 'which?')
  const stream = await follow(todo.id)
  expect(wordsOf(await stream.rest())).toEqual([
    'task input-required which?',
    'input-required which? final',
  ])
  await v03.call('tasks/cancel', { id: todo.id })
})

test('an ended task is one event, and the end; an unknown one is plain JSON', async () => {
  const todo = await submitAndClaim()
  await worker.call('todos.complete', { ...todo.held, message: saying('done') })
  const frames = await (await follow(todo.id)).rest()
  expect(resultsOf(frames)).toEqual([await v03.get(todo.id)])
  const { headers, body } = await follow(UNKNOWN_ID)
  expect(headers.get('content-type')).toMatch(/^application\/json/)
  expect(body.error.code).toBe(-32001)
})

test('a stream resumes after the last event it showed: the missed ones once, in order, on any node', async () => {
  const todo = await submitAndClaim()
  const stream = await follow(todo.id)
  await say(todo, 'n1')
  await say(todo, 'n2')
  const seen = [await nextOf(stream), await nextOf(stream), await nextOf(stream)]
  stream.close()
  expect(wordsOf(seen)).toEqual(['task working', 'working n1', 'working n2'])
  for (let i = 3; i <= 12; i += 1) await say(todo, `n${i}`)
  const other = await startNode(app.databaseUrl, { pollMs: 60_000 })
  const streams = [v03, v03Client(other.url, 'desk', client.token)].map((side) =>
    follow(todo.id, seen.at(-1)!.id!, side),
  )
  const resumed = await Promise.all(streams)
  const missed = Array.from({ length: 10 }, (_, i) => `working n${i + 3}`)
  for (const stream of resumed) {
    expect(wordsOf(await stream.until((frame) => wordOf(frame) === missed.at(-1)))).toEqual(missed)
  }
  await say(todo, 'live')
  await worker.call('todos.complete', todo.held)
  const ends = await Promise.all(resumed.map((stream) => stream.rest()))
  for (const frames of ends) expect(wordsOf(frames)).toEqual(['working live', 'completed final'])
  await other.stop()
  // After the end, too: what was missed up to it.
  const late = await (await follow(todo.id, seen.at(-1)!.id!)).rest()
  expect(wordsOf(late)).toEqual([...missed, 'working live', 'completed final'])
  expect(await (await follow(todo.id, late.at(-1)!.id!)).rest()).toEqual([])
  const { body } = await follow(todo.id, '999999')
  expect(body.error.code).toBe(-32602)
})

test('who resumes is not stopped by a question that was answered meanwhile', async () => {
  const todo = await submitAndClaim()
  const stream = await follow(todo.id)
  const { id } = await nextOf(stream)
  stream.close()
  await ask(worker, todo, 'first?')
  // Its moment is told in milliseconds.
  await until(async () => (await v03.get(todo.id)).status.timestamp < new Date().toISOString())
  await v03.submit('one', { taskId: todo.id })
  const { messages } = await worker.call('todos.messages', { ...todo.held, waitMs: 25_000 })
  await worker.call('todos.acknowledge', { ...todo.held, through: messages[0].seq })
  await ask(worker, todo, 'second?')
  const frames = await (await follow(todo.id, id)).rest()
  expect(wordsOf(frames)).toEqual([
    'input-required first?',
    'working',
    'input-required second? final',
  ])
  // Who has seen the question waits for what comes after it.
  const waiting = await follow(todo.id, frames.at(-1)!.id)
  await v03.call('tasks/cancel', { id: todo.id })
  expect(wordsOf(await waiting.rest())).toEqual(['canceled final'])
})

test('streams of both versions show the same events under the same ids, each for itself', async () => {
  const todo = await submitAndClaim()
  const [first, second] = [
    await v1.stream('SubscribeToTask', { id: todo.id }),
    await follow(todo.id),
  ]
  const third = await follow(todo.id)
  await say(todo, 'n0')
  await nextOf(third)
  await nextOf(third)
  third.close()
  for (let i = 1; i <= 10; i += 1) await say(todo, `n${i}`)
  await worker.call('todos.complete', { ...todo.held, message: saying('done') })
  const [newer, older] = [await first.rest(), await second.rest()]
  const textIn = (update: Answer): string | undefined => update?.status.message?.parts[0].text
  expect(older.map(({ id, json }) => [id, textIn(json.result)])).toEqual(
    newer.map(({ id, json: { result } }) => [id, textIn(result.statusUpdate ?? result.task)]),
  )
  expect(older.map(({ json }) => json.result.status.timestamp)).toEqual(
    newer.map(({ json: { result } }) => (result.statusUpdate ?? result.task).status.timestamp),
  )
})

test('hanging up is not cancelling', async () => {
  const stream = await v03.stream('message/stream', { message: textMessage03('x') })
  await nextOf(stream)
  stream.close()
  const todo = await worker.claim()
  await worker.call('todos.complete', todo.held)
  expect((await v03.get(todo.id)).status.state).toBe('completed')
})

test('an answer that waits for its line keeps its stream open until the agent has gone on', async () => {
  const serial = await app.queue('serial')
  const side = v03Client(app.url, 'serial', serial.client.token)
  const hand = agentClient(app.url, serial.agent.token)
  const first = await side.submit('first')
  const asking = await hand.claim()
  await ask(hand, asking, 'which?')
  // Another task of the conversation is at work when the answer comes.
  await side.submit('second', { contextId: first.contextId })
  const busy = await hand.claim()
  const stream = await side.stream('message/stream', {
    message: textMessage03('this', { taskId: first.id }),
  })
  expect(wordOf(await nextOf(stream))).toBe('task input-required which?')
  await hand.call('todos.complete', busy.held)
  // The answer is there to be read before its line has let the agent go on.
  const { messages } = await until(
    async () => {
      const read = await hand.call('todos.messages', asking.held)
      return read.state === 'claimed' && read
    },
    { what: 'the agent goes on' },
  )
  await hand.call('todos.complete', { ...asking.held, acknowledge: messages[0].seq })
  expect(wordsOf(await stream.rest())).toEqual(['working', 'completed final'])
})

test('a task that is refused at intake is told as ended, with its final event', async () => {
  const strict = await app.queue('strict')
  const side = v03Client(app.url, 'strict', strict.client.token)
  const { id, contextId } = await side.submit('first')
  const stream = await side.stream('message/stream', {
    message: textMessage03('second', { contextId }),
    metadata: { 'urn:switchboard:busy': 'reject' },
  })
  const words = wordsOf(await stream.rest())
  expect(words).toEqual(['task rejected', 'rejected final'])
  await side.call('tasks/cancel', { id })
})

test('who takes nothing but events is refused by one, and all others in plain JSON', async () => {
  const ask = (method: string, params: unknown, accept: string, version = '0.3') =>
    v03.stream(method, params, { headers: { Accept: accept, 'A2A-Version': version } })
  const lost = { message: textMessage03('x', { taskId: UNKNOWN_ID }) }
  for (const [method, params, code] of [
    ['tasks/resubscribe', { id: UNKNOWN_ID }, -32001],
    ['message/stream', lost, -32001],
    ['message/stream', {}, -32602],
    ['tasks/sendSubscribe', {}, -32602],
  ] as const) {
    const stream = await ask(method, params, 'text/event-stream')
    expect(stream.status).toBe(200)
    expect((await stream.rest()).map(({ json }) => [json.id, json.error.code])).toEqual([
      ['s', code],
    ])
    for (const accept of ['*/*', 'text/event-stream, application/json', 'application/json']) {
      expect((await ask(method, params, accept)).body.error.code).toBe(code)
    }
  }
  const refused = await ask('SubscribeToTask', { id: UNKNOWN_ID }, 'text/event-stream', '1.0')
  expect(refused.body.error.code).toBe(-32001)
  expect((await ask('tasks/get', { id: UNKNOWN_ID }, 'text/event-stream')).body.error.code).toBe(
    -32001,
  )
  expect((await ask('message/stream', lost, 'text/event-stream', '9.9')).body.error.code).toBe(
    -32009,
  )
})
