/** A database as it was before one of the migrations. */
import { randomUUID } from 'node:crypto'
import knexFactory from 'knex'
import { inject } from 'vitest'
import { knexConfig } from '../../../src/store/postgres/migrate.ts'
import { type Database, urlOf, withClient } from './database.ts'

/** With all migrations before `last`, and nothing in it. Its caller drops it. */
export const databaseBefore = async (last: string): Promise<Database> => {
  const { url, run } = inject('postgres')
  const name = `${run}_before_${randomUUID().slice(0, 8)}`
  await withClient(url, (client) => client.query(`create database ${name}`))
  const databaseUrl = urlOf(url, name)
  const knex = knexFactory(knexConfig(databaseUrl))
  const next = async (): Promise<string> => {
    const [, pending] = (await knex.migrate.list()) as [unknown, { name: string }[]]
    return pending[0]!.name
  }
  while ((await next()) !== last) await knex.migrate.up()
  await knex.destroy()
  return {
    url: databaseUrl,
    drop: async () => {
      await withClient(url, (client) => client.query(`drop database ${name} with (force)`))
    },
  }
}

/** Applies what is missing but this one, however much of it comes later. */
export const migrateAllBut = async (databaseUrl: string, last: string): Promise<void> => {
  const knex = knexFactory(knexConfig(databaseUrl))
  const [, pending] = (await knex.migrate.list()) as [unknown, { name: string }[]]
  for (const { name } of pending) {
    if (name !== last) await knex.migrate.up({ name })
  }
  await knex.destroy()
}
