/**
 * A holder takes its question back, or ends its todo as canceled.
 *
 * Field cases: a credential that came by another way; an agent whose work was canceled elsewhere.
 */
import { randomUUID } from 'node:crypto'
import { afterAll, describe, expect, test } from 'vitest'
import { type Agent, createAgent } from '../../src/agent-kit/agent.ts'
import type { Handler } from '../../src/agent-kit/attempt.ts'
import { AnswerTimeout, QuestionWithdrawn } from '../../src/agent-kit/errors.ts'
import { textOf } from '../../src/agent-kit/wire.ts'
import { startApp } from '../support/app.ts'
import { type Answer, a2aClient, agentClient } from '../support/clients/actors.ts'
import { ask, attemptsOf, lapseLease, refusalOf, saying, statesOf } from '../support/steps.ts'
import { until } from '../support/until.ts'

const app = await startApp()
const quiet = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }
const agents: Agent[] = []
afterAll(() => Promise.all(agents.map((agent) => agent.stop({ graceMs: 0 }))))

const desk = async (policy?: Record<string, unknown>) => {
  const name = `q-${randomUUID().slice(0, 8)}`
  const { client } = await app.queue(name, policy)
  const { token } = await app.vend(['work', 'send'], [name])
  const a2a = a2aClient(app.url, name, client.token)
  const contextId = randomUUID()
  return {
    name,
    a2a,
    worker: agentClient(app.url, token),
    say: (text: string) => a2a.submit(text, { contextId }),
    work: (handler: Handler): void => {
      const options = { url: app.url, token, queues: [name], leaseSeconds: 60, log: quiet }
      const agent = createAgent(options, handler)
      agents.push(agent)
      agent.start()
    },
  }
}
type Desk = Awaited<ReturnType<typeof desk>>

const verbsOf = async (id: string): Promise<string[]> =>
  (
    await app.sql<{ verb: string }>('select verb from events where todo_id = $1 order by seq', [id])
  ).map(({ verb }) => verb)
const ended = (here: Desk, id: string, state = 'TASK_STATE_COMPLETED') =>
  until(
    async () => {
      const task = await here.a2a.get(id)
      return task.status.state === state && task
    },
    { what: `the task is ${state}` },
  )
const finish = (here: Desk, { held }: Answer) =>
  here.worker.call('todos.complete', { ...held, acknowledge: 1_000_000 })

describe.each(['input-required', 'auth-required'])('a question in %s', (state) => {
  test('is taken back by its holder, who works on with a fresh lease; streams are told', async () => {
    const here = await desk()
    const { id } = await here.say('pay')
    const todo = await here.worker.claim()
    await ask(here.worker, todo, 'Log in', { state })
    await lapseLease(app, id)
    const stream = await here.a2a.stream('SubscribeToTask', { id })
    const message = saying('It came by mail')
    const withdrawn = await here.worker.call('todos.withdraw', { ...todo.held, message })
    expect(withdrawn).toMatchObject({ state: 'claimed', unread: 0 })
    expect(Date.parse(withdrawn.leaseExpiresAt)).toBeGreaterThan(Date.now())
    await here.worker.call('todos.progress', { ...todo.held, note: 'on it' })
    await finish(here, todo)
    expect(statesOf(await stream.rest())).toEqual([
      `TASK_STATE_${state.replace('-', '_').toUpperCase()}`,
      'TASK_STATE_WORKING',
      'TASK_STATE_COMPLETED',
    ])
    expect(await verbsOf(id)).toEqual([
      'send',
      'claim',
      'interrupt',
      'withdraw',
      'progress',
      'complete',
    ])
    expect((await here.a2a.get(id)).history).toMatchObject([
      saying('pay'),
      saying('Log in'),
      saying('It came by mail'),
    ])
    expect(await attemptsOf(app, id)).toMatchObject([{ outcome: 'completed' }])
  })

  test('is answered late, after it was taken back: that is a message, which is owed', async () => {
    const here = await desk()
    const { id } = await here.say('pay')
    const todo = await here.worker.claim()
    await ask(here.worker, todo, 'Log in', { state })
    await here.worker.call('todos.withdraw', todo.held)
    const late = await here.a2a.submit('here it is', { taskId: id })
    expect(late.metadata['urn:switchboard:receipt']).toMatchObject({ outcome: 'inbox' })
    const { messages } = await here.worker.call('todos.messages', todo.held)
    expect(messages).toMatchObject([{ message: saying('here it is') }])
    expect(messages[0]).not.toHaveProperty('answers')
    const refused = await refusalOf(here.worker.call('todos.complete', todo.held))
    expect(refused.data.reason).toBe('unread_messages')
    await finish(here, todo)
  })
})

