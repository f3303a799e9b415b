import { expect, test } from 'vitest'
import { Refusal } from '../../src/domain/errors.ts'
import { createGather } from '../../src/service/gather.ts'

/** Statements that end when they are told to. */
const statements = () => {
  const begun: { items: readonly number[]; end(error?: unknown): void }[] = []
  const run = (items: readonly number[]): Promise<string[]> =>
    new Promise((resolve, reject) => {
      begun.push({
        items,
        end: (error) => (error ? reject(error) : resolve(items.map((item) => `did ${item}`))),
      })
    })
  return { begun, one: async (item: number) => (await run([item]))[0]!, many: run }
}

const settle = () => new Promise((resolve) => setImmediate(resolve))

test('alone an item goes at once; what comes while statements are under way shares the next', async () => {
  const { begun, ...parts } = statements()
  const gather = createGather({ ...parts, underWay: 2, most: 3 })
  const results = [1, 2, 3, 4, 5, 6].map(gather)
  expect(begun.map(({ items }) => items)).toEqual([[1], [2]])
  begun[0]!.end()
  await settle()
  expect(begun.map(({ items }) => items)).toEqual([[1], [2], [3, 4, 5]])
  begun[2]!.end()
  await settle()
  expect(begun[3]!.items).toEqual([6])
  begun[1]!.end()
  begun[3]!.end()
  expect(await Promise.all(results)).toEqual([1, 2, 3, 4, 5, 6].map((item) => `did ${item}`))
})

test('one that cannot be done harms none of those it shared a statement with', async () => {
  const gather = createGather<number, number>({
    underWay: 1,
    one: async (item) => {
      if (item === 3) throw new Error('not this one')
      return item
    },
    many: async () => {
      throw new Error('not together')
    },
  })
  const results = await Promise.allSettled([1, 2, 3, 4].map(gather))
  expect(results.map(({ status }) => status)).toEqual([
    'fulfilled',
    'fulfilled',
    'rejected',
    'fulfilled',
  ])
})

test('a database that is away is told to all, and nothing is tried one by one', async () => {
  const { begun, ...parts } = statements()
  const gather = createGather({ ...parts, underWay: 1 })
  const results = [1, 2, 3].map(gather)
  const settled = Promise.allSettled(results)
  begun[0]!.end()
  await settle()
  begun[1]!.end(new Refusal('unavailable'))
  expect((await settled).map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'rejected'])
  expect(begun).toHaveLength(2)
})

test('who waits too long for a statement to begin is refused, and is not run later', async () => {
  const { begun, ...parts } = statements()
  const gather = createGather({ ...parts, underWay: 1, waitMs: 10 })
  const [first, late] = [gather(1), gather(2)]
  await expect(late).rejects.toMatchObject({ kind: 'unavailable' })
  begun[0]!.end()
  expect(await first).toBe('did 1')
  expect(begun).toHaveLength(1)
})

test('only items of one key share a statement, and what one left undone is tried alone', async () => {
  const { begun, ...parts } = statements()
  const gather = createGather({ ...parts, underWay: 1, keyOf: (item) => String(item % 2) })
  const results = [1, 2, 3, 4, 5].map(gather)
  begun[0]!.end()
  await settle()
  expect(begun[1]!.items).toEqual([2, 4])
  begun[1]!.end()
  await settle()
  expect(begun[2]!.items).toEqual([3, 5])
  begun[2]!.end()
  expect(await Promise.all(results)).toEqual([1, 2, 3, 4, 5].map((item) => `did ${item}`))

  const partly = createGather<number, string>({
    underWay: 1,
    one: async (item) => `alone ${item}`,
    many: async (items) => items.map((item) => (item === 2 ? undefined : `with ${item}`)),
  })
  expect(await Promise.all([1, 2, 3].map(partly))).toEqual(['alone 1', 'alone 2', 'with 3'])
})
