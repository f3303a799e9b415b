// A feed that resumes is exact (docs/board-feed.md).
// Field case: streams across nodes.
import { expect, test } from 'vitest'
import { ADMIN_TOKEN, startApp, startNode } from '../support/app.ts'
import { type Answer, a2aClient, agentClient, openStream } from '../support/clients/actors.ts'
import { ask, openBoard } from '../support/steps.ts'
import { until } from '../support/until.ts'

const app = await startApp({ pollMs: 60_000 })
const desk = await app.queue('desk', { contexts: 'parallel' })
const shop = await app.queue('shop', { contexts: 'parallel' })

test('each transition says from and to, and each ready why, and neither holds what was said', async () => {
  const board = await openBoard(app, 'queue=desk')
  const a2a = a2aClient(app.url, 'desk', desk.client.token)
  const worker = agentClient(app.url, desk.agent.token)
  const { id } = await a2a.submit('secret words', { parts: [{ data: { secret: 1 } }] })
  const todo = await worker.claim()
  await worker.call('todos.complete', {
    ...todo.held,
    artifacts: [{ artifactId: 'a', parts: [{ text: 'artifact content' }] }],
  })
  const frames = await board.until(({ json }) => json.id === id && json.to === 'done')
  board.close()
  const mine = frames.filter(({ json }) => json.id === id)
  expect(mine.map(({ event, json }) => [event, json.from ?? json.reason ?? null, json.to])).toEqual(
    [
      ['transition', null, 'pending'],
      ['ready', 'created', undefined],
      ['transition', 'pending', 'claimed'],
      ['transition', 'claimed', 'done'],
    ],
  )
  for (const { json } of mine) {
    expect(json.queue).toBe('desk')
    expect(json.at).toMatch(/Z$/)
    expect(JSON.stringify(json)).not.toMatch(/artifact content|"secret"/)
  }
})

test('a board shows the queues one may watch and asked for, and no other', async () => {
  const watcher = await app.vend(['watch'], ['shop'])
  const queuesIn = async (query: string, token: string, until: string) => {
    const board = await openBoard(app, query, token)
    const frames = await board.until(({ json }) => json.id === until)
    board.close()
    return [...new Set(frames.map(({ json }) => json.queue))].sort()
  }
  const last = await a2aClient(app.url, 'shop', shop.client.token).submit('x')
  expect(await queuesIn('after=0', watcher.token, last.id)).toEqual(['shop'])
  expect(await queuesIn('after=0&queue=shop', watcher.token, last.id)).toEqual(['shop'])
  expect(await queuesIn('after=0&queue=shop,desk', watcher.token, last.id)).toEqual(['shop'])
  expect(await queuesIn('after=0', ADMIN_TOKEN, last.id)).toEqual(['desk', 'shop'])
  expect(await queuesIn('after=0&queue=shop', ADMIN_TOKEN, last.id)).toEqual(['shop'])
  expect((await openBoard(app, 'queue=desk', watcher.token)).status).toBe(403)
  await a2aClient(app.url, 'shop', shop.client.token).call('CancelTask', { id: last.id })
})

test('a cursor older than what is kept is told of the gap, and of where the feed goes on', async () => {
  const a2a = a2aClient(app.url, 'shop', shop.client.token)
  for (let n = 0; n < 20; n += 1) await a2a.call('CancelTask', { id: (await a2a.submit('x')).id })
  await until(
    async () => (await app.sql('select from events where position is null')).length === 0,
    { what: 'all have their places' },
  )
  const [{ cut }] = (await app.sql<{ cut: string }>(
    'select position as cut from events where position is not null order by position offset 20 limit 1',
  )) as [{ cut: string }]
  await app.sql('delete from events where position < $1', [cut])
  const board = await openBoard(app, 'after=2')
  const first = (await board.next())!
  expect(first).toMatchObject({ event: 'gap', json: { oldest: Number(cut) } })
  const next = (await board.next())!
  expect(next.json.position).toBeGreaterThanOrEqual(Number(cut))
  board.close()
})

test('an agent that comes back with its last id is told of what happened to its todos meanwhile, once', async () => {
  const a2a = a2aClient(app.url, 'desk', desk.client.token)
  const worker = agentClient(app.url, desk.agent.token)
  const signals = (headers = {}) =>
    openStream(`${app.url}/agent/events?queues=desk`, { token: desk.agent.token, headers })
  const live = await signals()
  const one = await a2a.submit('one')
  const todo = await worker.claim()
  const ready = (await live.next())!
  expect([ready.event, ready.json]).toEqual([
    'ready',
    { id: one.id, queue: 'desk', reason: 'created' },
  ])
  live.close()
  await a2a.submit('more', { taskId: todo.id })
  await ask(worker, todo, 'which?')
  await a2a.submit('this', { taskId: todo.id })
  await a2a.call('CancelTask', { id: todo.id })
  const other = await startNode(app.databaseUrl)
  const resumed = await openStream(`${other.url}/agent/events?queues=desk`, {
    token: desk.agent.token,
    headers: { 'Last-Event-ID': ready.id! },
  })
  const frames = await resumed.until(({ event }) => event === 'canceled')
  expect(frames.map(({ event, json }: Answer) => [event, json.id])).toEqual([
    ['message', todo.id],
    ['answered', todo.id],
    ['canceled', todo.id],
  ])
  resumed.close()
  await other.stop()
})

test('how long a holder has been silent is told by the transition that began it and by the list of the board, also after progress', async () => {
  const board = await openBoard(app, 'queue=desk')
  const a2a = a2aClient(app.url, 'desk', desk.client.token)
  const worker = agentClient(app.url, desk.agent.token)
  const { id } = await a2a.submit('slow')
  const todo = await worker.claim()
  const listed = async () => {
    const response = await fetch(`${app.url}/board/todos?queue=desk`, {
      headers: { Authorization: `Bearer ${ADMIN_TOKEN}` },
    })
    const { lanes } = (await response.json()) as Answer
    return lanes.held.todos.find((card: Answer) => card.id === id)
  }
  const [claimed] = (await board.until(({ json }) => json.verb === 'claim')).slice(-1)
  expect(claimed!.json.progressAt).toEqual(expect.any(String))
  expect((await listed()).progressAt).toBe(claimed!.json.progressAt)

  await app.sql(`update todos set progress_at = now() - interval '31 seconds' where id = $1`, [id])
  const silent = Date.now() - Date.parse((await listed()).progressAt)
  expect(silent).toBeGreaterThan(30_000)
  const { progressAt } = await worker.call('todos.progress', todo.held)
  expect((await listed()).progressAt).toBe(progressAt)
  await worker.call('todos.complete', todo.held)

  // Progress itself is no transition.
  const rest = await board.until(({ json }) => json.to === 'done')
  board.close()
  expect(rest.map(({ json }) => json.verb)).toEqual(['complete'])
  expect(rest[0]!.json.progressAt).toBeNull()
})
