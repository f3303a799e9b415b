// Field cases: an error whose text cannot be stored; a result that cannot be sent.
import { afterAll, expect, test } from 'vitest'
import { type Agent, createAgent } from '../../src/agent-kit/agent.ts'
import type { Handler } from '../../src/agent-kit/attempt.ts'
import { DocumentError } from '../../src/agent-kit/errors.ts'
import { startApp } from '../support/app.ts'
import { type Answer, a2aClient, agentClient } from '../support/clients/actors.ts'
import { attemptsOf } from '../support/steps.ts'
import { until } from '../support/until.ts'

const app = await startApp()
const quiet = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }
const agents: Agent[] = []
afterAll(() => Promise.all(agents.map((agent) => agent.stop({ graceMs: 0 }))))

let queues = 0
/** Has the handler work one todo, under a lease that outlasts the test; what became of it. */
const outcomeOf = async (handler: Handler): Promise<Answer> => {
  queues += 1
  const queue = `failing-${queues}`
  const backoff = { initialSeconds: 600, factor: 1, maxSeconds: 600, jitter: 0 }
  const { client } = await app.queue(queue, { backoff })
  const { token } = await app.vend(['work', 'send'], [queue])
  const agent = createAgent(
    { url: app.url, token, queues: [queue], leaseSeconds: 600, log: quiet },
    handler,
  )
  agents.push(agent)
  agent.start()
  const { id } = await a2aClient(app.url, queue, client.token).submit('x')
  const todo = await until(
    async () => {
      const read = await agentClient(app.url, token).call('todos.get', { id })
      return !['pending', 'claimed'].includes(read.state) && read
    },
    { what: 'the end is reported' },
  )
  return { ...todo, attempts: await attemptsOf(app, id) }
}

const HALF = '\ud83d'
const thrown: [string, () => unknown, { code: string; text: RegExp | string }][] = [
  ['a NUL', () => new Error('a\0b'), { code: 'handler_error', text: 'a\ufffdb' }],
  ['half a pair', () => new Error(`a${HALF}b`), { code: 'handler_error', text: 'a\ufffdb' }],
  [
    'an emoji at the cut',
    () => new Error(`${'x'.repeat(1999)}😀`),
    { code: 'handler_error', text: /^x{1999}$/ },
  ],
  [
    'an empty code',
    () => Object.assign(new Error('e'), { code: '' }),
    { code: 'handler_error', text: 'e' },
  ],
  [
    'a code with a NUL',
    () => Object.assign(new Error('e'), { code: 'a\0' }),
    { code: 'a\ufffd', text: 'e' },
  ],
  ['no text', () => new Error(''), { code: 'handler_error', text: 'The handler failed' }],
  ['null', () => null, { code: 'handler_error', text: 'null' }],
  ['nothing', () => undefined, { code: 'handler_error', text: 'undefined' }],
  ['a symbol', () => Symbol('s'), { code: 'handler_error', text: 'Symbol(s)' }],
  [
    'what has no text',
    () => Object.create(null),
    { code: 'handler_error', text: 'The handler failed' },
  ],
  [
    'getters that throw',
    () => ({
      get message() {
        throw new Error('no')
      },
      get code() {
        throw new Error('no')
      },
    }),
    { code: 'handler_error', text: '[object Object]' },
  ],
]

test.each(thrown)(
  'a handler throws %s: its failure is reported',
  async (_, make, { code, text }) => {
    const todo = await outcomeOf(() => {
      throw make()
    })
    expect(todo).toMatchObject({ state: 'failed', nextRetryAt: expect.any(String) })
    expect(todo.result.error).toBe(code)
    if (typeof text === 'string') expect(todo.result.detail).toBe(text)
    else expect(todo.result.detail).toMatch(text)
    expect(todo.attempts).toMatchObject([{ outcome: 'failed' }])
  },
)

test.each([
  { code: 'a\0', message: `b\0${HALF}` },
  { code: '', message: '' },
  { code: HALF, message: 'x'.repeat(100_000) },
])('whatever an agent sends as error text, its failure is recorded', async (error) => {
  const { client, agent } = await app.queue('raw', { contexts: 'parallel' })
  const { id } = await a2aClient(app.url, 'raw', client.token).submit('x')
  const worker = agentClient(app.url, agent.token)
  const { held } = await worker.claim()
  const failed = await worker.call('todos.fail', {
    ...held,
    error,
    summary: `s\0${HALF}`,
    retryable: false,
  })
  expect(failed).toMatchObject({ state: 'failed', deadLetter: true })
  const { result } = await worker.call('todos.get', { id })
  expect(result.error).toBe({ 'a\0': 'a\ufffd', '': 'error', [HALF]: '\ufffd' }[error.code])
})

