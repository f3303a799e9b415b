/**
 * One PostgreSQL for a whole test run: that of DATABASE_URL (a role with CREATEDB), else an embedded
 * one in a temp directory. The migrations run once, into a template that every test file clones.
 */
import { randomUUID } from 'node:crypto'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import type { TestProject } from 'vitest/node'
import { tryLock } from '../../../src/embedded/lock.ts'
import { startEmbedded } from '../../../src/embedded.ts'
import { migrate } from '../../../src/store/postgres/migrate.ts'
import { urlOf, withClient } from './database.ts'

/** Nothing that a test writes has to survive the machine. */
const SETTINGS = ['fsync=off', 'synchronous_commit=off', 'full_page_writes=off']

const FOLDER = path.join(os.tmpdir(), 'switchboard-test-')

interface Server {
  url: string
  stop(): Promise<void>
}

const startServer = async (): Promise<Server> => {
  const given = process.env.DATABASE_URL
  if (given) return { url: given, stop: async () => {} }
  await removeLeftovers()
  const folder = fs.mkdtempSync(FOLDER)
  // As root, PostgreSQL runs as another user, who must get there.
  fs.chmodSync(folder, 0o711)
  const remove = () => fs.rmSync(folder, { recursive: true, force: true })
  try {
    const { url, stop } = await startEmbedded(path.join(folder, 'data'), { settings: SETTINGS })
    return { url, stop: () => stop().finally(remove) }
  } catch (error) {
    remove()
    throw error
  }
}

/**
 * A run that was interrupted has torn nothing down. Starting what it left and stopping it properly
 * ends all of it; what cannot be started is not worth a failed run.
 */
const removeLeftovers = async (): Promise<void> => {
  for (const name of fs.readdirSync(os.tmpdir())) {
    const folder = path.join(os.tmpdir(), name)
    const data = path.join(folder, 'data')
    if (!folder.startsWith(FOLDER) || !isAbandoned(path.join(data, 'postgres.lock'))) continue
    const left = await startEmbedded(data, { settings: SETTINGS }).catch(() => null)
    await left?.stop()
    if (left?.owned) fs.rmSync(folder, { recursive: true, force: true })
  }
}

/** Its holder is gone without having given it back. */
const isAbandoned = (file: string): boolean => {
  try {
    fs.accessSync(file, fs.constants.W_OK)
    const lock = tryLock(file)
    if (lock.acquired) lock.release()
    return lock.acquired
  } catch {
    return false
  }
}

const makeTemplate = async (url: string, template: string): Promise<void> => {
  await withClient(url, (client) => client.query(`create database ${template}`))
  await migrate(urlOf(url, template))
  await withClient(url, async (client) => {
    // Nobody may be connected to a database while it is cloned.
    await client.query(`alter database ${template} allow_connections false`)
    await client.query(
      'select pg_terminate_backend(pid) from pg_stat_activity where datname = $1',
      [template],
    )
  })
}

/** The template, and whatever a test file has not dropped itself. */
const dropAll = (url: string, run: string): Promise<void> =>
  withClient(url, async (client) => {
    const { rows } = await client.query<{ datname: string }>(
      'select datname from pg_database where starts_with(datname, $1)',
      [run],
    )
    for (const { datname } of rows) {
      await client.query(`drop database if exists ${datname} with (force)`)
    }
  })

export default async (project: TestProject): Promise<() => Promise<void>> => {
  const { url, stop } = await startServer()
  const run = `switchboard_test_${randomUUID().slice(0, 8)}`
  const teardown = () => dropAll(url, run).finally(stop)
  try {
    await makeTemplate(url, `${run}_template`)
  } catch (error) {
    await teardown()
    throw error
  }
  project.provide('postgres', { url, run })
  return teardown
}
