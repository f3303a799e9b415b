// Field case: addresses with leftovers.
import { afterEach, expect, test } from 'vitest'
import { type Agent, type AgentOptions, createAgent } from '../../src/agent-kit/agent.ts'
import type { Handler } from '../../src/agent-kit/attempt.ts'
import { type AttemptAborted, NonRetryable } from '../../src/agent-kit/errors.ts'
import type { AgentLog } from '../../src/agent-kit/log.ts'
import { textOf } from '../../src/agent-kit/wire.ts'
import { sleep } from '../../src/base/time.ts'
import { scaled } from '../support/timeouts.ts'
import { until } from '../support/until.ts'
import {
  type Answer,
  claimed,
  conflict,
  type FakeServer,
  owed,
  type Script,
  startFakeServer,
} from './fake-server.ts'

const silent: AgentLog = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }
const open: { server: FakeServer; agent: Agent }[] = []
afterEach(async () => {
  for (const { server, agent } of open.splice(0)) {
    await agent.stop({ graceMs: 0 })
    await server.close()
  }
})

/** An agent on a server that hands out these todos, once, and answers the rest by `script`. */
const run = async (
  todos: object[],
  handler: Handler,
  script: Script = () => ({ result: {} }),
  options: Partial<AgentOptions> = {},
) => {
  const left = [...todos]
  const server = await startFakeServer(async (call, nth) => {
    if (call.method !== 'todos.claim') return script(call, nth)
    const limit = call.params.limit as number
    const given = left.splice(0, limit)
    return given.length > 0 ? { result: { todos: given } } : 'stall'
  })
  const agent = createAgent({ url: server.url, token: 't', log: silent, ...options }, handler)
  open.push({ server, agent })
  agent.start()
  return { server, agent }
}

const made = (server: FakeServer, method: string): boolean => server.paramsOf(method).length > 0

test('what a handler returns completes the todo', async () => {
  const { server } = await run([claimed()], (ctx) => `you said ${textOf(ctx.todo.message)}`)
  await until(() => made(server, 'todos.complete'))
  expect(server.paramsOf('todos.complete')[0]).toMatchObject({
    id: 'todo-1',
    fence: '7',
    message: { role: 'ROLE_AGENT', parts: [{ text: 'you said hello' }] },
  })
})

test('a handler that returns nothing completes without a message', async () => {
  const { server } = await run([claimed()], () => {})
  await until(() => made(server, 'todos.complete'))
  expect(server.paramsOf('todos.complete')[0]).toEqual({ id: 'todo-1', fence: '7' })
})

test('a thrown error fails the todo, to be tried again', async () => {
  const { server } = await run([claimed()], () => {
    throw new Error('boom')
  })
  await until(() => made(server, 'todos.fail'))
  expect(server.paramsOf('todos.fail')[0]).toMatchObject({
    error: { code: 'handler_error', message: 'boom' },
    retryable: true,
  })
})

test('NonRetryable fails the todo for good', async () => {
  const { server } = await run([claimed()], () => {
    throw new NonRetryable('no such dish', { code: 'no_dish' })
  })
  await until(() => made(server, 'todos.fail'))
  expect(server.paramsOf('todos.fail')[0]).toMatchObject({
    error: { code: 'no_dish', message: 'no such dish' },
    retryable: false,
  })
})

test('a handler that has ended the todo itself is not completed as well', async () => {
  const { server, agent } = await run([claimed()], async (ctx) => {
    await ctx.reject('not mine')
    await expect(ctx.say('more')).rejects.toMatchObject({ name: 'AttemptEnded' })
  })
  await until(() => made(server, 'todos.reject'))
  await agent.stop({ graceMs: 1000 })
  expect(made(server, 'todos.complete')).toBe(false)
  expect(made(server, 'todos.fail')).toBe(false)
})

test('a refused result fails the todo instead of leaving it to its lease', async () => {
  const script: Script = ({ method }) =>
    method === 'todos.complete'
      ? { error: { code: -32602, message: 'Invalid params', data: { reason: 'invalid' } } }
      : { result: {} }
  const { server } = await run([claimed()], () => 'bad', script)
  await until(() => made(server, 'todos.fail'))
})