test('taking back twice is taking back once, and after an answer it is going on', async () => {
  const here = await desk({ contexts: 'parallel' })
  const { id } = await here.say('pay')
  const todo = await here.worker.claim()
  await ask(here.worker, todo, 'Log in')
  const message = saying('never mind')
  for (let times = 0; times < 3; times++) {
    const { state } = await here.worker.call('todos.withdraw', { ...todo.held, message })
    expect(state).toBe('claimed')
  }
  await ask(here.worker, todo, 'And now?')
  await here.a2a.submit('yes', { taskId: id })
  expect(await here.worker.call('todos.withdraw', todo.held)).toMatchObject({
    state: 'claimed',
    unread: 1,
  })
  expect(await verbsOf(id)).toEqual([
    'send',
    'claim',
    'interrupt',
    'withdraw',
    'interrupt',
    'resume',
  ])
  await finish(here, todo)
})

test('only its holder takes a question back: not another, not after the claim is lost, not a parked one', async () => {
  const here = await desk({ contexts: 'parallel' })
  const other = agentClient(app.url, (await app.vend(['work'], [here.name])).token)
  await here.say('pay')
  const todo = await here.worker.claim()
  await ask(here.worker, todo, 'Log in')
  const refused = async (call: Promise<unknown>) => (await refusalOf(call)).data.reason
  expect(await refused(other.call('todos.withdraw', todo.held))).toBe('stale_fence')
  const old = { ...todo.held, fence: '0' }
  expect(await refused(here.worker.call('todos.withdraw', old))).toBe('stale_fence')
  const unknown = { ...todo.held, id: randomUUID() }
  expect(await refused(here.worker.call('todos.withdraw', unknown))).toBe('not_found')
  await here.worker.call('todos.withdraw', todo.held)
  await ask(here.worker, todo, 'Log in', { hold: false })
  expect(await refused(here.worker.call('todos.withdraw', todo.held))).toBe('stale_fence')
})

describe('in a conversation that is busy with another todo', () => {
  test('it waits for its turn, late answers are messages, and it goes on before newcomers', async () => {
    const here = await desk()
    const asking = await here.say('one').then(() => here.worker.claim())
    await ask(here.worker, asking, 'May I?')
    await here.say('two')
    const working = await here.worker.claim()
    await here.say('three')
    expect((await here.worker.call('todos.withdraw', asking.held)).state).toBe('input-required')
    expect((await here.worker.call('todos.withdraw', asking.held)).state).toBe('input-required')
    const late = await here.a2a.submit('yes', { taskId: asking.id })
    expect(late.metadata['urn:switchboard:receipt']).toMatchObject({ outcome: 'inbox' })
    await finish(here, working)
    await until(
      async () => (await here.worker.call('todos.withdraw', asking.held)).state === 'claimed',
      { what: 'its turn has come' },
    )
    expect(await verbsOf(asking.id)).toEqual([
      'send',
      'claim',
      'interrupt',
      'withdrawLater',
      'message',
      'resumeLater',
    ])
    await finish(here, asking)
  })

  test('it goes before a newcomer that nobody has claimed', async () => {
    const here = await desk()
    const asking = await here.say('one').then(() => here.worker.claim())
    await ask(here.worker, asking, 'May I?')
    await here.say('two')
    expect((await here.worker.call('todos.withdraw', asking.held)).state).toBe('claimed')
    expect((await here.worker.call('todos.claim', {})).todos).toEqual([])
    await finish(here, asking)
    expect(await here.worker.claim()).toMatchObject({ message: saying('two') })
  })
})

