// Tools and silence, against a scripted server.
import { afterEach, expect, test } from 'vitest'
import { type Agent, type AgentOptions, createAgent } from '../../src/agent-kit/agent.ts'
import type { Handler } from '../../src/agent-kit/attempt.ts'
import { type AttemptAborted, EffectDenied } from '../../src/agent-kit/errors.ts'
import { until } from '../support/until.ts'
import { type Answer, claimed, type FakeServer, startFakeServer } from './fake-server.ts'

const silent = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }
const open: { server: FakeServer; agent: Agent }[] = []
afterEach(async () => {
  for (const { server, agent } of open.splice(0)) {
    await agent.stop({ graceMs: 0 })
    await server.close()
  }
})

const run = async (
  handler: Handler,
  options: Partial<AgentOptions> = {},
  todos: object[] = [claimed()],
  script: (method: string) => Answer = () => ({ result: { state: 'claimed', unread: 0 } }),
) => {
  const left = [...todos]
  const server = await startFakeServer(({ method }) => {
    if (method !== 'todos.claim') return script(method)
    const given = left.splice(0, 1)
    return given.length > 0 ? { result: { todos: given } } : 'stall'
  })
  const agent = createAgent({ url: server.url, token: 't', log: silent, ...options }, handler)
  open.push({ server, agent })
  agent.start()
  return server
}

const made = (server: FakeServer, method: string): boolean => server.paramsOf(method).length > 0
const notes = (server: FakeServer) => server.paramsOf('todos.progress').map(({ note }) => note)
const forever = () => new Promise<never>(() => {})
const aborted = (signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }))

test('a tool stamps progress at both ends, whether it gives a result or throws', async () => {
  const server = await run(async (ctx) => {
    const cake = await ctx.tool('oven', { timeoutMs: 5000 }, async () => 'cake')
    const failure = await ctx
      .tool('plate', { timeoutMs: 5000 }, async () => {
        throw new Error('broken')
      })
      .catch((error: Error) => error.message)
    return `${cake} on ${failure}`
  })
  await until(() => made(server, 'todos.complete'))
  expect(notes(server)).toEqual(['tool: oven', 'tool: oven', 'tool: plate', 'tool: plate'])
  expect(server.paramsOf('todos.complete')[0]).toMatchObject({
    message: { parts: [{ text: 'cake on broken' }] },
  })
})

test.each([['as options', { timeoutMs: 50 }] as const, ['as a number', 50] as const])(
  'a tool that ignores its signal rejects at its ceiling (%s), with both its stamps',
  async (_, limits) => {
    let told: AbortSignal | undefined
    const server = await run((ctx) =>
      ctx.tool('oven', limits, (signal) => {
        told = signal
        return forever()
      }),
    )
    await until(() => made(server, 'todos.fail'))
    expect(notes(server)).toEqual(['tool: oven', 'tool: oven'])
    expect(told?.aborted).toBe(true)
    expect(server.paramsOf('todos.fail')[0]).toMatchObject({
      error: { message: 'oven took longer than 50 ms' },
      retryable: true,
    })
  },
)

test('a tool with heartbeatMs stamps while it runs, and no more once it is over', async () => {
  let over = false
  const server = await run(async (ctx) => {
    await ctx.tool('oven', { timeoutMs: 10_000, heartbeatMs: 10 }, () =>
      until(() => notes(server).length >= 5),
    )
    over = true
    const after = notes(server).length
    await ctx.say('done')
    expect(notes(server)).toHaveLength(after)
  })
  await until(() => made(server, 'todos.complete'))
  expect(over).toBe(true)
})

test('a result is kept although its last stamp could not be made', async () => {
  let stamps = 0
  const server = await run(
    (ctx) => ctx.tool('oven', { timeoutMs: 5000 }, async () => 'cake'),
    {},
    [claimed()],
    (method) => {
      if (method !== 'todos.progress') return { result: {} }
      stamps += 1
      return stamps === 1 ? { result: {} } : { error: { code: -32603, message: 'no' } }
    },
  )
  await until(() => made(server, 'todos.complete'))
  expect(server.paramsOf('todos.complete')[0]).toMatchObject({
    message: { parts: [{ text: 'cake' }] },
  })
})

test('a handler that shows no progress for too long is told `silent`, and its todo fails with code `silence`, to be tried again', async () => {
  let reason: string | undefined
  const server = await run(
    async ({ signal }) => {
      await aborted(signal)
      reason = (signal.reason as AttemptAborted).reason
      throw signal.reason
    },
    { silenceMs: 60 },
  )
  await until(() => made(server, 'todos.fail'))
  expect(reason).toBe('silent')
  expect(server.paramsOf('todos.fail')).toMatchObject([
    { fence: '7', error: { code: 'silence', message: 'No progress for 60 ms' }, retryable: true },
  ])
  expect(made(server, 'todos.complete')).toBe(false)
  expect(made(server, 'todos.release')).toBe(false)
})

test('what a silent handler returns in the end is not reported as its success', async () => {
  const server = await run(
    async ({ signal }) => {
      await aborted(signal)
      return 'as if nothing had been'
    },
    { silenceMs: 60 },
  )
  await until(() => made(server, 'todos.fail'))
  expect(server.paramsOf('todos.fail')[0]).toMatchObject({ error: { code: 'silence' } })
  expect(made(server, 'todos.complete')).toBe(false)
})