test('it heartbeats every third of the lease, with the lease asked for', async () => {
  const { server } = await run(
    [claimed()],
    () => new Promise((resolve) => setTimeout(resolve, 1300)),
    () => ({ result: { state: 'claimed', unread: 0 } }),
    { leaseSeconds: 1 },
  )
  await until(() => made(server, 'todos.complete'))
  expect(server.paramsOf('todos.heartbeat').length).toBeGreaterThanOrEqual(3)
  expect(server.paramsOf('todos.heartbeat')[0]).toMatchObject({ fence: '7', leaseSeconds: 1 })
})

test.each([
  ['lease_lost', conflict('stale_fence', { state: 'claimed' })],
  ['canceled', conflict('stale_fence', { state: 'canceled' })],
  ['canceled', conflict('wrong_state', { state: 'canceled' })],
])(
  'a refused heartbeat aborts the handler (%s) and nothing is reported',
  async (reason, refusal) => {
    let seen: AttemptAborted | undefined
    const { server, agent } = await run(
      [claimed()],
      async ({ signal }) => {
        await new Promise((resolve) => signal.addEventListener('abort', resolve))
        seen = signal.reason as AttemptAborted
        throw seen
      },
      ({ method }) => (method === 'todos.heartbeat' ? refusal : { result: {} }),
      { leaseSeconds: 1 },
    )
    await until(() => seen !== undefined)
    await agent.stop({ graceMs: 1000 })
    expect(seen).toMatchObject({ name: 'AbortError', reason })
    const reports = ['todos.complete', 'todos.fail', 'todos.release']
    expect(reports.filter((method) => made(server, method))).toEqual([])
  },
)

test('a holder that cannot reach the server stops once its lease must have lapsed', async () => {
  let reason: string | undefined
  await run(
    [claimed()],
    async ({ signal }) => {
      await new Promise((resolve) => signal.addEventListener('abort', resolve))
      reason = (signal.reason as AttemptAborted).reason
    },
    () => 'cut',
    { leaseSeconds: 1 },
  )
  await until(() => reason !== undefined)
  expect(reason).toBe('lease_lost')
})

test('a cancel signal makes it look at once, and is not believed unasked', async () => {
  let started = false
  let canceled = false
  let reason: string | undefined
  const { server } = await run(
    [claimed()],
    async ({ signal }) => {
      started = true
      await new Promise((resolve) => signal.addEventListener('abort', resolve))
      reason = (signal.reason as AttemptAborted).reason
    },
    ({ method }): Answer =>
      method === 'todos.heartbeat' && canceled
        ? conflict('stale_fence')
        : { result: { state: 'claimed', unread: 0 } },
  )
  await until(() => started && server.streams.length === 1)
  const signal = 'event: canceled\ndata: {"id":"todo-1","fence":"7"}\n\n'
  server.streams[0]?.send(signal)
  await until(() => made(server, 'todos.heartbeat'))
  expect(reason).toBeUndefined()
  canceled = true
  server.streams[0]?.send(signal)
  await until(() => reason !== undefined)
  expect(reason).toBe('canceled')
})

const ASKED = '2030-01-01T00:00:05.000Z'

test('a question waits for the first message after it, and the answer is acknowledged', async () => {
  const before = owed(3, 'by the way', '2030-01-01T00:00:01.000Z')
  const { server } = await run(
    [claimed()],
    async (ctx) => {
      const answer = await ctx.requireInput('which?', { schema: { type: 'string' } })
      const [other] = await ctx.messages()
      return `${textOf(answer)}, ${other === undefined ? '-' : textOf(other)}`
    },
    ({ method, params }, nth): Answer => {
      if (method === 'todos.interrupt') {
        return { result: { state: 'input-required', interruptedAt: ASKED, fence: '8' } }
      }
      if (method !== 'todos.messages') return { result: { state: 'claimed', unread: 0 } }
      if (nth === 1) return { result: { state: 'input-required', messages: [before] } }
      const messages = (params.after as number) < 5 ? [owed(5, 'this'), owed(6, 'thanks')] : []
      return { result: { state: 'claimed', messages } }
    },
  )
  await until(() => made(server, 'todos.complete'))
  expect(server.paramsOf('todos.interrupt')[0]).toMatchObject({
    state: 'input-required',
    schema: { type: 'string' },
  })
  expect(server.paramsOf('todos.messages')[0]).toMatchObject({ after: 0, waitMs: 30_000 })
  expect(server.paramsOf('todos.complete')[0]).toMatchObject({
    fence: '8',
    acknowledge: 6,
    message: { parts: [{ text: 'this, by the way' }] },
  })
})

