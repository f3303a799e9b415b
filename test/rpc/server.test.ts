import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { Refusal } from '../../src/domain/errors.ts'
import { a2aError, apiError, WireRefusal } from '../../src/protocol/wire/errors.ts'
import {
  type Call,
  type MethodTable,
  type StreamItem,
  stream,
  unary,
} from '../../src/protocol/wire/method.ts'
import type { Answer, Answered } from '../../src/rpc/answer.ts'
import { createRpc } from '../../src/rpc/server.ts'

async function* count(to: number): AsyncGenerator<StreamItem> {
  for (let n = 1; n <= to; n += 1) yield { id: String(n), result: n }
}

async function* breaking(): AsyncGenerator<StreamItem> {
  yield { result: 1 }
  throw new Error('select secret')
}

const collect = async <T>(items: AsyncIterable<T>): Promise<T[]> => {
  const found: T[] = []
  for await (const item of items) found.push(item)
  return found
}

const ran: unknown[] = []

const table: MethodTable = {
  echo: unary(z.strictObject({ text: z.string() }), async (_ctx, { text }) => {
    ran.push(text)
    return text
  }),
  nothing: unary(z.unknown(), async () => undefined),
  fault: unary(z.unknown(), async () => {
    throw new Error('select secret')
  }),
  refuse: unary(z.unknown(), async () => {
    throw new Refusal('stale_fence')
  }),
  locked: unary(
    z.strictObject({ text: z.string() }),
    async () => 'in',
    () => {
      throw new Refusal('forbidden')
    },
  ),
  count: stream(z.unknown(), async () => count(3)),
  unstreamed: stream(z.unknown(), async () => {
    throw new Refusal('not_found')
  }),
  breaking: stream(z.unknown(), async () => breaking()),
  wait: unary(z.unknown(), async ({ signal }) => {
    signal.throwIfAborted()
  }),
}

const create = (surface: 'a2a' | 'api', signal = new AbortController().signal) => {
  const lines: [string, Record<string, unknown>][] = []
  const answered: Answered[] = []
  const write = (level: string) => (fields: object) =>
    void lines.push([level, fields as Record<string, unknown>])
  const writeError = surface === 'a2a' ? a2aError : apiError
  const served = { table, writeError }
  const rpc = createRpc<Call>({
    tables: [served],
    writeError,
    batches: surface === 'api',
    log: {
      debug: write('debug'),
      warn: write('warn'),
      error: write('error'),
    } as unknown as Parameters<typeof createRpc>[0]['log'],
    onCall: (call) => answered.push(call),
  })
  const ask = (body: unknown, serve = () => served): Promise<Answer> =>
    rpc.answer({
      text: typeof body === 'string' ? body : JSON.stringify(body),
      requestId: 'r-1',
      serve,
      enter: async () => ({ signal }) as Call,
    })
  const json = async (body: unknown): Promise<unknown> => {
    const answer = await ask(body)
    return answer.kind === 'json' ? answer.body : answer.kind
  }
  return { ask, json, lines, answered }
}

const request = (method: string, params?: unknown, id: unknown = 1) => ({
  jsonrpc: '2.0',
  id,
  method,
  ...(params !== undefined && { params }),
})
const code = (code: number) => ({ error: { code } })

