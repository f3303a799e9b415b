// The bounds of answer schemas: what one may be, how long and with how much memory it may work, who
// waits for whom, and what is kept. The thread is the real one.
// Field cases: small schemas that cost gigabytes; a costly answer holds up no other.
import { afterAll, expect, test } from 'vitest'
import { Refusal } from '../../src/domain/errors.ts'
import type { Json, JsonObject, Message } from '../../src/domain/todo.ts'
import { createKept } from '../../src/service/kept.ts'
import { createAnswerSchemas, type SCHEMA_LIMITS } from '../../src/service/schemas/answers.ts'
import { createTurns, type TurnLimits } from '../../src/service/schemas/turns.ts'
import { until } from '../support/until.ts'

const said: object[] = []
const log = { warn: (fields: object) => void said.push(fields) }

const schemasWith = (limits: Partial<typeof SCHEMA_LIMITS> = {}) => {
  const schemas = createAnswerSchemas({ log: log as never, limits })
  afterAll(schemas.stop)
  const asked = (schema: JsonObject, owner = 'agent', subject = 'todo') => ({
    schema,
    owner,
    subject,
  })
  const answer = (data: Json): Message => ({
    messageId: 'm',
    role: 'ROLE_USER',
    parts: [{ text: 'Here:' }, { data }],
  })
  /** The first violation, as text; null where it is taken. */
  const problemOf = (checked: Promise<void>): Promise<string | null> =>
    checked.then(
      () => null,
      (error) => {
        if (!(error instanceof Refusal)) throw error
        const [violation] = error.detail.violations ?? []
        return violation ? `${violation.field} ${violation.description}` : error.kind
      },
    )
  return {
    compile: (schema: JsonObject, owner?: string, subject?: string) =>
      problemOf(schemas.checkSchema(asked(schema, owner, subject))),
    check: (schema: JsonObject, data: Json, owner?: string, subject?: string) =>
      problemOf(schemas.checkAnswer(asked(schema, owner, subject), answer(data))),
    stop: schemas.stop,
  }
}

const repeated = <T>(count: number, of: (n: number) => T): T[] =>
  Array.from({ length: count }, (_, n) => of(n))
const object = (count: number, of: (n: number) => [string, Json]): JsonObject =>
  Object.fromEntries(repeated(count, of))

/** Time is no bound of these, however slow the machine is. */
const { compile, check } = schemasWith({ compileMs: 60_000, checkMs: 60_000, restFactor: 0 })

/** Where references are copied, this one makes 65 MB of code in 21 s. */
const multiplying = (refs: number): JsonObject => ({
  $defs: { big: { type: 'object', properties: object(200, (n) => [`p${n}`, { minLength: 1 }]) } },
  properties: object(refs, (n) => [`q${n}`, { $ref: '#/$defs/big' }]),
})
const BACKTRACKS: JsonObject = { type: 'string', pattern: '^(a+)+$' }
const LONG = `${'a'.repeat(60)}!`

test.each<[string, JsonObject, string]>([
  ['long', { description: 'x'.repeat(20_001) }, 'schema is longer than 20000 characters'],
  ['full of references', multiplying(201), 'schema holds more than 200 references'],
  [
    'full of dynamic references',
    { allOf: repeated(201, () => ({ $dynamicRef: '#' })) },
    'schema holds more than 200 references',
  ],
  [
    'deep',
    repeated(64, () => 0).reduce<JsonObject>((items) => ({ items }), { type: 'string' }),
    'schema is deeper than 64 levels',
  ],
  [
    'more code than text',
    { dependentRequired: object(60, (n) => [`a${n}`, repeated(50, (m) => `x${m}`)]) },
    'schema is not a JSON Schema: it makes more than 1000000 characters of code',
  ],
])('a schema that is too %s is refused by name, and another is taken', async (_, bad, problem) => {
  expect(await compile(bad)).toBe(problem)
  expect(await compile({ type: 'object' })).toBeNull()
})

test('references are not copied: 200 of them to a large definition are compiled at once, and work', async () => {
  const schema = multiplying(200)
  expect(await compile(schema)).toBeNull()
  expect(await check(schema, { q7: { p3: 'x' } })).toBeNull()
  expect(await check(schema, { q7: { p3: '' } })).toMatch(
    /^message.parts\[1\].data\/q7\/p3 must NOT/,
  )
})

