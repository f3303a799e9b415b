// Field cases: half an artifact of an attempt that ended.
import { afterAll, expect, test } from 'vitest'
import { type Agent, createAgent } from '../../src/agent-kit/agent.ts'
import { startApp } from '../support/app.ts'
import { type Answer, a2aClient, agentClient } from '../support/clients/actors.ts'
import { type Claimed, refusalOf, resultsOf, saying } from '../support/steps.ts'
import { until } from '../support/until.ts'

const app = await startApp()
const { client, agent } = await app.queue('desk', { contexts: 'parallel' })
const a2a = a2aClient(app.url, 'desk', client.token)
const worker = agentClient(app.url, agent.token)

const quiet = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }
const agents: Agent[] = []
afterAll(() => Promise.all(agents.map((each) => each.stop({ graceMs: 0 }))))

const chunk = (todo: Claimed, artifactId: string, text: string, more = {}) => {
  const artifact = { artifactId, ...saying(text) }
  return worker.call('todos.artifact', { ...todo.held, artifact, ...more })
}
const artifactsOf = async (id: string): Promise<string[]> =>
  ((await a2a.get(id)).artifacts ?? []).map(({ artifactId }: Answer) => artifactId)

/** A first attempt has left one artifact whole and two halves; the second has begun one. */
const second = async () => {
  await a2a.submit('x')
  const first = await worker.claim()
  await chunk(first, 'whole', 'A', { lastChunk: true })
  await chunk(first, 'half', 'A')
  await chunk(first, 'half', 'B', { append: true })
  await chunk(first, 'other half', 'A')
  await worker.call('todos.release', first.held)
  const todo = await worker.claim()
  expect(todo.id).toBe(first.id)
  await chunk(todo, 'own', 'A')
  return { first, todo }
}

test('the next attempt drops what was left unfinished; streams are told that it was replaced', async () => {
  const { todo } = await second()
  const streams = await Promise.all([
    a2a.stream('SubscribeToTask', { id: todo.id }),
    a2aClient(app.url, 'desk', client.token).stream('SubscribeToTask', { id: todo.id }),
  ])
  const discard = () => worker.call('todos.discardArtifacts', todo.held)
  expect(await discard()).toEqual({ discarded: ['half', 'other half'] })
  expect(await artifactsOf(todo.id)).toEqual(['whole', 'own'])
  const { events } = (await app.sql('select count(*)::int as events from events'))[0]!
  // Made again it does nothing, and is answered as the first time.
  expect(await discard()).toEqual({ discarded: ['half', 'other half'] })
  expect(await app.sql('select count(*)::int as events from events')).toEqual([{ events }])

  await chunk(todo, 'half', 'anew')
  await worker.call('todos.complete', todo.held)
  const task = await a2a.get(todo.id)
  expect(task.artifacts).toMatchObject([
    { artifactId: 'whole', ...saying('A') },
    { artifactId: 'half', ...saying('anew') },
    { artifactId: 'own', ...saying('A') },
  ])
  expect(JSON.stringify(task)).not.toContain('discarded')
  for (const stream of streams) {
    const updates = resultsOf(await stream.rest()).flatMap(
      ({ artifactUpdate }) => artifactUpdate ?? [],
    )
    const gone = (artifactId: string) => ({
      artifact: {
        artifactId,
        ...saying(''),
        metadata: { 'urn:switchboard:discarded': true },
      },
      lastChunk: true,
    })
    // Each replaces what was there.
    expect(updates.filter(({ append }) => append)).toEqual([])
    expect(updates).toMatchObject([
      gone('half'),
      gone('other half'),
      { artifact: { artifactId: 'half', ...saying('anew') } },
    ])
  }
})

test('one may be named; what is whole, own or unknown stays; the next claim does not see what is gone', async () => {
  const { todo } = await second()
  const artifactIds = ['half', 'whole', 'own', 'unknown']
  expect(await worker.call('todos.discardArtifacts', { ...todo.held, artifactIds })).toEqual({
    discarded: ['half'],
  })
  const refused = await refusalOf(chunk(todo, 'half', 'B', { append: true }))
  expect(refused.data.violations[0].description).toContain('had its last chunk')
  await worker.call('todos.release', todo.held)
  const third = await worker.claim()
  const seen = third.artifacts.map(({ artifactId }: Answer) => artifactId)
  expect(seen).toEqual(['whole', 'other half', 'own'])
  // Its fence is another: what the second attempt dropped is no affair of it.
  expect(await worker.call('todos.discardArtifacts', third.held)).toEqual({
    discarded: ['other half', 'own'],
  })
  await worker.call('todos.complete', third.held)
})

test('only the holder drops anything', async () => {
  const { first, todo } = await second()
  const other = agentClient(app.url, (await app.vend(['work'], ['desk'])).token)
  const refused = async (by: typeof worker, held: object) =>
    (await refusalOf(by.call('todos.discardArtifacts', held))).data.reason
  expect(await refused(worker, first.held)).toBe('stale_fence')
  expect(await refused(other, todo.held)).toBe('stale_fence')
  expect(await artifactsOf(todo.id)).toEqual(['whole', 'half', 'other half', 'own'])
  await worker.call('todos.complete', todo.held)
  expect(await refused(worker, todo.held)).toBe('stale_fence')
})

test('with the kit a handler that was interrupted begins anew', async () => {
  const line = await app.queue('kit', { backoff: { initialSeconds: 1, maxSeconds: 1, jitter: 0 } })
  const started = createAgent(
    { url: app.url, token: line.agent.token, queues: ['kit'], log: quiet },
    async (ctx) => {
      const gone = await ctx.discardArtifacts()
      await ctx.artifact({ parts: [{ text: `attempt ${ctx.todo.attempt}` }] })
      if (ctx.todo.attempt === 1) throw new Error('in the middle')
      return `dropped ${gone.length}`
    },
  )
  agents.push(started)
  started.start()
  const kit = a2aClient(app.url, 'kit', line.client.token)
  const { id } = await kit.submit('x')
  const task = await until(async () => {
    const read = await kit.get(id)
    return read.status.state === 'TASK_STATE_COMPLETED' && read
  })
  expect(task.status.message).toMatchObject(saying('dropped 1'))
  expect(task.artifacts).toMatchObject([saying('attempt 2')])
})
