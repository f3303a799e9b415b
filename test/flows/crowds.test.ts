// Sends that arrive together share statements: each is as whole as one that came alone.
import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { startApp } from '../support/app.ts'
import { type Answer, a2aClient, agentClient, textMessage } from '../support/clients/actors.ts'
import { operate, saying } from '../support/steps.ts'

const app = await startApp()

/** A todo's rows but for what differs from one to the next. */
const rowsOf = async (id: string) => {
  const [todo] = await app.sql<Record<string, unknown>>(`select * from todos where id = $1`, [id])
  const { todo_id: _t, ...event } = (
    await app.sql<Record<string, unknown>>(`select * from events where todo_id = $1 and seq = 1`, [
      id,
    ])
  )[0]!
  const { todo_id: _m, ...message } = (
    await app.sql<Record<string, unknown>>(`select * from messages where todo_id = $1`, [id])
  )[0]!
  const kept = await app.sql(`select metadata, result, direct from details where todo_id = $1`, [
    id,
  ])
  const plain = (row: Record<string, unknown>): Record<string, unknown> =>
    Object.fromEntries(
      Object.entries(row).map(([name, value]) => {
        if (value instanceof Date) return [name, 'a moment']
        return [
          name,
          ['id', 'context_id', 'line', 'position'].includes(name) ? typeof value : value,
        ]
      }),
    )
  return {
    todo: plain(todo!),
    event: plain(event),
    message: { ...plain(message), message: 'as below' },
    kept,
    text: (message.message as Answer).parts[0].text,
  }
}

test('a task of a crowd is the task it would have been alone', async () => {
  for (const contexts of ['serial', 'parallel']) {
    const queue = `q-${contexts}`
    const { client } = await app.queue(queue, {
      contexts,
      timeouts: { scheduleToClose: 3600, heartbeat: 60 },
    })
    const a2a = a2aClient(app.url, queue, client.token)
    const send = async (text: string) => {
      const answer = await a2a.call('SendMessage', {
        message: { ...textMessage(text), messageId: 'm' },
        metadata: { why: 'x', 'urn:switchboard:timeouts': { startToClose: 30 } },
        configuration: { returnImmediately: true },
      })
      return answer.result.task
    }
    const alone = await rowsOf((await send('text')).id)
    const crowd = await Promise.all(Array.from({ length: 24 }, () => send('text')))
    expect(new Set(crowd.map(({ id }) => id)).size).toBe(24)
    for (const { id } of crowd) expect(await rowsOf(id)).toEqual(alone)
  }
})

test('a crowd is served to the last one, and each waiter gets its own answer', async () => {
  const { client, agent } = await app.queue('busy')
  const a2a = a2aClient(app.url, 'busy', client.token)
  const worker = agentClient(app.url, agent.token)
  const sent = Array.from({ length: 80 }, async (_, n) => {
    const { task } = (await a2a.send(`text ${n}`)).result
    return task.status.message.parts[0].text === `re: text ${n}`
  })
  let done = 0
  while (done < sent.length) {
    const { todos } = await worker.call('todos.claim', { limit: 20, waitMs: 25_000 })
    await Promise.all(
      todos.map(({ id, fence, message }: Answer) =>
        worker.call('todos.complete', {
          id,
          fence,
          message: saying(`re: ${message.parts[0].text}`),
        }),
      ),
    )
    done += todos.length
  }
  expect(await Promise.all(sent)).toEqual(sent.map(() => true))
})

test('messages of one new conversation stand in line, however close together they come', async () => {
  const { client } = await app.queue('lined')
  const a2a = a2aClient(app.url, 'lined', client.token)
  const contextId = randomUUID()
  await Promise.all(Array.from({ length: 20 }, () => a2a.submit('x', { contextId })))
  const { todos } = await operate(app, 'todos.list', { queue: 'lined' })
  const fronts = await app.sql(`select id from todos where queue = 'lined' and front`)
  expect(todos).toHaveLength(20)
  expect(fronts).toHaveLength(1)
})
