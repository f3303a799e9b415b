/**
 * Whether this node can do its work: database, migrations, listener, workers. The reasons contain no
 * secrets.
 */
import { statement } from '../../store/postgres/database.ts'
import { pendingMigrations } from '../../store/postgres/migrate.ts'
import type { Parts } from '../parts.ts'

interface ReadinessParts extends Pick<Parts, 'database' | 'wakes'> {
  databaseUrl: string
  stopping: AbortSignal
  /** How the background fares. */
  workers: () => readonly { name: string; required: boolean; failing: boolean }[]
}

const ask = statement<{ one: number }>('ready', 'select 1 as one')

export const createReadiness = (parts: ReadinessParts) => {
  const { database, wakes, databaseUrl, stopping, workers } = parts
  let migrated = false

  return async (): Promise<{ ok: boolean; reasons: string[] }> => {
    const reasons: string[] = []
    if (stopping.aborted) reasons.push('shutting down')
    if (!wakes.connected()) reasons.push('the listening connection is lost')
    for (const { name, required, failing } of workers()) {
      if (required && failing) reasons.push(`the worker ${name} keeps failing`)
    }
    try {
      await database.run(ask, {})
      // Migrations only go forward, so once they are current for this code they stay so.
      migrated ||= (await pendingMigrations(databaseUrl)).length === 0
      if (!migrated) reasons.push('migrations are missing')
    } catch {
      // The pool tells the two apart: a database that is away keeps no connection busy.
      const { total, idle, size } = database.counts()
      reasons.push(
        total - idle >= size
          ? 'every database connection is in use'
          : 'the database cannot be reached',
      )
    }
    return { ok: reasons.length === 0, reasons }
  }
}