describe('one request', () => {
  test('is answered with its result under its id', async () => {
    const { json } = create('a2a')
    expect(await json(request('echo', { text: 'hi' }, 'x'))).toEqual({
      jsonrpc: '2.0',
      id: 'x',
      result: 'hi',
    })
    expect(await json(request('nothing', {}, null))).toEqual({
      jsonrpc: '2.0',
      id: null,
      result: null,
    })
  })

  test.each([
    ['', -32700],
    ['not json', -32700],
    ['{"jsonrpc":"2.0","id":1,', -32700],
    ['null', -32600],
    ['5', -32600],
    [request('NoSuchThing'), -32601],
    [request('constructor'), -32601],
    [request('__proto__'), -32601],
    [request('echo'), -32602],
    [request('echo', []), -32602],
    [request('echo', { text: 'a', more: 1 }), -32602],
    [request('fault'), -32603],
  ])('%j is answered with %d', async (body, expected) => {
    const { json } = create('a2a')
    expect(await json(body)).toMatchObject(code(expected))
  })

  test('that is no JSON is not quoted back', async () => {
    expect(JSON.stringify(await create('api').json('{"token":"secret" oops'))).not.toContain(
      'secret',
    )
  })

  test('names each field at fault', async () => {
    const { json } = create('api')
    expect(await json(request('echo', { more: 1 }))).toMatchObject({
      error: {
        data: {
          reason: 'invalid',
          violations: [
            { field: 'text', description: 'is required' },
            { field: 'more', description: 'is not known here' },
          ],
        },
      },
    })
  })

  test('without the right is forbidden before its params are looked at', async () => {
    expect(await create('api').json(request('locked', { wrong: 1 }))).toMatchObject(code(-32011))
  })

  test('of a version that is not served is refused before its method is looked at', async () => {
    const answer = await create('a2a').ask(request('NoSuchThing'), () => {
      throw new WireRefusal('version')
    })
    expect(answer).toMatchObject({ kind: 'json', body: { id: 1, ...code(-32009) } })
  })

  test('with text that no store can keep is refused by any method, naming where', async () => {
    const { json } = create('api')
    expect(await json(request('nothing', { a: ['b\u0000'] }))).toMatchObject({
      error: { code: -32602, data: { violations: [{ field: 'a[0]' }] } },
    })
  })

  test('whose depth is a bomb is refused', async () => {
    const deep = `${'['.repeat(100_000)}${']'.repeat(100_000)}`
    const body = `{"jsonrpc":"2.0","id":1,"method":"echo","params":{"text":${deep}}}`
    expect(await create('a2a').json(body)).toMatchObject(code(-32602))
  })
})

describe('a fault', () => {
  test('is logged under the request id that its answer names, and says nothing else', async () => {
    const { json, lines } = create('api')
    const body = await json(request('fault'))
    expect(body).toEqual({
      jsonrpc: '2.0',
      id: 1,
      error: {
        code: -32603,
        message: 'Internal error',
        data: { reason: 'internal', requestId: 'r-1' },
      },
    })
    const err = expect.objectContaining({ message: 'select secret' })
    expect(lines).toEqual([['error', { request: 'r-1', method: 'fault', err }]])
  })

  test('is not what a client that hung up leaves behind', async () => {
    const { json, lines } = create('api', AbortSignal.abort('hung_up'))
    expect(await json(request('wait'))).toMatchObject(code(-32014))
    expect(lines).toEqual([])
  })
})

describe('A2A', () => {
  test('has no batches and runs no request without an id', async () => {
    const { json } = create('a2a')
    ran.length = 0
    const { id: _, ...notification } = request('echo', { text: 'hi' })
    for (const body of [[request('echo', { text: 'hi' })], [], notification]) {
      expect(await json(body)).toMatchObject({ id: null, ...code(-32600) })
    }
    expect(ran).toEqual([])
  })

  test('tells what else is wrong with a request without an id before that', async () => {
    const { json } = create('a2a')
    const nameless = (method: string, params?: unknown) => {
      const { id: _, ...rest } = request(method, params)
      return rest
    }
    for (const [body, expected] of [
      [nameless('NoSuchThing'), -32601],
      [nameless('echo', { text: 5 }), -32602],
      [nameless('locked', { text: 'x' }), -32000],
      [nameless('count', {}), -32600],
    ]) {
      expect(await json(body)).toMatchObject({ id: null, ...code(expected as number) })
    }
  })
})

describe('a batch', () => {
  const { json, ask } = create('api')
  const { id: _, ...notification } = request('echo', { text: 'n' })

  test('is run in order and answered as a list, also a batch of one', async () => {
    ran.length = 0
    const bodies = await json([
      request('echo', { text: 'a' }, 1),
      5,
      notification,
      request('refuse', {}, 'r'),
      request('count', {}, 's'),
      request('echo', { text: 'b' }, 2),
    ])
    expect(bodies).toMatchObject([
      { id: 1, result: 'a' },
      { id: null, ...code(-32600) },
      { id: 'r', ...code(-32010) },
      { id: 's', ...code(-32600) },
      { id: 2, result: 'b' },
    ])
    expect(ran).toEqual(['a', 'n', 'b'])
    expect(await json([request('echo', { text: 'a' })])).toMatchObject([{ result: 'a' }])
  })

  test('is refused as a whole when it is empty or too long', async () => {
    expect(await json([])).toMatchObject({ id: null, ...code(-32600) })
    const many = Array(101).fill(request('echo', { text: 'a' }))
    expect(await json(many)).toMatchObject({ id: null, ...code(-32600) })
    expect(await json(many.slice(1))).toHaveLength(100)
  })

  test('of notifications is run and not answered, nor is a single one, whatever it threw', async () => {
    ran.length = 0
    expect(await ask([notification, notification])).toEqual({ kind: 'nothing' })
    expect(await ask(notification)).toEqual({ kind: 'nothing' })
    expect(await ask({ jsonrpc: '2.0', method: 'fault' })).toEqual({ kind: 'nothing' })
    expect(ran).toEqual(['n', 'n', 'n'])
  })
})

