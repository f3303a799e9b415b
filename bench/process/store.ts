/**
 * Work on the database from Node without HTTP, in a process of its own: through the store, and by
 * bare `pg` with the store's own statements, captured. The two differ in the store's code alone.
 */
import { randomUUID } from 'node:crypto'
import pg from 'pg'
import { createLog } from '../../src/base/log.ts'
import { EVERYTHING } from '../../src/domain/endpoint.ts'
import { createBatcher } from '../../src/service/batcher.ts'
import { addTodo, addTodos, type NewTodo } from '../../src/store/move/add.ts'
import type { BatchItem } from '../../src/store/move/change.ts'
import { readClaimed } from '../../src/store/move/claim.ts'
import { type Moved, transitionMany, transitionOne } from '../../src/store/move/move.ts'
import { type Database, openDatabase, PLANNER } from '../../src/store/postgres/database.ts'
import { postgresBus } from '../../src/store/wake/listen-notify.ts'
import { createWakes } from '../../src/store/wake/wake.ts'
import { answerParent } from '../child.ts'
import { rate, repeat } from '../repeat.ts'
import {
  type Captured,
  captureAdd,
  captureClaim,
  captureComplete,
  claimChange,
  completeChange,
  newTodo,
  QUEUE,
  valuesWith,
} from '../statements.ts'

const POOL = 16

type Held = { id: string; fence: string }

/** The three steps of a todo's life, either way. */
interface Steps {
  add(): Promise<unknown>
  claim(limit: number): Promise<Held[]>
  complete(held: Held): Promise<unknown>
  close(): Promise<void>
}

const throughStore = (url: string, endpoint: string): Steps => {
  const database: Database = openDatabase({ connectionString: url, poolSize: POOL })
  // As the services do it: what arrives while statements are under way shares the next one.
  const add = createBatcher<NewTodo, unknown>({
    runOne: (todo) => addTodo(database, todo),
    runBatch: (todos) => addTodos(database, todos),
  })
  const complete = createBatcher<BatchItem, Moved>({
    runOne: ({ id, change }) => transitionOne(database, 'complete', id, change, EVERYTHING),
    runBatch: (all) => transitionMany(database, 'complete', all),
  })
  const claimed = async (limit: number): Promise<Held[]> =>
    (await readClaimed(database, [QUEUE], limit, claimChange(endpoint))).claimed.map(
      ({ view }) => view.todo,
    )
  const claim = createBatcher<number, Held[]>({
    runOne: claimed,
    runBatch: async (limits) => {
      const all = await claimed(limits.reduce((sum, limit) => sum + limit, 0))
      return limits.map((limit) => all.splice(0, limit))
    },
  })
  return {
    add: () => add(newTodo()),
    claim,
    complete: ({ id, fence }) => complete({ id, change: completeChange(endpoint, fence) }),
    close: database.close,
  }
}

const byPg = async (url: string, endpoint: string): Promise<Steps> => {
  const pool = new pg.Pool({
    connectionString: url,
    max: POOL,
    options: PLANNER,
  })
  const add = await captureAdd()
  const claims = new Map<number, Captured>()
  const complete = await captureComplete(endpoint)
  const query = ({ name, text }: Captured, values: unknown[]) =>
    pool.query<Held>({ name, text, values })
  return {
    add: () => query(add, valuesWith(add, { id: randomUUID() })),
    claim: async (limit) => {
      const claim = claims.get(limit) ?? (await captureClaim(endpoint, limit))
      claims.set(limit, claim)
      return (await query(claim, [...claim.values])).rows
    },
    complete: ({ id, fence }) => query(complete, valuesWith(complete, { id, fence })),
    close: () => pool.end(),
  }
}

interface Way {
  way: 'store' | 'pg'
  url: string
  endpoint: string
}

const using = async <T>({ way, url, endpoint }: Way, use: (steps: Steps) => Promise<T>) => {
  const steps = way === 'store' ? throughStore(url, endpoint) : await byPg(url, endpoint)
  try {
    return await use(steps)
  } finally {
    await steps.close()
  }
}

const add = (params: Way & { clients: number; seconds: number }) =>
  using(params, (steps) => repeat(params.clients, params.seconds, steps.add))

/** A todo made, claimed and completed, one step after the other. */
const life = (params: Way & { clients: number; seconds: number }) =>
  using(params, (steps) =>
    repeat(params.clients, params.seconds, async () => {
      await steps.add()
      await Promise.all((await steps.claim(1)).map(steps.complete))
    }),
  )

/** Claims and completes until nothing is left; a batch is completed as a busy agent does it. */
const drain = (params: Way & { workers: number; batch: number }) =>
  using(params, async (steps) => {
    let count = 0
    const started = performance.now()
    const work = async (): Promise<void> => {
      for (;;) {
        const claimed = await steps.claim(params.batch)
        if (claimed.length === 0) return
        await Promise.all(claimed.map(steps.complete))
        count += claimed.length
      }
    }
    await Promise.all(Array.from({ length: params.workers }, work))
    return { perSecond: rate(count, started) }
  })

/** Claims `count` todos and leaves them claimed, or as many as there are. */
const take = (params: Way & { workers: number; batch: number; count: number }) =>
  using(params, async (steps) => {
    let count = 0
    let asked = 0
    const started = performance.now()
    const work = async (): Promise<void> => {
      while (asked < params.count) {
        asked += params.batch
        count += (await steps.claim(params.batch)).length
      }
    }
    await Promise.all(Array.from({ length: params.workers }, work))
    return { perSecond: rate(count, started) }
  })

/** Adds todos at a steady pace, as another node does it; when each was known to be committed. */
const write = async (params: { url: string; perSecond: number; seconds: number }) => {
  const database = openDatabase({ connectionString: params.url, poolSize: 4 })
  const bus = postgresBus({ connectionString: params.url })
  const wakes = createWakes({ bus, log: createLog('silent') })
  // A node would place its own events; this is none, and leaves it to the server.
  database.onWake((moved) => wakes.wake(moved.map(({ topic, count }) => ({ topic, count }))))
  await wakes.start()
  const commits: { id: string; at: bigint }[] = []
  const started = performance.now()
  for (let made = 0; made < params.perSecond * params.seconds; made += 1) {
    const due = started + (1000 * made) / params.perSecond
    await new Promise((resolve) => setTimeout(resolve, due - performance.now()))
    const todo = newTodo()
    await addTodo(database, todo)
    commits.push({ id: todo.id, at: process.hrtime.bigint() })
  }
  await wakes.stop()
  await database.close()
  return commits
}

answerParent({ add, life, drain, take, write })
