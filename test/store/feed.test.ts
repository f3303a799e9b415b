import { expect, test } from 'vitest'
import { tryTransition } from '../../src/store/move/move.ts'
import { openDatabase } from '../../src/store/postgres/database.ts'
import { readFeed, sequenceEvents } from '../../src/store/todos/events.ts'
import { openStore } from '../support/database/store.ts'

const store = await openStore(20)
const { database, add } = store

test('an event that commits late, after others were placed and read, is not skipped by a cursor', async () => {
  const other = openDatabase({ connectionString: store.url, poolSize: 1 })
  const [early, late] = [await add(), await add()]
  await sequenceEvents(database, 1000)
  const start = (await readFeed(database, 0, 1000)).at(-1)!.position
  await other.transaction(async (session) => {
    // Its number is drawn first; it becomes visible last.
    await tryTransition(session, 'cancel', late, {})
    await tryTransition(database, 'cancel', early, {})
    await sequenceEvents(database, 1000)
    const seen = await readFeed(database, start + 1, 1000)
    expect(seen.map(({ todoId }) => todoId)).toEqual([early])
  })
  await other.close()
  await sequenceEvents(database, 1000)
  const seen = await readFeed(database, start + 1, 1000)
  expect(seen.map(({ todoId }) => todoId)).toEqual([early, late])
})

test('16 writers, two placers and a reader: nothing is missed, each todo is in order', async () => {
  const ids = await Promise.all(Array.from({ length: 60 }, () => add()))
  await sequenceEvents(database, 10_000)
  const start = (await readFeed(database, 0, 10_000)).at(-1)!.position
  const EACH = 10
  let writing = true
  const write = async (mine: string[]): Promise<void> => {
    for (let n = 0; n < EACH; n += 1) {
      for (const id of mine) {
        const message = {
          messageId: `${id}-${n}`,
          role: 'ROLE_USER' as const,
          parts: [{ text: 'x' }],
        }
        await database.transaction(async (session) => {
          await tryTransition(session, 'message', id, { message })
          await session.query('select pg_sleep(random() * 0.003)', [])
        })
      }
    }
  }
  const place = async (): Promise<void> => {
    while (writing) await sequenceEvents(database, 50)
  }
  const seen: { todoId: string; seq: number; position: number }[] = []
  let cursor = start
  const read = async (): Promise<void> => {
    const more = await readFeed(database, cursor + 1, 500)
    seen.push(...more)
    cursor = more.at(-1)?.position ?? cursor
  }
  const reading = (async () => {
    while (writing) await read()
  })()
  const placing = Promise.all([place(), place()])
  const share = (n: number): string[] => ids.filter((_, at) => at % 16 === n)
  await Promise.all(Array.from({ length: 16 }, (_, n) => write(share(n))))
  writing = false
  await Promise.all([placing, reading])
  while ((await sequenceEvents(database, 1000))?.length !== 0);
  await read()
  expect(seen.length).toBe(ids.length * EACH)
  for (const id of ids) {
    const seqs = seen.filter(({ todoId }) => todoId === id).map(({ seq }) => seq)
    expect(seqs).toEqual(Array.from({ length: EACH }, (_, n) => n + 2))
  }
  expect(new Set(seen.map(({ position }) => position)).size).toBe(seen.length)
  expect(seen.every(({ position }) => position % 2 === 0)).toBe(true)
})