describe('a stream', () => {
  test('is whole responses under the id of the request', async () => {
    const answer = await create('a2a').ask(request('count', {}, 's1'))
    if (answer.kind !== 'stream') throw new Error('no stream')
    const frames = await collect(answer.frames)
    expect(frames).toEqual([
      { id: '1', data: { jsonrpc: '2.0', id: 's1', result: 1 } },
      { id: '2', data: { jsonrpc: '2.0', id: 's1', result: 2 } },
      { id: '3', data: { jsonrpc: '2.0', id: 's1', result: 3 } },
    ])
  })

  test('that was refused before it began is plain JSON', async () => {
    expect(await create('a2a').json(request('unstreamed'))).toMatchObject(code(-32001))
  })

  test('that breaks has one last response for it, which leaks nothing', async () => {
    const { ask, lines } = create('a2a')
    const answer = await ask(request('breaking', {}, 42))
    if (answer.kind !== 'stream') throw new Error('no stream')
    await expect(collect(answer.frames)).rejects.toThrow('select secret')
    const last = answer.onError(new Error('select secret'))
    expect(last).toMatchObject({ data: { id: 42, ...code(-32603) } })
    expect(JSON.stringify(last)).not.toContain('select')
    expect(lines).toMatchObject([['error', { method: 'breaking' }]])
  })
})

test('calls are counted under known names only', async () => {
  const { json, answered } = create('api')
  await json(request('echo', { text: 'a' }))
  await json(request('refuse'))
  await json(request('no-such-thing'))
  await json('{')
  await json(request('count'))
  expect(answered.map(({ method, code }) => [method, code])).toEqual([
    ['echo', 0],
    ['refuse', -32010],
    ['unknown', -32601],
    ['unknown', -32700],
    ['count', 0],
  ])
  for (const { seconds } of answered) expect(seconds).toBeGreaterThanOrEqual(0)
})

test('of a batch, those with one turn wait for each other, and what has none waits for all', async () => {
  const begun: string[] = []
  const open = new Map<string, () => void>()
  const served = {
    writeError: apiError,
    table: {
      step: unary(
        z.object({ name: z.string(), id: z.string().optional() }),
        async (_ctx, { name }) => {
          begun.push(name)
          await new Promise<void>((resolve) => {
            open.set(name, resolve)
          })
          return name
        },
      ),
    } as MethodTable,
  }
  const rpc = createRpc<Call>({
    tables: [served],
    writeError: apiError,
    batches: true,
    turnOf: ({ params }) => (params as { id?: string }).id ?? null,
    log: { debug: () => {}, warn: () => {}, error: () => {} } as never,
  })
  const names = ['a1', 'a2', 'b1', 'all', 'a3', 'b2']
  const answer = rpc.answer({
    text: JSON.stringify(
      names.map((name, id) =>
        request('step', name === 'all' ? { name } : { name, id: name[0] }, id),
      ),
    ),
    requestId: 'r',
    serve: () => served,
    enter: async () => ({ signal: new AbortController().signal }) as Call,
  })
  const finish = async (name: string): Promise<void> => {
    open.get(name)?.()
    await new Promise((resolve) => setImmediate(resolve))
  }
  await new Promise((resolve) => setImmediate(resolve))
  expect(begun).toEqual(['a1', 'b1'])
  await finish('a1')
  expect(begun).toEqual(['a1', 'b1', 'a2'])
  await finish('b1')
  await finish('a2')
  expect(begun).toEqual(['a1', 'b1', 'a2', 'all'])
  await finish('all')
  expect(begun).toEqual(['a1', 'b1', 'a2', 'all', 'a3', 'b2'])
  await finish('b2')
  await finish('a3')
  expect(await answer).toMatchObject({ body: names.map((result, id) => ({ id, result })) })
})