test('a wait for an answer ends with AnswerTimeout, and the heartbeats hold the wait', async () => {
  let thrown: unknown
  const { server } = await run(
    [claimed()],
    async (ctx) => {
      thrown = await ctx
        .requireInput('which?', { timeoutMs: 2000, holdSeconds: 90 })
        .catch((error: unknown) => error)
    },
    ({ method }): Answer => {
      if (method === 'todos.messages') return { result: { state: 'input-required', messages: [] } }
      return { result: { state: 'input-required', interruptedAt: ASKED, fence: '7', unread: 0 } }
    },
    { leaseSeconds: 1 },
  )
  await until(() => thrown !== undefined)
  expect(thrown).toMatchObject({ name: 'AnswerTimeout' })
  expect(server.paramsOf('todos.heartbeat')).toContainEqual(
    expect.objectContaining({ holdSeconds: 90 }),
  )
})

test('a question that is only on its way is taken back, too', async () => {
  let thrown: unknown
  const { server } = await run(
    [claimed()],
    async (ctx) => {
      const waiting = ctx.requireAuth('Log in').catch((error: unknown) => error)
      await until(() => made(server, 'todos.interrupt'))
      await ctx.resume('It came by mail')
      thrown = await waiting
    },
    async ({ method }): Promise<Answer> => {
      if (method === 'todos.withdraw') return { result: { state: 'claimed' } }
      if (method === 'todos.messages') return { result: { state: 'auth-required', messages: [] } }
      // Its client sees the question, and sends the credential, before the handler hears.
      if (method === 'todos.interrupt') await sleep(200)
      return { result: { state: 'auth-required', interruptedAt: ASKED, fence: '7' } }
    },
  )
  await until(() => made(server, 'todos.complete'))
  expect(thrown).toMatchObject({ name: 'QuestionWithdrawn' })
  expect(server.paramsOf('todos.withdraw')).toHaveLength(1)
})

test('a parked question gives the todo up, and nothing more is reported', async () => {
  const { server, agent } = await run([claimed()], (ctx) => ctx.park('which?'))
  await until(() => made(server, 'todos.interrupt'))
  await agent.stop({ graceMs: 1000 })
  expect(server.paramsOf('todos.interrupt')[0]).toMatchObject({ hold: false })
  expect(made(server, 'todos.complete')).toBe(false)
})

const refusingUnread =
  (...rounds: object[][]): Script =>
  ({ method }, nth) => {
    const unread = method === 'todos.complete' ? rounds[nth - 1] : undefined
    return unread === undefined ? { result: {} } : conflict('unread_messages', { unread })
  }

test('messages that came while completing go to the listener before it completes again', async () => {
  const heard: string[] = []
  const { server } = await run(
    [claimed({ unread: [owed(2, 'early')] })],
    (ctx) => {
      ctx.onMessage(async (message) => {
        await new Promise((resolve) => setTimeout(resolve, 20))
        heard.push(textOf(message))
      })
    },
    refusingUnread([owed(2, 'early'), owed(4, 'late')], [owed(6, 'later')]),
  )
  await until(() => server.paramsOf('todos.complete').length === 3)
  expect(heard).toEqual(['early', 'late', 'later'])
  const acknowledged = server.paramsOf('todos.complete').map(({ acknowledge }) => acknowledge)
  expect(acknowledged).toEqual([2, 4, 6])
})

test('late messages that nobody saw are acknowledged where that was chosen', async () => {
  const { server } = await run([claimed()], () => {}, refusingUnread([owed(4, 'late')]), {
    unread: 'acknowledge',
  })
  await until(() => server.paramsOf('todos.complete').length === 2)
  expect(server.paramsOf('todos.complete')[1]).toMatchObject({ acknowledge: 4 })
})

test('by default a late message hands the todo to the next claim', async () => {
  const { server } = await run([claimed()], () => {}, refusingUnread([owed(4, 'late')]))
  await until(() => made(server, 'todos.release'))
  expect(server.paramsOf('todos.complete')).toHaveLength(1)
})

