/**
 * How a subscription with `Last-Event-ID` begins.
 * Field cases: a subscription begins with the task.
 */
import { expect, test } from 'vitest'
import { startApp } from '../../support/app.ts'
import {
  type Answer,
  a2aClient,
  agentClient,
  type Frame,
  resumeAfter,
  type Stream,
} from '../../support/clients/actors.ts'
import { restClient } from '../../support/clients/rest.ts'
import { nextOf, saying } from '../../support/steps.ts'

const app = await startApp({ pollMs: 60_000 })
const { client, agent } = await app.queue('desk', { contexts: 'parallel' })
const v1 = a2aClient(app.url, 'desk', client.token)
const rest = restClient(app.url, 'desk', client.token)
const rest03 = restClient(app.url, 'desk', client.token, null)
const worker = agentClient(app.url, agent.token)

const chunk = (held: object, text: string, append: boolean) =>
  worker.call('todos.artifact', {
    ...held,
    artifact: { artifactId: 'a', parts: [{ text }] },
    append,
  })
const atWork = async () => {
  await v1.submit('x')
  const todo = await worker.claim()
  await chunk(todo.held, 'A', false)
  return todo
}

type Open = (id: string, headers: Record<string, string>) => Promise<Stream>
const BINDINGS: [string, Open][] = [
  ['JSON-RPC', (id, headers) => v1.stream('SubscribeToTask', { id }, { headers })],
  ['HTTP+JSON', (id, headers) => rest.stream('GET', `/tasks/${id}:subscribe`, { headers })],
]
const unwrapped = ({ json }: Frame): Answer => json.result ?? json

test.each(BINDINGS)('with the task, unless its client resumes: over %s', async (_binding, open) => {
  const todo = await atWork()
  const plain = await open(todo.id, { 'Last-Event-ID': '2' })
  const resuming = await open(todo.id, resumeAfter('2'))
  const first = await nextOf(plain)
  expect(unwrapped(first).task.artifacts[0].parts).toEqual([{ text: 'A' }])
  expect(unwrapped(await nextOf(resuming)).artifactUpdate.artifact.parts).toEqual([{ text: 'A' }])
  expect(resuming.headers.get('a2a-extensions')).toContain('resumable-streams')
  await chunk(todo.held, 'B', true)
  await worker.call('todos.complete', { ...todo.held, message: saying('done') })
  // What the task holds is not told again, and all that follows is.
  const followed = await plain.rest()
  expect(followed.map(unwrapped)).toMatchObject([
    { artifactUpdate: { artifact: { parts: [{ text: 'B' }] }, append: true } },
    { statusUpdate: { status: { state: 'TASK_STATE_COMPLETED' } } },
  ])
  expect(Number(followed[0]!.id)).toBeGreaterThan(Number(first.id))
  expect((await resuming.rest()).map(({ id }) => id)).toEqual(followed.map(({ id }) => id))
})

test.each(BINDINGS)(
  'with the task that ended meanwhile, and ends: over %s',
  async (_binding, open) => {
    const todo = await atWork()
    await worker.call('todos.complete', { ...todo.held, message: saying('done') })
    const frames = await (await open(todo.id, { 'Last-Event-ID': '2' })).rest()
    expect(frames.map(unwrapped)).toMatchObject([
      {
        task: {
          status: { state: 'TASK_STATE_COMPLETED' },
          artifacts: [{ parts: [{ text: 'A' }] }],
        },
      },
    ])
    const seen = { 'Last-Event-ID': frames[0]!.id! }
    expect((await (await open(todo.id, seen)).rest()).map(unwrapped)).toHaveLength(1)
    expect(await (await open(todo.id, resumeAfter(frames[0]!.id!))).rest()).toEqual([])
    // An id that is none of the task's is refused whoever asks.
    expect((await open(todo.id, { 'Last-Event-ID': '999' })).body.error).toBeDefined()
  },
)

test('0.3 goes on after the event, as before', async () => {
  const todo = await atWork()
  const headers = { 'Last-Event-ID': '2' }
  const resumed = await rest03.stream('GET', `/v1/tasks/${todo.id}:subscribe`, { headers })
  await worker.call('todos.complete', todo.held)
  expect((await resumed.rest()).map(({ json }) => Object.keys(json)[0])).toEqual([
    'artifactUpdate',
    'statusUpdate',
  ])
})
