// A feed that resumes is exact (docs/board-feed.md).
// Field case: streams across nodes.
import { expect, test } from 'vitest'
import { type Answer, a2aClient, agentClient, type Frame, openStream } from '../support/actors.ts'
import { ADMIN_TOKEN, startApp, startNode } from '../support/app.ts'
import { ask, lapseLease, openBoard, saying } from '../support/steps.ts'

const app = await startApp({ pollMs: 60_000 })
const desk = await app.queue('desk', { contexts: 'parallel' })
const shop = await app.queue('shop', { contexts: 'parallel' })

const plain = ({ id, event, json }: Frame) => ({ id, event, json })

/** Some of everything that can happen, to one todo after another, on two queues and two nodes. */
const makeNoise = async (urls: readonly string[], rounds: number) => {
  const lines = [
    ['desk', desk],
    ['shop', shop],
  ] as const
  await Promise.all(
    lines.map(async ([queue, { client, agent }]) => {
      for (let round = 0; round < rounds; round += 1) {
        const a2a = a2aClient(urls[round % urls.length]!, queue, client.token)
        const worker = agentClient(urls[(round + 1) % urls.length]!, agent.token)
        await a2a.submit('x')
        const todo = await worker.claim()
        const turns: (() => Promise<unknown>)[] = [
          () => worker.call('todos.complete', todo.held),
          () => a2a.call('CancelTask', { id: todo.id }),
          () => worker.call('todos.reject', { ...todo.held, message: saying('no') }),
          async () => {
            await ask(worker, todo, 'which?')
            await a2a.submit('this', { taskId: todo.id })
            await a2a.call('CancelTask', { id: todo.id })
          },
          async () => {
            await worker.call('todos.release', todo.held)
            const again = await worker.claim()
            await worker.call('todos.fail', {
              ...again.held,
              error: { code: 'boom', message: 'x' },
              retryable: false,
            })
          },
          async () => {
            await lapseLease(app, todo.id)
            const again = await worker.claim()
            await worker.call('todos.complete', again.held)
          },
        ]
        await turns[round % turns.length]!()
      }
    }),
  )
}

test('a board that breaks off again and again, on this node, another and a restarted one, has seen everything once and in order', async () => {
  const other = await startNode(app.databaseUrl, { pollMs: 60_000 })
  let third = await startNode(app.databaseUrl, { pollMs: 60_000 })
  const nodes = [app.url, other.url]
  const noise = makeNoise(nodes, 18)
  const seen: Frame[] = []
  let after = '0'
  let done = false
  const restarting = noise.then(() => {
    done = true
  })
  for (let part = 0; ; part += 1) {
    const url = [app.url, other.url, third.url][part % 3]!
    const board = await openStream(`${url}/board/events`, {
      token: ADMIN_TOKEN,
      headers: { 'Last-Event-ID': after },
    })
    // The feed is placed moments after the commits: the end is known from the database.
    const [{ last }] = (await app.sql<{ last: string | null }>(
      `select max(position + (ready is not null)::int) filter (where position is not null)
        as last from events
       where verb in ('send', 'claim', 'interrupt', 'resume', 'answer', 'complete', 'fail',
         'release', 'reject', 'cancel', 'reapLease') and position is not null`,
    )) as [{ last: string | null }]
    const [{ unplaced }] = (await app.sql<{ unplaced: number }>(
      'select count(*)::int as unplaced from events where position is null',
    )) as [{ unplaced: number }]
    if (done && unplaced === 0 && Number(after) >= Number(last)) {
      board.close()
      break
    }
    for (let i = 0; i <= (part * 7) % 13 && Number(after) < Number(last); i += 1) {
      const frame = (await board.next())!
      seen.push(frame)
      after = frame.id!
    }
    board.close()
    if (part % 9 === 8) {
      await third.stop()
      third = await startNode(app.databaseUrl, { pollMs: 60_000 })
    }
  }
  await restarting
  const whole = await openBoard(app, 'after=0')
  const all = await whole.until(({ id }) => id === after)
  whole.close()
  expect(seen.map(plain)).toEqual(all.map(plain))

  const ids = all.map(({ id }) => Number(id))
  expect(ids).toEqual(ids.toSorted((a, b) => a - b))
  expect(new Set(ids).size).toBe(ids.length)
  const seqs = new Map<string, number>()
  for (const { event, json } of all) {
    if (event !== 'transition') continue
    expect(json.seq).toBeGreaterThan(seqs.get(json.id) ?? 0)
    seqs.set(json.id, json.seq)
  }
  expect(seqs.size).toBe(36)
  await other.stop()
  await third.stop()
})

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