test('a message that the kit has heard of and the handler has not goes to the next claim', async () => {
  let fetched = 0
  const { server } = await run(
    [claimed({ unread: [owed(2, 'early')] })],
    async (ctx) => {
      await until(() => fetched > 0)
      expect(ctx.todo.unread).toHaveLength(1)
    },
    ({ method }) => {
      if (method !== 'todos.messages') return { result: { state: 'claimed', unread: 2 } }
      fetched += 1
      return { result: { state: 'claimed', messages: [owed(4, 'unseen')] } }
    },
  )
  await until(() => made(server, 'todos.release'))
  expect(made(server, 'todos.complete')).toBe(false)
})

test('what came with the todo, and what the handler took, is acknowledged', async () => {
  const { server } = await run(
    [claimed({ unread: [owed(2, 'early')] })],
    async (ctx) => {
      expect((await ctx.messages()).map(textOf)).toEqual(['early', 'taken'])
    },
    ({ method }) =>
      method === 'todos.messages'
        ? { result: { state: 'claimed', messages: [owed(4, 'taken')] } }
        : { result: { state: 'claimed', unread: 0 } },
  )
  await until(() => made(server, 'todos.complete'))
  expect(server.paramsOf('todos.complete')).toMatchObject([{ acknowledge: 4 }])
})

test('messages that never stop coming hand the todo back in the end', async () => {
  const { server } = await run(
    [claimed()],
    () => {},
    ({ method }, nth) =>
      method === 'todos.complete'
        ? conflict('unread_messages', { unread: [owed(nth, 'again')] })
        : { result: {} },
    { unread: 'acknowledge' },
  )
  await until(() => made(server, 'todos.release'))
  expect(server.paramsOf('todos.complete').length).toBeLessThanOrEqual(10)
})

test('it claims as many todos as it has free slots', async () => {
  const todos = [1, 2, 3].map((n) => claimed({ id: `todo-${n}` }))
  const working: (() => void)[] = []
  const { server } = await run(
    todos,
    () => new Promise<void>((resolve) => working.push(resolve)),
    undefined,
    { concurrency: 2, queues: ['a', 'b'], effects: ['mail.send'] },
  )
  await until(() => working.length === 2)
  expect(server.paramsOf('todos.claim')).toHaveLength(1)
  expect(server.paramsOf('todos.claim')[0]).toMatchObject({
    limit: 2,
    waitMs: 25_000,
    queues: ['a', 'b'],
    effects: ['mail.send'],
  })
  working[0]?.()
  await until(() => working.length === 3)
  expect(server.paramsOf('todos.claim')[1]).toMatchObject({ limit: 1 })
  for (const done of working) done()
})

test('a server that is away for a while is waited for', async () => {
  const server = await startFakeServer((_, nth) =>
    nth < 3 ? 'cut' : { result: { todos: nth === 3 ? [claimed()] : [] } },
  )
  let worked = false
  const agent = createAgent({ url: server.url, token: 't', log: silent }, () => {
    worked = true
  })
  open.push({ server, agent })
  agent.start()
  await until(() => worked)
})

test('stopping waits for a handler that finishes in time', async () => {
  let started = false
  const { server, agent } = await run([claimed()], async () => {
    started = true
    await new Promise((resolve) => setTimeout(resolve, 200))
  })
  await until(() => started)
  await agent.stop({ graceMs: 2000 })
  expect(server.paramsOf('todos.complete')).toHaveLength(1)
  expect(agent.running).toBe(false)
})

test.each([
  ['stops', true],
  ['does not stop', false],
])('stopping hands back, unfailed, what a handler holds that %s', async (_, obeys) => {
  let started = false
  const { server, agent } = await run([claimed()], ({ signal }) => {
    started = true
    return new Promise((_, reject) => {
      if (obeys) signal.addEventListener('abort', () => reject(signal.reason as Error))
    })
  })
  await until(() => started)
  await agent.stop({ graceMs: 50 })
  expect(server.paramsOf('todos.release')[0]).toMatchObject({
    id: 'todo-1',
    fence: '7',
    summary: 'agent stopped',
  })
  expect(made(server, 'todos.fail')).toBe(false)
})

