/**
 * What agents hand over piece by piece.
 * Field cases: no backward moves; artifact chunks; one rule for the chunks of an artifact;
 * the chunk that begins an artifact.
 */
import { expect, test } from 'vitest'
import { startApp } from '../support/app.ts'
import {
  type Answer,
  a2aClient,
  agentClient,
  type Frame,
  resumeAfter,
} from '../support/clients/actors.ts'
import { type Claimed, refusalOf, resultsOf, rowCounts, saying } from '../support/steps.ts'

const app = await startApp()
const { client, agent } = await app.queue('desk', { contexts: 'parallel' })
const a2a = a2aClient(app.url, 'desk', client.token)
const worker = agentClient(app.url, agent.token)

const submitAndClaim = async () => {
  await a2a.submit('x')
  return worker.claim()
}
const chunk = (todo: Claimed, artifactId: string, text: string, more = {}) =>
  worker.call('todos.artifact', {
    ...todo.held,
    artifact: { artifactId, parts: [{ text }] },
    ...more,
  })
const partsOf = async (id: string, artifactId: string) =>
  (await a2a.get(id)).artifacts.find(
    (artifact: { artifactId: string }) => artifact.artifactId === artifactId,
  )?.parts

test('chunks are put together in their order, and nothing comes after the last', async () => {
  const todo = await submitAndClaim()
  const stream = await a2a.stream('SubscribeToTask', { id: todo.id })
  await chunk(todo, 'a1', 'A')
  await chunk(todo, 'a1', 'B', { append: true })
  await chunk(todo, 'a1', 'C', { append: true, lastChunk: true })
  const whole = [{ text: 'A' }, { text: 'B' }, { text: 'C' }]
  expect(await partsOf(todo.id, 'a1')).toEqual(whole)
  const before = await rowCounts(app)
  const refusal = await refusalOf(chunk(todo, 'a1', 'D', { append: true }))
  expect(refusal.code).toBe(-32602)
  expect(refusal.data.violations[0].field).toBe('append')
  expect(await rowCounts(app)).toEqual(before)
  expect(await partsOf(todo.id, 'a1')).toEqual(whole)

  await chunk(todo, 'a2', 'X')
  await chunk(todo, 'a2', 'X')
  expect(await partsOf(todo.id, 'a2')).toEqual([{ text: 'X' }])
  await chunk(todo, 'a3', 'Z', { append: true })
  expect(await partsOf(todo.id, 'a3')).toEqual([{ text: 'Z' }])
  await worker.call('todos.complete', todo.held)

  const frames = resultsOf(await stream.rest()).flatMap(
    ({ artifactUpdate }) => artifactUpdate ?? [],
  )
  expect(
    frames.map(({ artifact, append, lastChunk }) => [
      artifact.artifactId,
      artifact.parts[0].text,
      append ?? false,
      lastChunk ?? false,
    ]),
  ).toEqual([
    ['a1', 'A', false, false],
    ['a1', 'B', true, false],
    ['a1', 'C', true, true],
    ['a2', 'X', false, false],
    ['a2', 'X', false, false],
    // An append to nothing begins the artifact, and says so: there is nothing to append it to.
    ['a3', 'Z', false, false],
  ])
})

test('a chunk that begins an artifact appends to nothing, in a stream and a resumed one', async () => {
  const todo = await submitAndClaim()
  const stream = await a2a.stream('SubscribeToTask', { id: todo.id })
  for (const id of ['a', 'b']) await chunk(todo, id, '1', { append: true })
  await chunk(todo, 'a', '2', { append: true })
  await chunk(todo, 'a', 'anew')
  await chunk(todo, 'b', '2', { append: true, lastChunk: true })
  await worker.call('todos.complete', todo.held)
  const appends = (frames: Frame[]) =>
    resultsOf(frames).flatMap(({ artifactUpdate }) =>
      artifactUpdate ? [[artifactUpdate.artifact.artifactId, artifactUpdate.append ?? false]] : [],
    )
  const expected = [
    ['a', false],
    ['b', false],
    ['a', true],
    ['a', false],
    ['b', true],
  ]
  expect(appends(await stream.rest())).toEqual(expected)
  const headers = resumeAfter('2')
  const resumed = await a2a.stream('SubscribeToTask', { id: todo.id }, { headers })
  expect(appends(await resumed.rest())).toEqual(expected)
})

/** What a reader of a stream makes of an artifact's chunks, by the rule of docs/protocol.md. */
const assembled = (chunks: Answer[]) =>
  chunks.reduce((before, { artifact, append }) => {
    if (!append) return artifact
    const whole = before
    const metadata = { ...whole.metadata, ...artifact.metadata }
    const extensions = [...new Set([...(whole.extensions ?? []), ...(artifact.extensions ?? [])])]
    return {
      ...whole,
      ...artifact,
      parts: [...whole.parts, ...artifact.parts],
      ...(Object.keys(metadata).length > 0 && { metadata }),
      ...(extensions.length > 0 && { extensions }),
    }
  }, null)

