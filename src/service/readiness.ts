/** Whether this node can do its work: database, migrations, listener. Reasons hold no secrets. */
import type { Database } from '../store/database.ts'
import { statement } from '../store/database.ts'
import { pendingMigrations } from '../store/migrate.ts'
import type { Wake } from '../store/wake.ts'

export interface ReadinessParts {
  database: Database
  wake: Wake
  databaseUrl: string
  stopping: AbortSignal
}

const ask = statement<{ one: number }>('ready', 'select 1 as one')

export const createReadiness = (parts: ReadinessParts) => {
  const { database, wake, databaseUrl, stopping } = parts
  let migrated = false

  return async (): Promise<{ ok: boolean; reasons: string[] }> => {
    const reasons: string[] = []
    if (stopping.aborted) reasons.push('shutting down')
    if (!wake.connected()) reasons.push('the listening connection is lost')
    try {
      await database.run(ask, {})
      // Migrations only go forward: once current for this code, they stay so.
      migrated ||= (await pendingMigrations(databaseUrl)).length === 0
      if (!migrated) reasons.push('migrations are missing')
    } catch {
      reasons.push('the database cannot be reached')
    }
    return { ok: reasons.length === 0, reasons }
  }
}