test('this process goes on while a pattern backtracks and references double', async () => {
  const doubling = object(60, (n) => {
    const next = { $ref: `#/$defs/d${n + 1}` }
    return [`d${n}`, n === 59 ? { minLength: 2 } : { allOf: [next, next] }]
  })
  let ticks = 0
  const ticking = setInterval(() => {
    ticks += 1
  }, 10)
  const { check } = schemasWith({ restFactor: 0 })
  expect(await check(BACKTRACKS, LONG)).toBe(
    'message.parts[1].data cannot be checked: the schema of the question takes longer than 1000 ms to check',
  )
  expect(await check({ $defs: doubling, $ref: '#/$defs/d0' }, 'x')).toContain('1000 ms to check')
  clearInterval(ticking)
  // Two seconds of work in the other thread; here a tick each 10 ms, were the machine idle.
  expect(ticks).toBeGreaterThan(20)
})

test('one that is compiled for too long is refused at the ask, and the next one is taken', async () => {
  const { compile } = schemasWith({ compileMs: 40, restFactor: 0 })
  await compile({})
  const slow = { oneOf: repeated(1200, () => ({ type: 'null' })) }
  expect(await compile(slow)).toBe('schema takes longer than 40 ms to compile')
  await until(async () => (await compile({ type: 'object' })) === null)
})

test('an answer whose faults would fill the memory ends the thread, not the process; the next is checked', async () => {
  const { check } = schemasWith({ memoryMb: 32, compileMs: 60_000, checkMs: 60_000, restFactor: 0 })
  const schema = { items: { allOf: repeated(1000, () => ({ type: 'null' })) } }
  const greedy = repeated(300, () => 1)
  expect(await check(schema, greedy)).toContain('the schema of the question needs too much memory')
  expect(await check(schema, [null])).toBeNull()
  expect(await check({ type: 'string' }, 1)).toContain('must be string')
})

test('of a large answer only the first fault is looked for', async () => {
  const schema = { items: { type: 'string' } }
  const few = (data: Json) => check({ ...schema, description: 'x'.repeat(10_000) }, data)
  expect(await few([1, 2])).toContain('/0 must be string')
  expect(await few(repeated(1000, () => 1))).toContain('/0 must be string')
})

test('a good answer is taken although another to the same question was costly just now', async () => {
  const { check } = schemasWith({ checkMs: 300 })
  const both = await Promise.all([
    check(BACKTRACKS, LONG, 'agent', 'its todo'),
    check(BACKTRACKS, LONG, 'agent', 'its todo'),
    check(BACKTRACKS, 'aaa', 'agent', 'another todo'),
    check(BACKTRACKS, 'aaa', 'agent', 'its todo'),
    check({ type: 'string' }, 'b', 'another agent'),
  ])
  expect(both.map((problem) => problem?.includes('cannot be checked') ?? null)).toEqual([
    true,
    true,
    null,
    null,
    null,
  ])
})

test('what ends the thread is in the log, with the endpoint that asked', async () => {
  said.length = 0
  const { check } = schemasWith({ checkMs: 100 })
  await check(BACKTRACKS, LONG, 'the agent', 'the todo')
  expect(said).toEqual([{ endpoint: 'the agent', todo: 'the todo' }])
})

test('an idle thread ends, and is made anew for the next schema', async () => {
  const { check, stop } = schemasWith({ idleMs: 0 })
  for (let round = 0; round < 3; round += 1) {
    expect(await check({ type: 'number' }, 1)).toBeNull()
    await new Promise((done) => setTimeout(done, 5))
  }
  await stop()
})

/* -------------------------------------------------------------------- turns */

const TURNS: TurnLimits = {
  perSubject: 2,
  perOwner: 4,
  waitMs: 5000,
  costlyMs: 10,
  restFactor: 2,
  forgetMs: 60_000,
}