test('what later chunks say of an artifact is merged, and later wins, in a stream and in Get alike', async () => {
  const todo = await submitAndClaim()
  const stream = await a2a.stream('SubscribeToTask', { id: todo.id })
  const proto = JSON.parse('{"__proto__":{"a":1},"b":{"c":2}}')
  const chunks = [
    { parts: [{ text: '1' }], name: 'draft', metadata: { a: 1, b: { x: 1 } } },
    { parts: [{ text: '2' }], metadata: { b: { y: 2 }, c: [3] }, extensions: ['urn:x'] },
    { parts: [{ text: '3' }], extensions: ['urn:y', 'urn:x'] },
    { parts: [{ text: '4' }], name: 'final', description: 'all of it', metadata: { a: null } },
    { parts: [{ text: '5' }], metadata: proto },
  ]
  for (const [n, chunk] of chunks.entries()) {
    const artifact = { artifactId: 'whole', ...chunk }
    await worker.call('todos.artifact', { ...todo.held, artifact, append: n > 0 })
  }
  const whole = {
    artifactId: 'whole',
    name: 'final',
    description: 'all of it',
    parts: ['1', '2', '3', '4', '5'].map((text) => ({ text })),
    metadata: { a: null, b: { c: 2 }, c: [3], ['__proto__']: { a: 1 } },
    extensions: ['urn:x', 'urn:y'],
  }
  const shown = (await a2a.get(todo.id)).artifacts
  expect(shown).toEqual([whole])
  expect(Object.keys(shown[0].metadata)).toContain('__proto__')
  const subscribed = await a2a.stream('SubscribeToTask', { id: todo.id })
  expect((await subscribed.next())?.json.result.task.artifacts).toEqual([whole])
  subscribed.close()
  await worker.call('todos.complete', todo.held)
  const updates = resultsOf(await stream.rest()).flatMap(
    ({ artifactUpdate }) => artifactUpdate ?? [],
  )
  expect(assembled(updates)).toEqual(whole)
  // What a chunk says goes out as it was said: nothing is told twice.
  expect(updates[2].artifact.metadata).toBeUndefined()
})

test('a replacement begins an artifact anew, also a finished one', async () => {
  const todo = await submitAndClaim()
  await chunk(todo, 'a', 'A', { lastChunk: true })
  await chunk(todo, 'a', 'B')
  await chunk(todo, 'a', 'C', { append: true })
  expect(await partsOf(todo.id, 'a')).toEqual([{ text: 'B' }, { text: 'C' }])
  await worker.call('todos.complete', todo.held)
})

test('appends that race on several connections are all kept, once each', async () => {
  const todo = await submitAndClaim()
  await chunk(todo, 'a', 'first')
  const texts = Array.from({ length: 40 }, (_, i) => `n${i}`)
  await Promise.all(texts.map((text) => chunk(todo, 'a', text, { append: true })))
  const parts = await partsOf(todo.id, 'a')
  expect(parts[0]).toEqual({ text: 'first' })
  expect(
    parts
      .slice(1)
      .map(({ text }: { text: string }) => text)
      .sort(),
  ).toEqual(texts.sort())
  await worker.call('todos.complete', todo.held)
})

test('of an append and the last chunk at the same moment nothing follows the last', async () => {
  for (let run = 0; run < 20; run += 1) {
    const todo = await submitAndClaim()
    await chunk(todo, 'a', 'first')
    await Promise.allSettled([
      chunk(todo, 'a', 'last', { append: true, lastChunk: true }),
      ...[1, 2, 3].map((n) => chunk(todo, 'a', `n${n}`, { append: true })),
    ])
    const parts = await partsOf(todo.id, 'a')
    expect(parts.at(-1)).toEqual({ text: 'last' })
    await worker.call('todos.complete', todo.held)
  }
})

test('artifacts given with a completion are there with it, or, where it is refused, not at all', async () => {
  const todo = await submitAndClaim()
  await a2a.submit('one more thing', { taskId: todo.id })
  const artifacts = [
    { artifactId: 'a', parts: [{ text: 'A' }] },
    { artifactId: 'b', parts: [{ text: 'B' }] },
  ]
  const before = await rowCounts(app)
  const refusal = await refusalOf(worker.call('todos.complete', { ...todo.held, artifacts }))
  expect(refusal.data.reason).toBe('unread_messages')
  expect(refusal.data.unread).toHaveLength(1)
  expect(await rowCounts(app)).toEqual(before)
  const acknowledge = refusal.data.unread[0].seq
  await worker.call('todos.complete', { ...todo.held, artifacts, acknowledge })
  expect((await a2a.get(todo.id)).artifacts).toEqual(artifacts)
})

test('after the end nothing moves back: each later report is refused and tells nobody anything', async () => {
  const todo = await submitAndClaim()
  await worker.call('todos.say', { ...todo.held, message: saying('working') })
  await worker.call('todos.complete', { ...todo.held, message: saying('done') })
  const shown = await a2a.get(todo.id)
  const before = await rowCounts(app)
  for (const [verb, more] of [
    ['say', { message: saying('working') }],
    ['artifact', { artifact: { artifactId: 'a', parts: [{ text: 'x' }] } }],
    ['complete', {}],
    ['release', {}],
    ['progress', {}],
  ] as const) {
    const refusal = await refusalOf(worker.call(`todos.${verb}`, { ...todo.held, ...more }))
    expect([verb, refusal.data]).toMatchObject([verb, { reason: 'stale_fence', state: 'done' }])
  }
  expect(await rowCounts(app)).toEqual(before)
  expect(await a2a.get(todo.id)).toEqual(shown)
})