describe('with the kit', () => {
  test('a wait for a credential is ended by the credential that came by another way', async () => {
    const here = await desk()
    let arrived = (): void => {}
    const credential = new Promise<void>((resolve) => {
      arrived = resolve
    })
    here.work(async (ctx) => {
      const waiting = ctx.requireAuth('Log in').catch((error: unknown) => error)
      await credential
      await ctx.resume('It came by mail')
      await ctx.progress('logged in')
      return `${(await waiting) instanceof QuestionWithdrawn}`
    })
    const { id } = await here.say('pay')
    await ended(here, id, 'TASK_STATE_AUTH_REQUIRED')
    arrived()
    const task = await ended(here, id)
    expect(task.status.message).toMatchObject(saying('true'))
    expect(await verbsOf(id)).toEqual([
      'send',
      'claim',
      'interrupt',
      'withdraw',
      'progress',
      'complete',
    ])
  })

  test('after a wait that was too long the handler takes its question back, and may ask again', async () => {
    const here = await desk()
    here.work(async (ctx) => {
      await ctx.resume()
      const early = await ctx.requireInput('Quick?', { timeoutMs: 50 }).catch((error) => error)
      expect(early).toBeInstanceOf(AnswerTimeout)
      await ctx.resume()
      return textOf(await ctx.requireInput('Now?'))
    })
    const { id } = await here.say('x')
    await until(
      async () => textOf((await here.a2a.get(id)).status.message ?? saying('')) === 'Now?',
    )
    await here.a2a.submit('yes', { taskId: id })
    expect((await ended(here, id)).status.message).toMatchObject(saying('yes'))
  })

  test('what it waits for in line it goes on with', async () => {
    const here = await desk()
    let waits = (): void => {}
    const asked = new Promise<void>((resolve) => {
      waits = resolve
    })
    here.work(async (ctx) => {
      await ctx.requireInput('May I?', { timeoutMs: 50 }).catch(() => {})
      waits()
      // Another of the conversation is at work by now.
      await until(() => working !== undefined)
      await ctx.resume()
      return 'went on'
    })
    const { id } = await here.say('one')
    await asked
    await here.say('two')
    const working = await here.worker.claim()
    await until(async () => (await verbsOf(id)).includes('withdrawLater'))
    await finish(here, working)
    expect((await ended(here, id)).status.message).toMatchObject(saying('went on'))
  })

  test('a handler cancels its todo, with a word and with its children', async () => {
    const here = await desk({ contexts: 'parallel' })
    here.work(async (ctx) => {
      if (ctx.todo.parentId !== undefined) return void (await ctx.requireInput('wait'))
      await ctx.fork([{ queue: ctx.todo.queue, message: 'child' }])
      await ctx.cancel('The airline has canceled')
    })
    const { id } = await here.say('x')
    const task = await ended(here, id, 'TASK_STATE_CANCELED')
    expect(task.status.message).toMatchObject(saying('The airline has canceled'))
    expect(await attemptsOf(app, id)).toMatchObject([
      { outcome: 'canceled', disposition: 'canceled' },
    ])
    await until(async () => {
      const rows = await app.sql('select state from todos where parent_id = $1', [id])
      return rows.length === 1 && rows[0]?.state === 'canceled'
    })
  })
})

test('a todo canceled by its holder stays so, and its waiting client hears of it', async () => {
  const here = await desk()
  const sent = here.a2a.send('x')
  const todo = await here.worker.claim()
  expect(await here.worker.call('todos.cancel', todo.held)).toEqual({ state: 'canceled' })
  expect((await sent).result.task.status.state).toBe('TASK_STATE_CANCELED')
  const other = agentClient(app.url, (await app.vend(['work'], [here.name])).token)
  expect((await refusalOf(other.call('todos.cancel', todo.held))).data.reason).toBe('stale_fence')
  expect((await here.worker.call('todos.claim', {})).todos).toEqual([])
  expect(await verbsOf(todo.id)).toEqual(['send', 'claim', 'cancelHeld'])
})
