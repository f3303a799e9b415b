// A right that is withdrawn ends the waits it allowed: blocking sends, waiting claims, every stream.
import { expect, test } from 'vitest'
import { startApp, startNode } from '../support/app.ts'
import { a2aClient, agentClient, openStream, post, type Stream } from '../support/clients/actors.ts'
import { operate } from '../support/steps.ts'
import { scaled } from '../support/timeouts.ts'
import { until } from '../support/until.ts'

const SOON_MS = 2000

/** The wakes alone are to be seen: neither the intervals of the rights nor the polls help. */
const WAKES_ONLY = { recheckMs: 3_600_000, pollMs: 3_600_000 }
const app = await startApp(WAKES_ONLY)

let made = 0

/** An endpoint that may do everything in two queues, and somebody else who may as well. */
const people = async (vend: Record<string, unknown> = {}) => {
  made += 1
  const [name, other] = [`right-${made}`, `right-${made}-other`]
  for (const queue of [name, other]) await operate(app, 'queues.put', { name: queue })
  const { endpoint, token } = await operate(app, 'endpoints.vend', {
    name: 'mine',
    queues: [name, other],
    verbs: ['send', 'work', 'watch'],
    ...vend,
  })
  return { name, other, id: endpoint.id as string, token: token as string }
}
type People = Awaited<ReturnType<typeof people>>

interface Ended {
  status: number
  body?: {
    result?: { todos?: unknown[]; messages?: unknown[] }
    error?: { code: number; data?: { reason?: string } }
  }
}

/** Everything that one can wait for, begun on this node. Each promise resolves once it is over. */
const waitFor = async (url: string, { name, token }: People) => {
  const a2a = a2aClient(url, name, token)
  const agent = (method: string, params: object): Promise<Ended> =>
    post(`${url}/agent`, JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }), { token })
  const send = (text: string): Promise<Ended> =>
    post(
      a2a.endpoint,
      JSON.stringify({
        jsonrpc: '2.0',
        id: 1,
        method: 'SendMessage',
        params: {
          message: { messageId: text, role: 'ROLE_USER', parts: [{ text }], contextId: name },
        },
      }),
      { token, headers: { 'A2A-Version': '1.0' } },
    )
  const todo = await a2a.submit('held', { contextId: name })
  const { held } = await agentClient(url, token).claim({ queues: [name] })
  const streams = {
    rpc: await openStream(a2a.endpoint, {
      method: 'POST',
      body: JSON.stringify({
        jsonrpc: '2.0',
        id: 1,
        method: 'SubscribeToTask',
        params: { id: todo.id },
      }),
      token,
      headers: { 'A2A-Version': '1.0' },
    }),
    rest: await openStream(`${url}/a2a/${name}/tasks/${todo.id}:subscribe`, {
      token,
      headers: { 'A2A-Version': '1.0' },
    }),
    agent: await openStream(`${url}/agent/events?queues=${name}`, { token }),
    board: await openStream(`${url}/board/events?queue=${name}`, { token }),
  }
  for (const [kind, { status }] of Object.entries(streams))
    expect([kind, status]).toEqual([kind, 200])
  const over = async (stream: Stream): Promise<Ended> => {
    await stream.rest()
    return { status: stream.status }
  }
  const waits = {
    send: send('waits'),
    claim: agent('todos.claim', { waitMs: 60_000 }),
    claimHere: agent('todos.claim', { queues: [name], waitMs: 60_000 }),
    messages: agent('todos.messages', { ...held, waitMs: 60_000 }),
    rpc: over(streams.rpc),
    rest: over(streams.rest),
    agent: over(streams.agent),
    board: over(streams.board),
  }
  const ended = new Map<string, Ended & { at: number }>()
  for (const [kind, wait] of Object.entries(waits)) {
    void wait.then((outcome) => ended.set(kind, { ...outcome, at: performance.now() }))
  }
  // The send stands behind what is held in its conversation, so no claim gets it.
  await until(async () => (await app.sql('select from todos where queue = $1', [name])).length > 1)
  await new Promise((resolve) => setTimeout(resolve, 100))
  expect([...ended.keys()]).toEqual([])
  return {
    ended,
    /** What ended within the time after the withdrawal, in the order of `waits`. */
    within: async (kinds: readonly (keyof typeof waits)[], since: number) => {
      await until(() => kinds.every((kind) => ended.has(kind)), {
        what: `the end of ${kinds.join(', ')}`,
        timeoutMs: 10_000,
      })
      const late = kinds.filter((kind) => ended.get(kind)!.at - since > scaled(SOON_MS))
      expect(late).toEqual([])
      return Object.fromEntries(kinds.map((kind) => [kind, ended.get(kind)!]))
    },
    close: () => {
      for (const stream of Object.values(streams)) stream.close()
    },
  }
}

