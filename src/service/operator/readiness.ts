/**
 * Whether this node can do its work: database, migrations, listener, workers. The reasons contain no
 * secrets.
 */
import { statement } from '../../store/postgres/database.ts'
import { pendingMigrations } from '../../store/postgres/migrate.ts'
import { DISK_FULL, READ_ONLY, troubleOf } from '../../store/postgres/pg-errors.ts'
import type { Parts } from '../parts.ts'

interface ReadinessParts extends Pick<Parts, 'database' | 'wakes'> {
  databaseUrl: string
  stopping: AbortSignal
  /** It is known to be away because its disk is full. */
  databaseIsFull: () => boolean
  /** How the background fares. */
  workers: () => readonly { name: string; required: boolean; failing: boolean }[]
}

/** A standby answers, too, and so does a server that was told to write nothing. */
const ask = statement<{ readOnly: boolean }>(
  'ready',
  `select current_setting('transaction_read_only') = 'on' as "readOnly"`,
)

export const createReadiness = (parts: ReadinessParts) => {
  const { database, wakes, databaseUrl, stopping, databaseIsFull, workers } = parts
  let migrated = false

  return async (): Promise<{ ok: boolean; reasons: string[] }> => {
    const reasons: string[] = []
    if (stopping.aborted) reasons.push('shutting down')
    if (!wakes.connected()) reasons.push('the listening connection is lost')
    for (const { name, required, failing } of workers()) {
      if (required && failing) reasons.push(`the worker ${name} keeps failing`)
    }
    try {
      const [answer] = await database.run(ask, {})
      if (answer?.readOnly) reasons.push(READ_ONLY)
      // Migrations only go forward, so once they are current for this code they stay so.
      migrated ||= (await pendingMigrations(databaseUrl)).length === 0
      if (!migrated) reasons.push('migrations are missing')
      const trouble = database.trouble()
      if (trouble !== null && !reasons.includes(trouble)) reasons.push(trouble)
    } catch (error) {
      // The pool tells the two apart: a database that is away keeps no connection busy.
      const { total, idle, size } = database.counts()
      const cause = error instanceof Error ? error.cause : undefined
      const reason = databaseIsFull() ? DISK_FULL : troubleOf(cause)?.reason
      reasons.push(
        total - idle >= size
          ? 'every database connection is in use'
          : (reason ?? 'the database cannot be reached'),
      )
    }
    return { ok: reasons.length === 0, reasons }
  }
}
