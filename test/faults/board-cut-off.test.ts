// A feed that resumes is exact, however often it is cut off.
import { expect, test } from 'vitest'
import { ADMIN_TOKEN, startApp, startNode } from '../support/app.ts'
import { a2aClient, agentClient, type Frame, openStream } from '../support/clients/actors.ts'
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
