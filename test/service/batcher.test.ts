import { expect, test } from 'vitest'
import { Refusal } from '../../src/domain/errors.ts'
import { createBatcher } from '../../src/service/batcher.ts'

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
  return { begun, runOne: async (item: number) => (await run([item]))[0]!, runBatch: run }
}

/** Until a statement that may begin has begun. */
const settle = async () => {
  for (let turn = 0; turn < 3; turn += 1) await new Promise((resolve) => setImmediate(resolve))
}

test('what comes at one moment shares a statement, and so does what comes while statements are under way', async () => {
  const { begun, ...parts } = statements()
  const gather = createBatcher({ ...parts, concurrency: 2, maxBatch: 3 })
  const results = [1, 2].map(gather)
  await settle()
  results.push(gather(3))
  await settle()
  expect(begun.map(({ items }) => items)).toEqual([[1, 2], [3]])
  results.push(...[4, 5, 6, 7].map(gather))
  await settle()
  expect(begun).toHaveLength(2)
  begun[0]!.end()
  await settle()
  expect(begun[2]!.items).toEqual([4, 5, 6])
  begun[1]!.end()
  await settle()
  expect(begun[3]!.items).toEqual([7])
  begun[2]!.end()
  begun[3]!.end()
  expect(await Promise.all(results)).toEqual([1, 2, 3, 4, 5, 6, 7].map((item) => `did ${item}`))
})

test('one that cannot be done harms none of those it shared a statement with', async () => {
  const gather = createBatcher<number, number>({
    concurrency: 1,
    runOne: async (item) => {
      if (item === 3) throw new Error('not this one')
      return item
    },
    runBatch: async () => {
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
  const gather = createBatcher({ ...parts, concurrency: 1 })
  const first = gather(1)
  await settle()
  const settled = Promise.allSettled([first, ...[2, 3].map(gather)])
  begun[0]!.end()
  await settle()
  begun[1]!.end(new Refusal('unavailable'))
  expect((await settled).map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'rejected'])
  expect(begun).toHaveLength(2)
})

test('who waits too long for a statement to begin is refused, and is not run later', async () => {
  const { begun, ...parts } = statements()
  const gather = createBatcher({ ...parts, concurrency: 1, waitMs: 10 })
  const first = gather(1)
  await settle()
  const late = gather(2)
  await expect(late).rejects.toMatchObject({ kind: 'unavailable' })
  begun[0]!.end()
  expect(await first).toBe('did 1')
  expect(begun).toHaveLength(1)
})

test('only items of one key share a statement, and what one left undone is tried alone', async () => {
  const { begun, ...parts } = statements()
  const gather = createBatcher({ ...parts, concurrency: 1, keyOf: (item) => String(item % 2) })
  const results = [1, 2, 3, 4, 5].map(gather)
  await settle()
  expect(begun[0]!.items).toEqual([1, 3, 5])
  begun[0]!.end()
  await settle()
  expect(begun[1]!.items).toEqual([2, 4])
  begun[1]!.end()
  expect(await Promise.all(results)).toEqual([1, 2, 3, 4, 5].map((item) => `did ${item}`))

  const partly = createBatcher<number, string>({
    concurrency: 1,
    runOne: async (item) => `alone ${item}`,
    runBatch: async (items) => items.map((item) => (item === 2 ? undefined : `with ${item}`)),
  })
  expect(await Promise.all([1, 2, 3].map(partly))).toEqual(['with 1', 'alone 2', 'with 3'])
})