test('the summary of an end is taken whatever is in it, and a message is not', async () => {
  const { client, agent } = await app.queue('summaries', { contexts: 'parallel' })
  await a2aClient(app.url, 'summaries', client.token).submit('x')
  const worker = agentClient(app.url, agent.token)
  const { held } = await worker.claim()
  const message = { messageId: 'm', role: 'ROLE_AGENT', parts: [{ text: 'a\0' }] }
  await expect(worker.call('todos.complete', { ...held, message })).rejects.toMatchObject({
    error: { data: { violations: [{ field: 'message.parts[0].text' }] } },
  })
  await worker.call('todos.complete', { ...held, summary: 'a\0b' })
})

const cyclic = (): Answer => {
  const made: Answer = { deeper: {} }
  made.deeper.back = made
  return made
}
const nested = (levels: number): Answer => {
  let made: Answer = {}
  for (let level = 0; level < levels; level++) made = { a: made }
  return made
}
const bad: [string, () => Answer, string, RegExp][] = [
  ['a BigInt', () => ({ list: [1, { n: 1n }] }), 'unserializable', /\.list\[1\]\.n is a BigInt/],
  ['a circle', cyclic, 'unserializable', /\.deeper\.back refers to an object/],
  [
    'a toJSON that throws',
    () => ({
      inner: {
        toJSON() {
          throw new Error('broken')
        },
      },
    }),
    'unserializable',
    /\.inner cannot be read: broken/,
  ],
  [
    'a getter that throws',
    () => ({
      get inner() {
        throw new Error('broken')
      },
    }),
    'unserializable',
    /\.inner cannot be read: broken/,
  ],
  [
    '6 MB',
    () => ({ text: 'é'.repeat(3_000_000) }),
    'too_large',
    /^\w+ has 60\d{5} bytes .*4194304$/,
  ],
  ['200 levels', () => nested(200), 'too_deep', /\.a\.a.* is nested deeper than 100 levels$/],
  ['100,000 levels', () => nested(100_000), 'too_deep', /nested deeper than 100 levels$/],
]

/** The ways by which a document leaves a handler. */
const ways: [string, (ctx: Parameters<Handler>[0], data: Answer) => ReturnType<Handler>][] = [
  ['returns', (_, result) => ({ result })],
  ['says', (ctx, data) => ctx.say({ parts: [{ data }] })],
  ['sends as an artifact', async (ctx, data) => void (await ctx.artifact({ parts: [{ data }] }))],
  ['shows as progress', (ctx, data) => ctx.progress(data)],
  [
    'forks with',
    async (ctx, data) =>
      void (await ctx.fork([{ queue: ctx.todo.queue, message: { parts: [{ data }] } }])),
  ],
  ['asks with', async (ctx, data) => void (await ctx.requireInput({ parts: [{ data }] }))],
  ['fails with', (ctx, data) => ctx.fail('x', { message: { parts: [{ data }] } })],
]

test.each(
  ways.flatMap(([way, send], at) =>
    // Each way with some of the faults, the first with all.
    bad
      .filter((_, n) => at === 0 || n % 3 === at % 3)
      .map(([what, make, code, text]) => ({ way, what, send, make, code, text })),
  ),
)('a handler $way $what: it fails at once, for good', async ({ send, make, code, text }) => {
  const todo = await outcomeOf((ctx) => send(ctx, make()))
  expect(todo).toMatchObject({ state: 'failed', nextRetryAt: null, result: { error: code } })
  expect(todo.result.detail).toMatch(text)
  expect(todo.attempts).toMatchObject([{ outcome: 'failed', disposition: 'dead_lettered' }])
})

test('what JSON has no form for is no result either', async () => {
  for (const value of [1n, Symbol('s'), () => 1]) {
    const todo = await outcomeOf(() => value as never)
    expect(todo).toMatchObject({ state: 'failed', result: { error: 'unserializable' } })
  }
})

test('what only the server refuses fails the todo for good, and names the member', async () => {
  const todo = await outcomeOf(() => ({ message: { parts: [{ text: 'a\0' }] } }))
  expect(todo).toMatchObject({ state: 'failed', nextRetryAt: null, result: { error: 'invalid' } })
  expect(todo.result.detail).toContain('message.parts[0].text must be well-formed text')
})

test('a handler may catch what cannot be sent, and go on', async () => {
  const todo = await outcomeOf(async (ctx) => {
    const refused = await ctx.say({ parts: [{ data: 1n as never }] }).catch((error) => error)
    expect(refused).toBeInstanceOf(DocumentError)
    return refused.member
  })
  expect(todo).toMatchObject({ state: 'done' })
})