test('a handler that is wedged for good loses its todo and its slot, not the agent', async () => {
  const server = await run(
    ({ todo }) => (todo.id === 'wedged' ? forever() : 'fine'),
    { silenceMs: 60, concurrency: 1 },
    [claimed({ id: 'wedged' }), claimed({ id: 'next' })],
  )
  await until(() => made(server, 'todos.complete'))
  expect(server.paramsOf('todos.fail')).toMatchObject([
    { id: 'wedged', error: { code: 'silence' }, retryable: true },
  ])
  expect(server.paramsOf('todos.complete')).toMatchObject([{ id: 'next' }])
})

test('honest work that shows progress outlasts the ceiling many times over, whatever shows it', async () => {
  let fired = false
  const server = await run(
    async (ctx) => {
      ctx.signal.addEventListener('abort', () => {
        fired = true
      })
      const started = performance.now()
      while (performance.now() - started < 1500) {
        await ctx.progress()
        await ctx.say('still at it')
        await ctx.artifact({ artifactId: 'a', parts: [{ text: 'x' }], append: true })
        await ctx.tool('oven', { timeoutMs: 5000 }, async () => {})
      }
      return 'done'
    },
    { silenceMs: 500 },
  )
  await until(() => made(server, 'todos.complete'))
  expect(fired).toBe(false)
})

test('the wait for an answer is not the silence of the handler; what comes after it is', async () => {
  let answered = false
  const server = await startFakeServer(({ method }, nth) => {
    if (method === 'todos.claim') {
      return nth === 1 ? { result: { todos: [claimed()] } } : 'stall'
    }
    if (method === 'todos.interrupt') {
      return { result: { fence: '7', interruptedAt: '2030-01-01T00:00:00.000Z' } }
    }
    if (method !== 'todos.messages') return { result: {} }
    // Ten polls: by then the ceiling has passed several times over.
    if (nth < 10) return { result: { state: 'input-required', messages: [] } }
    const message = { messageId: 'm-9', role: 'ROLE_USER', parts: [{ text: 'yes' }] }
    const owed = { seq: 9, receivedAt: '2030-01-01T00:00:10.000Z', message }
    return { result: { state: 'claimed', messages: [owed] } }
  })
  const agent = createAgent(
    { url: server.url, token: 't', log: silent, silenceMs: 200 },
    async (ctx) => {
      await ctx.requireInput('really?')
      answered = true
      await aborted(ctx.signal)
      throw ctx.signal.reason
    },
  )
  open.push({ server, agent })
  agent.start()
  await until(() => answered)
  expect(made(server, 'todos.fail')).toBe(false)
  await until(() => made(server, 'todos.fail'))
  expect(server.paramsOf('todos.fail')[0]).toMatchObject({ error: { code: 'silence' } })
})

test('heartbeats of the lease do not count as progress', async () => {
  const server = await run(
    async ({ signal }) => {
      await aborted(signal)
      throw signal.reason
    },
    // A beat every third of a second.
    { leaseSeconds: 1, silenceMs: 1000 },
  )
  await until(() => made(server, 'todos.fail'))
  expect(server.paramsOf('todos.heartbeat').length).toBeGreaterThanOrEqual(2)
  expect(server.paramsOf('todos.fail')[0]).toMatchObject({ error: { code: 'silence' } })
  expect(made(server, 'todos.progress')).toBe(false)
})

test('a block of the event loop, which may be another handler, is nobody’s silence', async () => {
  const server = await run(
    async ({ todo }) => {
      // Both have begun.
      await new Promise((resolve) => setTimeout(resolve, 100))
      if (todo.id === 'busy') for (const end = performance.now() + 1800; performance.now() < end; );
      await new Promise((resolve) => setTimeout(resolve, 50))
      return todo.id
    },
    { silenceMs: 500, concurrency: 2 },
    [claimed({ id: 'busy' }), claimed({ id: 'neighbor' })],
  )
  await until(() => server.paramsOf('todos.complete').length === 2)
  expect(made(server, 'todos.fail')).toBe(false)
})

test('a tool that the effects of the todo lack is refused by name, before it runs, and for good', async () => {
  let ran = 0
  const server = await run(
    async (ctx) => {
      const use = (name: string, more = {}) =>
        ctx.tool(name, { timeoutMs: 5000, ...more }, async () => {
          ran += 1
        })
      await use('oven')
      await use('search', { effect: 'web.read' })
      const denied = await use('oven', { effect: 'fire' }).catch((error: unknown) => error)
      expect(denied).toBeInstanceOf(EffectDenied)
      expect(denied).toMatchObject({ effect: 'fire', allowed: ['oven', 'web.read'] })
      await use('plate')
    },
    {},
    [claimed({ effects: ['oven', 'web.read'] })],
  )
  await until(() => server.paramsOf('todos.fail').length > 0)
  expect(ran).toBe(2)
  expect(server.paramsOf('todos.fail')[0]).toMatchObject({
    error: { code: 'effect_denied', message: 'The todo may not do plate' },
    retryable: false,
  })
  expect(server.paramsOf('todos.progress').map(({ note }) => note)).not.toContain('tool: plate')
})

test('no effects at all allow no tool; a todo without a list of them may use any', async () => {
  const server = await run(
    (ctx) => ctx.tool('oven', 5000, async () => 'cake'),
    { concurrency: 2 },
    [claimed({ effects: [] }), claimed({ id: 'todo-2', effects: null })],
  )
  await until(() => server.paramsOf('todos.complete').length > 0)
  await until(() => server.paramsOf('todos.fail').length > 0)
  expect(server.paramsOf('todos.complete')).toMatchObject([{ id: 'todo-2' }])
})