const ALL = ['send', 'claim', 'claimHere', 'messages', 'rpc', 'rest', 'agent', 'board'] as const

const reasonOf = (ended: Ended | undefined) => ended?.body?.error?.data?.reason

test.each(['the same node', 'another node'])(
  'a revoked endpoint waits no longer for anything, on %s',
  async (where) => {
    const node = where === 'another node' ? await startNode(app.databaseUrl, WAKES_ONLY) : null
    try {
      const here = await people()
      const waits = await waitFor(node?.url ?? app.url, here)
      const since = performance.now()
      await operate(app, 'endpoints.revoke', { id: here.id })
      const ended = await waits.within(ALL, since)
      for (const kind of ['send', 'claim', 'claimHere'] as const) {
        expect([kind, ended[kind]!.status]).toEqual([kind, 401])
      }
      expect(ended.send!.body?.error).toMatchObject({ code: -32000 })
      // Whichever comes first: that its token is gone, or that what it held was taken back.
      expect(ended.messages!.body?.error).toBeDefined()
      waits.close()
    } finally {
      await node?.stop()
    }
  },
)

test('a token that is replaced waits no longer either', async () => {
  const here = await people()
  const waits = await waitFor(app.url, here)
  const since = performance.now()
  await operate(app, 'endpoints.rotate', { id: here.id })
  await waits.within(ALL, since)
  waits.close()
})

test('an expired token waits no longer, and nobody need say so', async () => {
  const here = await people({ expiresInSeconds: Math.ceil(scaled(3000) / 1000) })
  const [row] = await app.sql<{ ms: number }>(
    'select (extract(epoch from expires_at - now()) * 1000)::float8 as ms from endpoints where id = $1',
    [here.id],
  )
  const expiry = performance.now() + row!.ms
  const waits = await waitFor(app.url, here)
  const ended = await waits.within(ALL, expiry)
  expect(ended.send!.status).toBe(401)
  expect(ended.claim!.status).toBe(401)
  waits.close()
})

test('withdrawn verbs end what they allowed, and nothing else', async () => {
  const here = await people()
  const waits = await waitFor(app.url, here)
  const since = performance.now()
  await operate(app, 'endpoints.update', { id: here.id, verbs: ['watch'] })
  const allowed = ['send', 'claim', 'claimHere', 'messages', 'rpc', 'rest', 'agent'] as const
  const ended = await waits.within(allowed, since)
  for (const kind of ['send', 'claim', 'claimHere', 'messages'] as const) {
    expect([kind, ended[kind]!.body?.error?.code]).toEqual([
      kind,
      kind === 'send' ? -32000 : -32011,
    ])
  }
  expect(waits.ended.has('board')).toBe(false)
  waits.close()
})

test('a withdrawn queue ends what waits for it; a claim that named no queue is only asked to come again', async () => {
  const here = await people()
  const waits = await waitFor(app.url, here)
  const since = performance.now()
  await operate(app, 'endpoints.update', { id: here.id, queues: [here.other] })
  const ended = await waits.within(ALL, since)
  expect(reasonOf(ended.claimHere)).toBe('forbidden')
  expect(ended.send!.body?.error).toBeDefined()
  expect(ended.claim!.body?.result?.todos).toEqual([])
  waits.close()
})

test('a change that takes nothing away ends no wait', async () => {
  const here = await people()
  const waits = await waitFor(app.url, here)
  await operate(app, 'endpoints.update', {
    id: here.id,
    name: 'renamed',
    verbs: ['send', 'work', 'watch', 'answer'],
  })
  // Somebody else's withdrawal is checked after this one, by the same wakes.
  const gone = await people()
  const theirs = await waitFor(app.url, gone)
  await operate(app, 'endpoints.revoke', { id: gone.id })
  await theirs.within(ALL, performance.now())
  expect([...waits.ended.keys()]).toEqual([])
  waits.close()
  theirs.close()
})

test('where the wake is lost, the intervals find it', async () => {
  const node = await startNode(app.databaseUrl, { ...WAKES_ONLY, recheckMs: 500 })
  try {
    const here = await people()
    const waits = await waitFor(node.url, here)
    const since = performance.now()
    await app.sql('update endpoints set revoked_at = now() where id = $1', [here.id])
    // The registry's copy may be two seconds old.
    await waits.within(ALL, since + 2000)
    waits.close()
  } finally {
    await node.stop()
  }
})
