/** The dispatcher of HTTP+JSON against rows of its own: what no row of a real table does at will. */
import { expect, test } from 'vitest'
import { z } from 'zod'
import { Refusal } from '../../src/domain/errors.ts'
import { WireRefusal } from '../../src/protocol/wire/errors.ts'
import {
  type MethodTable,
  type QueueCall,
  type StreamItem,
  stream,
  unary,
} from '../../src/protocol/wire/method.ts'
import { compilePaths, type PathRow, type RestBinding } from '../../src/protocol/wire/path.ts'
import { restError } from '../../src/protocol/wire/rest-errors.ts'
import type { Answer, Answered } from '../../src/rpc/answer.ts'
import { allowOf, createRest, type RestCall } from '../../src/rpc/rest.ts'

async function* breaking(): AsyncGenerator<StreamItem> {
  yield { id: '1', result: { task: 1 } }
  throw new Error('select secret')
}

const table: MethodTable<QueueCall> = {
  Echo: unary(z.unknown(), async (_ctx, params) => params),
  Nothing: unary(z.unknown(), async () => undefined),
  Remove: unary(z.unknown(), async () => ({})),
  Fault: unary(z.unknown(), async () => {
    throw new Error('select secret')
  }),
  Break: stream(z.unknown(), async () => breaking()),
  Unstreamed: stream(z.unknown(), async () => {
    throw new Refusal('not_found')
  }),
  Wait: unary(z.unknown(), async ({ signal }) => {
    signal.throwIfAborted()
  }),
  Locked: unary(
    z.unknown(),
    async () => 1,
    () => {
      throw new Refusal('forbidden')
    },
  ),
}

const rows: PathRow[] = [
  { verb: 'POST', template: '/echo/{id}', method: 'Echo', body: 'required' },
  { verb: 'GET', template: '/nothing', method: 'Nothing' },
  { verb: 'DELETE', template: '/thing', method: 'Remove' },
  { verb: 'GET', template: '/fault', method: 'Fault' },
  { verb: 'GET', template: '/break', method: 'Break' },
  { verb: 'GET', template: '/unstreamed', method: 'Unstreamed' },
  { verb: 'GET', template: '/wait', method: 'Wait' },
  { verb: 'POST', template: '/locked', method: 'Locked', body: 'required' },
]
const binding: RestBinding = { table, paths: compilePaths(rows), writeError: restError }

const answered: Answered[] = []
const logged: unknown[][] = []
const keep =
  (level: string) =>
  (...entry: unknown[]) =>
    logged.push([level, ...entry])
const rest = createRest({
  log: { debug: keep('debug'), warn: keep('warn'), error: keep('error') },
  onCall: (call) => answered.push(call),
})

const ask = (verb: string, path: string, more: Partial<RestCall> = {}): Promise<Answer> => {
  answered.length = 0
  logged.length = 0
  return rest.answer({
    binding,
    found: binding.paths.at(path),
    verb,
    query: new Map(),
    requestId: 'r-1',
    accepts: () => false,
    checkVersion: () => undefined,
    enter: async () => ({ signal: new AbortController().signal }) as QueueCall,
    readBody: async () => '',
    ...more,
  })
}

test('a row of a path gets the path and the body, and is counted under its name', async () => {
  const readBody = async () => '{"a":1}'
  expect(await ask('POST', '/echo/x', { readBody })).toEqual({
    kind: 'json',
    status: 200,
    body: { a: 1, id: 'x' },
  })
  expect(answered).toMatchObject([{ method: 'Echo', code: 0 }])
})

test('a row that removes answers with no body, one without a result with null', async () => {
  expect(await ask('DELETE', '/thing')).toEqual({ kind: 'json', status: 200, body: {} })
  expect(await ask('GET', '/nothing')).toMatchObject({ status: 200, body: null })
})

test('a right is looked at before the body is read', async () => {
  const readBody = async () => {
    throw new Error('was read')
  }
  expect(await ask('POST', '/locked', { readBody })).toMatchObject({ status: 403 })
  const checkVersion = () => {
    throw new WireRefusal('version')
  }
  expect(await ask('POST', '/locked', { checkVersion })).toMatchObject({ status: 400 })
  expect(answered).toMatchObject([{ method: 'unknown', code: -32009 }])
})

test('a fault is told as one and is in the log, under the same id', async () => {
  const answer = await ask('GET', '/fault')
  expect(answer).toMatchObject({ status: 500, body: { error: { code: 500, status: 'INTERNAL' } } })
  expect(JSON.stringify(answer)).toContain('r-1')
  expect(JSON.stringify(answer)).not.toContain('secret')
  expect(logged).toMatchObject([['error', { request: 'r-1', method: 'Fault' }, 'a call failed']])
})

test('a stream that fails before it began is refused as JSON, later by one event named error', async () => {
  expect(await ask('GET', '/unstreamed')).toMatchObject({ kind: 'json', status: 404 })
  const answer = await ask('GET', '/break')
  if (answer.kind !== 'stream') throw new Error('no stream')
  const frames: unknown[] = []
  try {
    for await (const frame of answer.frames) frames.push(frame)
  } catch (error) {
    frames.push(answer.onError(error))
  }
  expect(frames).toMatchObject([
    { id: '1', data: { task: 1 } },
    { event: 'error', data: { error: { code: 500, status: 'INTERNAL' } } },
  ])
  expect(JSON.stringify(frames)).not.toContain('secret')
  expect(logged).toHaveLength(1)
})

test('a wait that nobody waits for is no fault', async () => {
  const signal = AbortSignal.abort('hung_up')
  const enter = async () => ({ signal }) as QueueCall
  expect(await ask('GET', '/wait', { enter })).toMatchObject({ status: 503 })
  expect(logged).toEqual([])
})

test('a stream cannot be asked for without its body', async () => {
  expect(allowOf(binding, binding.paths.at('/break'))).toBe('GET, OPTIONS')
  expect(await ask('HEAD', '/break')).toMatchObject({ status: 405, allow: 'GET, OPTIONS' })
  expect(await ask('HEAD', '/nothing')).toMatchObject({ status: 200 })
})
