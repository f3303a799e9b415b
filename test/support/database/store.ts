/** A store on a database of its own: for tests below the services. */
import { randomUUID } from 'node:crypto'
import { afterAll } from 'vitest'
import { DEFAULT_POLICY } from '../../../src/domain/policy.ts'
import { putQueue } from '../../../src/store/admin/queues.ts'
import { addTodo } from '../../../src/store/move/add.ts'
import { type Database, openDatabase } from '../../../src/store/postgres/database.ts'
import { cloneDatabase } from './database.ts'

export interface Store {
  database: Database
  url: string
  /** Adds a pending todo to queue `q`. */
  add(more?: { queue?: string; priority?: number; maxAttempts?: number }): Promise<string>
  queue(name: string): Promise<void>
}

export const openStore = async (poolSize = 4): Promise<Store> => {
  const clone = await cloneDatabase()
  const database = openDatabase({ connectionString: clone.url, poolSize })
  afterAll(async () => {
    await database.close()
    await clone.drop()
  })
  const queue = async (name: string): Promise<void> => {
    const card = { name, description: '', version: '1', skills: [] }
    await putQueue(database, { name, card, policy: DEFAULT_POLICY })
  }
  await queue('q')
  return {
    database,
    url: clone.url,
    queue,
    add: async ({ queue: name = 'q', priority = 1, maxAttempts = 5 } = {}) => {
      const id = randomUUID()
      const todo = await addTodo(database, {
        id,
        queue: name,
        contextId: 'c',
        clientId: null,
        priority,
        maxAttempts,
        message: { messageId: randomUUID(), role: 'ROLE_USER', parts: [{ text: 'x' }] },
        detail: {},
      })
      if (!todo) throw new Error(`there is no queue ${name}`)
      return id
    },
  }
}
