/** Databases as they were before one of the migrations. */
import { randomUUID } from 'node:crypto'
import knexFactory, { type Knex } from 'knex'
import { inject } from 'vitest'
import { knexConfig } from '../../../src/store/postgres/migrate.ts'
import { type Database, urlOf, withClient } from './database.ts'

interface Pending {
  name: string
}

const create = async (apply: (knex: Knex) => Promise<void>): Promise<Database> => {
  const { url, run } = inject('postgres')
  const name = `${run}_before_${randomUUID().slice(0, 8)}`
  await withClient(url, (client) => client.query(`create database ${name}`))
  const databaseUrl = urlOf(url, name)
  const knex = knexFactory(knexConfig(databaseUrl))
  try {
    await apply(knex)
  } finally {
    await knex.destroy()
  }
  return {
    url: databaseUrl,
    drop: async () => {
      await withClient(url, (client) => client.query(`drop database ${name} with (force)`))
    },
  }
}

const pending = async (knex: Knex): Promise<Pending[]> => (await knex.migrate.list())[1]

/** With all migrations before `last`, and nothing in it. Its caller drops it. */
export const databaseBefore = async (last: string): Promise<Database> =>
  create(async (knex) => {
    while ((await pending(knex))[0]!.name !== last) await knex.migrate.up()
  })

/**
 * With all migrations but one, so that today's statements run on what stands for nodes of before it.
 * Its caller drops it.
 */
export const databaseWithout = async (migration: string): Promise<Database> =>
  create(async (knex) => {
    for (const { name } of await pending(knex)) {
      if (name !== migration) await knex.migrate.up({ name })
    }
  })

/** Applies this one, and none of those that are missing beside it. */
export const migrateBy = async (databaseUrl: string, name: string): Promise<void> => {
  const knex = knexFactory(knexConfig(databaseUrl))
  try {
    await knex.migrate.up({ name })
  } finally {
    await knex.destroy()
  }
}
