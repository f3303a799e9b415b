/**
 * The one PostgreSQL of a run: that of DATABASE_URL (a role with CREATEDB), else an embedded one in
 * a temp folder, durable as in production: fsync, full_page_writes and synchronous_commit are on.
 */
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { startEmbedded } from '../src/embedded.ts'

export interface Postgres {
  url: string
  /** Stops it where it is ours, and removes its folder. */
  stop(): Promise<void>
}

/** A checkpoint in the middle of a run would be noise. */
const SETTINGS = ['shared_buffers=512MB', 'max_wal_size=4GB', 'checkpoint_timeout=15min']

export const startPostgres = async (): Promise<Postgres> => {
  const given = process.env.DATABASE_URL
  if (given) return { url: given, stop: async () => {} }
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'switchboard-bench-'))
  const remove = (): void => fs.rmSync(folder, { recursive: true, force: true, maxRetries: 5 })
  // Run by root, PostgreSQL is another user, who must get there.
  fs.chmodSync(folder, 0o711)
  try {
    const { url, stop } = await startEmbedded(path.join(folder, 'data'), { settings: SETTINGS })
    return { url, stop: () => stop().finally(remove) }
  } catch (error) {
    remove()
    throw error
  }
}