/** Turns whose work ends when the test says so. */
const turnsWith = (limits: Partial<TurnLimits> = {}) => {
  const turns = createTurns({ ...TURNS, ...limits })
  afterAll(turns.stop)
  const begun: string[] = []
  const ends = new Map<string, (ms: number) => void>()
  const take = (owner: string, subject: string, name = `${owner} ${subject}`) =>
    turns.take({ owner, subject }, () => {
      begun.push(name)
      return new Promise<{ ms: number }>((done) => {
        ends.set(name, (ms) => done({ ms }))
      })
    })
  const end = async (name: string, ms: number): Promise<void> => {
    await until(() => ends.has(name))
    ends.get(name)!(ms)
  }
  return { take, end, begun }
}

const refusedWith = (kind: string) => expect.objectContaining({ kind })

test('who has cost less goes first: another agent, then another question of the same one', async () => {
  const { take, end, begun } = turnsWith({ restFactor: 0 })
  const all = [take('a', 'costly', 'first')]
  all.push(take('a', 'costly', 'second'), take('a', 'cheap'), take('b', 'x'))
  await end('first', 1000)
  for (const name of ['b x', 'a cheap', 'second']) await end(name, 0)
  await Promise.all(all)
  expect(begun).toEqual(['first', 'b x', 'a cheap', 'second'])
})

test('an endpoint rests after what was costly, and its rest holds up nobody else', async () => {
  const { take, end, begun } = turnsWith({ restFactor: 5 })
  const costly = take('a', 'x', 'costly')
  await end('costly', 100)
  await costly
  const endedAt = performance.now()
  const rested = take('a', 'y').then(() => performance.now() - endedAt)
  const other = take('b', 'x')
  await end('b x', 0)
  await other
  expect(begun).toEqual(['costly', 'b x'])
  await end('a y', 0)
  expect(await rested).toBeGreaterThan(400)
})

test('what was cheap is followed by no rest', async () => {
  const { take, end } = turnsWith({ restFactor: 1e6 })
  for (let n = 0; n < 5; n += 1) {
    const cheap = take('a', 'x', `cheap ${n}`)
    await end(`cheap ${n}`, 9)
    await cheap
  }
})

test('beyond what may wait it is refused as busy: the newest of one question, the costliest of one endpoint', async () => {
  const { take, end } = turnsWith({ restFactor: 0 })
  const running = take('a', 'costly', 'running')
  await end('running', 500)
  await running
  const held = take('z', 'x')
  const ofOne = [take('a', 'costly', '1'), take('a', 'costly', '2')]
  await expect(take('a', 'costly', '3')).rejects.toEqual(refusedWith('unavailable'))
  const others = [take('a', 'p'), take('a', 'q'), take('a', 'r')]
  // The fifth of the endpoint: one of the costly question makes room for it.
  await expect(ofOne[1]).rejects.toEqual(refusedWith('unavailable'))
  for (const name of ['z x', 'a p', 'a q', 'a r', '1']) await end(name, 0)
  await Promise.all([held, ofOne[0], ...others])
})

test('nobody waits longer than is allowed, and a refusal says when to come again', async () => {
  const { take, end } = turnsWith({ restFactor: 100, waitMs: 50 })
  const costly = take('a', 'x', 'costly')
  await end('costly', 100)
  await costly
  const refusal = await take('a', 'y').catch((error: Refusal) => error)
  expect(refusal).toMatchObject({ kind: 'unavailable', detail: { retryAfterSeconds: 10 } })
})

/* --------------------------------------------------------------------- kept */

test('what is kept is bounded by count and by size, and the youngest stay', () => {
  const kept = createKept<number>(3, 100)
  for (let n = 0; n < 5; n += 1) kept.set(`k${n}`, n, 10)
  expect(kept.held()).toEqual({ count: 3, size: 30 })
  expect([kept.get('k1'), kept.get('k2'), kept.get('k4')]).toEqual([undefined, 2, 4])
  kept.set('large', 9, 85)
  expect(kept.held()).toEqual({ count: 2, size: 95 })
  expect([kept.get('k3'), kept.get('k2'), kept.get('k4')]).toEqual([undefined, undefined, 4])
  kept.set('large', 9, 20)
  expect(kept.held()).toEqual({ count: 2, size: 30 })
  kept.set('beyond all', 1, 101)
  expect(kept.held()).toEqual({ count: 0, size: 0 })
})
