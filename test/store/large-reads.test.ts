// Large reads take turns, and what a document counts is what it costs those who read it.
// Field cases: reads that cost far more than their text; whole tasks in every answer.
import { expect, test } from 'vitest'
import { createLargeReads } from '../../src/store/postgres/large-reads.ts'
import { sizeOf } from '../../src/store/todos/size.ts'
import { until } from '../support/until.ts'

/** Reads that end when they are told to. */
const createReads = (reads = createLargeReads(1, 60_000)) => {
  const begun: string[] = []
  const ends: (() => void)[] = []
  return {
    begun,
    end: () => ends.shift()!(),
    take: (owner: string, name: string) =>
      reads.take(
        owner,
        () =>
          new Promise<string>((resolve) => {
            begun.push(name)
            ends.push(() => resolve(name))
          }),
      ),
  }
}

test('a hundred large reads of one client delay that of another by one', async () => {
  const { begun, end, take } = createReads()
  const all = [
    ...Array.from({ length: 100 }, (_, n) => take('bad', `bad ${n}`)),
    take('good', 'good 1'),
    take('good', 'good 2'),
  ]
  for (let n = 1; n <= all.length; n += 1) {
    await until(() => begun.length === n)
    end()
  }
  expect(await Promise.all(all)).toHaveLength(102)
  expect(begun.slice(0, 5)).toEqual(['bad 0', 'bad 1', 'good 1', 'bad 2', 'good 2'])
})

test('one that fails gives its turn on, and one that waits too long is refused', async () => {
  const reads = createLargeReads(1, 20)
  await expect(reads.take('a', () => Promise.reject(new Error('away')))).rejects.toThrow('away')
  const { begun, end, take } = createReads(reads)
  const first = take('a', 'first')
  await expect(take('a', 'second')).rejects.toMatchObject({
    kind: 'unavailable',
    detail: { limit: 1, retryAfterSeconds: 1 },
  })
  end()
  await first
  const third = take('b', 'third')
  await until(() => begun.includes('third'))
  end()
  expect(await third).toBe('third')
})

test('a document counts its bytes, or its values where they are smaller than what they take', () => {
  const bytesOf = (json: string) => Buffer.byteLength(json)
  const rows = JSON.stringify(
    Array.from({ length: 1000 }, (_, n) => ({
      id: n,
      name: 'a name of the usual length',
      ok: true,
    })),
  )
  for (const json of [
    '{"parts":[{"text":"hello, world: a sentence"}],"messageId":"m-1","role":"ROLE_USER"}',
    JSON.stringify({ text: '{},[],{},[],"\\"\\\\'.repeat(1000) }),
    JSON.stringify({ text: 'ж'.repeat(1000) }),
    rows,
  ]) {
    expect(sizeOf(json)).toBe(bytesOf(json))
  }
  expect(sizeOf(undefined)).toBe(0)
  expect(sizeOf(JSON.stringify(Array(1000).fill({})))).toBe(10 + 1000 * 16 + 999 * 4 - 1000)
  expect(sizeOf(JSON.stringify(Array(1000).fill([])))).toBe(10 + 1000 * 10 + 999 * 4 - 1000)
  expect(sizeOf(JSON.stringify(Array(1000).fill(0)))).toBe(10 + 999 * 4 - 1000)
  expect(sizeOf('"text that does not end')).toBe(bytesOf('"text that does not end'))
})
