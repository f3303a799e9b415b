/**
 * Requests for authorization: like any question, but what answers them may be a credential.
 *
 * Field case: authorization requests.
 */
import { randomUUID } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { ADMIN_TOKEN } from '../support/app.ts'
import { type Answer, a2aClient, agentClient, rpc, textMessage } from '../support/clients/actors.ts'
import { ask, openBoard, operate, refusalOf, saying } from '../support/steps.ts'
import { ageWait, captureLog, DAY, resultOf, rowOf, startQuiet } from './support.ts'

const captured = captureLog('debug')
const app = await startQuiet({ log: captured.log })

const desk = async (policy?: Record<string, unknown>) => {
  const name = `q-${randomUUID().slice(0, 8)}`
  const { client, agent } = await app.queue(name, policy)
  return {
    name,
    a2a: a2aClient(app.url, name, client.token),
    worker: agentClient(app.url, agent.token),
  }
}

const secretText = (): string => `hunter2-${randomUUID()}`

const challenged = async (more: Record<string, unknown> = {}, policy?: Record<string, unknown>) => {
  const here = await desk(policy)
  await here.a2a.submit('pay')
  const todo = await here.worker.claim()
  await ask(here.worker, todo, 'Log in, please', { state: 'auth-required', ...more })
  return { ...here, todo }
}

const everyEvent = async (): Promise<string> =>
  JSON.stringify(await app.sql('select * from events'))

const json = async (path: string): Promise<string> => {
  const response = await fetch(`${app.url}${path}`, {
    headers: { Authorization: `Bearer ${ADMIN_TOKEN}` },
  })
  return response.text()
}

const shownToOperators = async (id: string, queue: string): Promise<string> =>
  JSON.stringify([
    await operate(app, 'todos.show', { id }),
    await operate(app, 'todos.list', { queue }),
    await operate(app, 'todos.why', { id }),
    await json(`/board/todos?queue=${queue}`),
    await json('/metrics'),
  ])

describe('like any other question', () => {
  test.each([true, false])('it waits, is answered and goes on (held: %j)', async (hold) => {
    const { a2a, worker, todo } = await challenged({ hold })
    const task = await a2a.get(todo.id)
    expect(task.status).toMatchObject({
      state: 'TASK_STATE_AUTH_REQUIRED',
      message: { parts: [{ text: 'Log in, please' }] },
    })
    const answered = await a2a.submit('token', { taskId: todo.id })
    expect(answered.metadata['urn:switchboard:receipt']).toMatchObject({
      outcome: hold ? 'resumed' : 'requeued',
      answers: 3,
    })
    const holder = hold ? todo : await worker.claim()
    const { messages } = await worker.call('todos.messages', holder.held)
    expect(messages).toMatchObject([{ answers: 3, message: { parts: [{ text: 'token' }] } }])
    await worker.call('todos.complete', { ...holder.held, acknowledge: messages[0].seq })
  })

  test('a send that waits returns at the request', async () => {
    const { a2a, worker } = await desk()
    const sent = a2a.send('pay')
    await ask(worker, await worker.claim(), 'Log in', { state: 'auth-required' })
    expect((await sent).result.task.status.state).toBe('TASK_STATE_AUTH_REQUIRED')
  })

  test('it has the same deadline, and the same end below the cap and at it', async () => {
    const { worker, todo } = await challenged({}, { maxAttempts: 2 })
    await ageWait(app, DAY + 1, todo.id)
    await app.sweep.reap()
    const again = await worker.claim()
    expect(again.result.interrupt).toMatchObject({
      state: 'auth-required',
      message: saying('Log in, please'),
    })
    await ask(worker, again, 'Log in!', { state: 'auth-required' })
    await ageWait(app, DAY + 1, todo.id)
    await app.sweep.reap()
    expect((await rowOf(app, todo.id)).state).toBe('failed')
    expect(await resultOf(app, todo.id)).toMatchObject({ error: 'interrupt_expired' })
  })

  test('a heartbeat holds it, and a schema checks its answer', async () => {
    const { worker, todo } = await challenged({ schema: { type: 'object', required: ['code'] } })
    const beat = await worker.call('todos.heartbeat', { ...todo.held, holdSeconds: 60 })
    expect(beat).toMatchObject({ state: 'auth-required', heldUntil: expect.any(String) })
    const wrong = { parts: [{ data: { pin: secretText() } }] }
    const refusal = await refusalOf(operate(app, 'todos.answer', { id: todo.id, message: wrong }))
    expect(JSON.stringify(refusal)).not.toContain('hunter2')
    expect((await rowOf(app, todo.id)).state).toBe('auth-required')
  })
})

