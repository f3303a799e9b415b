/**
 * Enums as integers, in every place that reads the JSON of the proto.
 * Field cases: enums as numbers.
 */
import { expect, test } from 'vitest'
import { startApp } from '../../support/app.ts'
import { type Answer, a2aClient, agentClient, rpc } from '../../support/clients/actors.ts'
import { restClient } from '../../support/clients/rest.ts'
import { ask, operate, saying } from '../../support/steps.ts'

const app = await startApp({ pollMs: 60_000 })
const { client } = await app.queue('desk', { contexts: 'parallel' })
const v1 = a2aClient(app.url, 'desk', client.token)
const rest = restClient(app.url, 'desk', client.token)
const rest03 = restClient(app.url, 'desk', client.token, null)

const USER = 1
const AGENT = 2
const STATES = {
  SUBMITTED: 1,
  WORKING: 2,
  COMPLETED: 3,
  FAILED: 4,
  CANCELED: 5,
  INPUT_REQUIRED: 6,
  REJECTED: 7,
  AUTH_REQUIRED: 8,
}

let made = 0
const saidBy = (role: unknown, more: object = {}) => {
  made += 1
  return { messageId: `m-${made}`, role, parts: [{ text: 'x' }], ...more }
}
const atOnce = { returnImmediately: true }

/** A send over each binding that reads the JSON of the proto: the answer's task, or its error. */
const sends: Record<string, (role: unknown) => Promise<Answer>> = {
  '1.0 over JSON-RPC': async (role) => {
    const params = { message: saidBy(role), configuration: atOnce }
    const { result, error } = await v1.call('SendMessage', params)
    return result?.task ?? error
  },
  '1.0 over HTTP+JSON': async (role) => {
    const body = { message: saidBy(role), configuration: atOnce }
    const { body: answer } = await rest.call('POST', '/message:send', { body })
    return answer.task ?? answer.error
  },
  '0.3 over HTTP+JSON': async (role) => {
    const { parts: content, ...message } = saidBy(role)
    const body = { message: { ...message, content }, configuration: { blocking: false } }
    const { body: answer } = await rest03.call('POST', '/v1/message:send', { body })
    return answer.task ?? answer
  },
}

test.each(Object.entries(sends))('a role is read by its number: %s', async (_binding, send) => {
  const { id } = await send(USER)
  const { result } = await v1.call('GetTask', { id })
  expect(result.history[0].role).toBe('ROLE_USER')
  for (const role of [0, AGENT, 3, 99, -1, 1.5, '77']) {
    expect(JSON.stringify(await send(role))).toContain('message.role')
  }
})

test('the agent and the operator may number the role as well', async () => {
  const { agent, client } = await app.queue('talk')
  const there = a2aClient(app.url, 'talk', client.token)
  const worker = agentClient(app.url, agent.token)
  const { id } = await there.submit('ask me')
  const claimed = await worker.claim()
  await worker.call('todos.say', {
    ...claimed.held,
    message: { ...saying('at work'), role: AGENT },
  })
  await ask(worker, claimed, 'which?')
  await operate(app, 'todos.answer', { id, message: { ...saying('that one'), role: USER } })
  const { result } = await there.call('GetTask', { id })
  expect(result.history.map(({ role }: Answer) => role)).toEqual(
    expect.arrayContaining(['ROLE_USER', 'ROLE_AGENT']),
  )
  const wrong = worker.call('todos.say', { ...claimed.held, message: { ...saying('x'), role: 1 } })
  await expect(wrong).rejects.toThrow()
})

test('a list is filtered by the number of a state as by its name', async () => {
  const { agent, client } = await app.queue('states', { contexts: 'parallel' })
  const there = a2aClient(app.url, 'states', client.token)
  const thereRest = restClient(app.url, 'states', client.token)
  const thereRest03 = restClient(app.url, 'states', client.token, null)
  const worker = agentClient(app.url, agent.token)
  const ends: Record<string, (id: string) => Promise<unknown>> = {
    SUBMITTED: async () => undefined,
    CANCELED: async (id) => there.call('CancelTask', { id }),
    WORKING: async () => worker.claim(),
    COMPLETED: async () => worker.call('todos.complete', (await worker.claim()).held),
    REJECTED: async () => worker.call('todos.reject', (await worker.claim()).held),
    FAILED: async () => {
      const error = { code: 'broken', message: 'it broke' }
      await worker.call('todos.fail', { ...(await worker.claim()).held, error, retryable: false })
    },
    INPUT_REQUIRED: async () => ask(worker, await worker.claim(), 'which?'),
    AUTH_REQUIRED: async () =>
      ask(worker, await worker.claim(), 'who?', { state: 'auth-required' }),
  }
  const ids: Record<string, string> = {}
  for (const name of [...Object.keys(ends).slice(1), 'SUBMITTED']) {
    ids[name] = (await there.submit(name)).id
    await ends[name]!(ids[name]!)
  }
  for (const [name, number] of Object.entries(STATES)) {
    const byNumber = (await there.call('ListTasks', { status: number })).result
    expect(byNumber.tasks.map(({ id }: Answer) => id)).toEqual([ids[name]])
    expect(byNumber.tasks[0].status.state).toBe(`TASK_STATE_${name}`)
    const status = String(number)
    expect((await thereRest.get('/tasks', { status })).body.tasks[0].id).toBe(ids[name])
    expect((await thereRest03.get('/v1/tasks', { status })).body[0].id).toBe(ids[name])
  }
  expect((await there.call('ListTasks', { status: 0 })).result.totalSize).toBe(8)
  expect((await thereRest.get('/tasks', { status: '0' })).body.totalSize).toBe(8)
  for (const unknown of [9, -1, 2.5, 1e300]) {
    const { error } = await there.call('ListTasks', { status: unknown })
    expect([error.code, error.data[1].fieldViolations[0].field]).toEqual([-32602, 'status'])
  }
  expect((await thereRest.get('/tasks', { status: '9' })).status).toBe(400)
  expect((await thereRest03.get('/v1/tasks', { status: '9' })).status).toBe(400)
})

test('the objects of the JSON Schema of 0.3 have no numbers: they are not the JSON of a proto', async () => {
  const message = { ...saidBy(USER), parts: [{ kind: 'text', text: 'x' }] }
  const { error } = await rpc(`${app.url}/a2a/desk`, 'message/send', { message }, client)
  expect(error.code).toBe(-32602)
})