test('stopping gives no grace to a handler that waits for an answer', async () => {
  const { server, agent } = await run(
    [claimed()],
    async (ctx) => {
      await ctx.requireInput('which?')
    },
    ({ method }): Answer => {
      if (method === 'todos.messages') return 'stall'
      if (method === 'todos.release') return conflict('wrong_state', { state: 'input-required' })
      return { result: { state: 'input-required', interruptedAt: ASKED, fence: '7' } }
    },
  )
  await until(() => made(server, 'todos.messages'))
  const started = performance.now()
  await agent.stop({ graceMs: 10_000 })
  expect(performance.now() - started).toBeLessThan(scaled(5000))
  expect(made(server, 'todos.fail')).toBe(false)
})

test('a todo whose claim answer was cut off by the stop is looked for and handed back', async () => {
  let label: unknown
  const { server, agent } = await run(
    [],
    () => {},
    ({ method }) => {
      label = server.paramsOf('todos.claim')[0]?.claimant
      const strays = [
        { id: 'stray', fence: '3', claimant: label },
        { id: 'somebody-elses', fence: '4', claimant: 'other:1' },
      ]
      return method === 'todos.list' ? { result: { todos: strays } } : { result: {} }
    },
  )
  await until(() => made(server, 'todos.claim'))
  await agent.stop()
  expect(server.paramsOf('todos.release').map(({ id }) => id)).toEqual(['stray'])
})

const verbs: [string, Handler][] = [
  ['todos.say', (ctx) => ctx.say('x')],
  ['todos.progress', (ctx) => ctx.progress('x')],
  ['todos.artifact', async (ctx) => void (await ctx.artifact({ append: true, parts: [] }))],
  ['todos.fork', async (ctx) => void (await ctx.fork([{ queue: 'q', message: 'x' }]))],
  ['todos.interrupt', async (ctx) => void (await ctx.requireInput('?'))],
  ['todos.interrupt', (ctx) => ctx.park('?')],
  ['todos.join', (ctx) => ctx.join(['child'])],
  ['todos.complete', () => 'x'],
  ['todos.fail', (ctx) => ctx.fail('x')],
  ['todos.reject', (ctx) => ctx.reject('x')],
  ['todos.cancel', (ctx) => ctx.cancel('x')],
  ['todos.release', (ctx) => ctx.release()],
]
const drains = { error: { code: -32014, message: 'draining' }, status: 503 }
const broken = { error: { code: 0, message: 'bad gateway' }, status: 502 }

test.each(
  verbs.flatMap(([method, handler]) =>
    (['cut', drains, broken] as Answer[]).map((first) => ({ method, handler, first })),
  ),
)('$method is called again, the same, where its answer was $first', async (each) => {
  const { method, handler, first } = each
  const asked = { state: 'claimed', messages: [owed(9, 'yes')] }
  const { server } = await run([claimed()], handler, (call, nth) => {
    if (call.method === method && nth === 1) return first
    if (call.method === 'todos.messages') return { result: asked }
    return { result: { children: [{ id: 'child' }], interruptedAt: '2030-01-01T00:00:00Z' } }
  })
  await until(() => server.paramsOf(method).length === 2)
  const [one, two] = server.paramsOf(method)
  expect(two).toEqual(one)
})

test('a server of before, which knows no keys, is sent chunks without', async () => {
  const script: Script = ({ method, params }) =>
    method === 'todos.artifact' && 'key' in params
      ? {
          error: {
            code: -32602,
            message: 'Invalid params',
            data: { reason: 'invalid', violations: [{ field: 'key', description: 'unknown' }] },
          },
        }
      : { result: {} }
  const { server } = await run([claimed()], (ctx) => ctx.artifact({ parts: [] }), script)
  await until(() => made(server, 'todos.complete'))
  expect(server.paramsOf('todos.artifact').map((params) => 'key' in params)).toEqual([true, false])
})

test.each(['nonsense', 'ftp://h', 'http:/h', 'http://h h', ''])(
  '%j is no address of a server, and is refused at once',
  (url) => {
    expect(() => createAgent({ url, token: 't' }, () => {})).toThrow(
      /^url must be an http or https/,
    )
  },
)