describe('what answers it', () => {
  test('is in no event, no frame of the board, no log line and nothing an operator is shown, while holder and sender read it', async () => {
    for (const hold of [true, false]) {
      const { name, a2a, worker, todo } = await challenged({ hold })
      const board = await openBoard(app, `after=0&queue=${name}`)
      const secret = secretText()
      await a2a.submit(secret, {
        taskId: todo.id,
        parts: [{ text: secret }, { data: { password: secret } }],
        metadata: { apiKey: secret },
      })
      const holder = hold ? todo : await worker.claim()
      const { messages } = await worker.call('todos.messages', holder.held)
      expect(messages[0].message.parts[0]).toEqual({ text: secret })
      if (!hold) {
        expect(holder.unread[0].message.parts[0]).toEqual({ text: secret })
        expect(JSON.stringify(holder.history)).toContain(secret)
      }
      expect(JSON.stringify((await a2a.get(todo.id)).history)).toContain(secret)

      const live = await shownToOperators(todo.id, name)
      expect(live).not.toContain('hunter2')
      expect(live).toContain('not shown')
      await worker.call('todos.complete', { ...holder.held, acknowledge: messages[0].seq })
      expect(await shownToOperators(todo.id, name)).not.toContain('hunter2')

      const frames = await board.until(({ json: { to } }: Answer) => to === 'done')
      board.close()
      expect(JSON.stringify(frames)).not.toContain('hunter2')
      expect(JSON.stringify(frames)).toContain('Log in, please')
    }
    expect(await everyEvent()).not.toContain('hunter2')
    expect(captured.text()).not.toContain('hunter2')
  })

  test('is not shown to those who only answer others’ questions, nor to operators in their own receipt', async () => {
    const { name, todo } = await challenged()
    const secret = secretText()
    const person = await app.vend(['answer'], [name])
    const { result } = await rpc(
      `${app.url}/operator`,
      'todos.answer',
      { id: todo.id, message: saying(secret) },
      { token: person.token },
    )
    expect(result.receipt).toMatchObject({ outcome: 'resumed' })
    expect(JSON.stringify(result)).not.toContain('hunter2')
    const read = await a2aClient(app.url, name, person.token).get(todo.id)
    expect(JSON.stringify(read)).not.toContain('hunter2')
    const watcher = await app.vend(['watch'], [name])
    const shown = await rpc(
      `${app.url}/operator`,
      'todos.show',
      { id: todo.id },
      { token: watcher.token },
    )
    expect(JSON.stringify(shown)).not.toContain('hunter2')
  })

  test('is not shown to agents of the queue that do not hold the todo', async () => {
    const { name, a2a, worker, todo } = await challenged()
    await a2a.submit(secretText(), { taskId: todo.id })
    const bystander = agentClient(app.url, (await app.vend(['work'], [name])).token)
    const read = async (who: typeof worker) =>
      JSON.stringify([
        await who.call('todos.get', { id: todo.id }),
        await who.call('todos.list', { queue: name }),
      ])
    expect(await read(worker)).toContain('hunter2')
    expect(await read(bystander)).not.toContain('hunter2')
  })

  test('is hidden as well when it comes after the deadline, or after somebody else has lost the todo', async () => {
    for (const hold of [true, false]) {
      const { name, a2a, worker, todo } = await challenged({ hold })
      await ageWait(app, DAY + 1, todo.id)
      await app.sweep.reap()
      const secret = secretText()
      const late = await a2a.submit(secret, { taskId: todo.id })
      expect(late.metadata['urn:switchboard:receipt']).toMatchObject({ outcome: 'inbox' })
      expect(await shownToOperators(todo.id, name)).not.toContain('hunter2')
      const next = await worker.claim()
      expect(next.unread[0].message.parts).toEqual([{ text: secret }])
      expect(JSON.stringify((await a2a.get(todo.id)).history)).toContain(secret)
    }
    expect(await everyEvent()).not.toContain('hunter2')
    expect(captured.text()).not.toContain('hunter2')
  })

  test('is not repeated by a refusal', async () => {
    const { a2a, todo } = await challenged({}, { maxAttempts: 1 })
    await ageWait(app, DAY + 1, todo.id)
    await app.sweep.reap()
    const { error } = await a2a.call('SendMessage', {
      message: textMessage(secretText(), { taskId: todo.id }),
    })
    expect(error.code).toBe(-32004)
    expect(JSON.stringify(error)).not.toContain('hunter2')
    expect(captured.text()).not.toContain('hunter2')
  })

  test('hides nothing else: an answer to a later plain question is shown', async () => {
    const { a2a, worker, todo } = await challenged()
    await a2a.submit(secretText(), { taskId: todo.id })
    const { messages } = await worker.call('todos.messages', todo.held)
    await worker.call('todos.acknowledge', { ...todo.held, through: messages[0].seq })
    await a2a.submit('by the way', { taskId: todo.id })
    await ask(worker, todo, 'Which colour?')
    await a2a.submit('green', { taskId: todo.id })
    const { history } = await operate(app, 'todos.show', { id: todo.id })
    expect(history.map(({ parts }: Answer) => parts[0].text)).toEqual([
      'pay',
      'Log in, please',
      expect.stringContaining('not shown'),
      'by the way',
      'Which colour?',
      'green',
    ])
  })
})
