/** `migrate`: brings the database's schema up to date. */
import type { Command } from 'commander'
import { readConfig } from '../../../config.ts'
import { print, printJson } from '../../output.ts'

export const addMigrate = (program: Command): void => {
  program
    .command('migrate')
    .description('bring the schema of DATABASE_URL up to date')
    .option('--json', 'print JSON and nothing else on stdout')
    .action(async ({ json }: { json?: boolean }) => {
      await withDatabase(async (databaseUrl, reached) => {
        const { migrate } = await import('../../../store/postgres/migrate.ts')
        const migrated = await migrate(databaseUrl, reached)
        if (json === true) return printJson(migrated)
        for (const name of migrated.applied) print(`applied ${name}`)
        if (migrated.applied.length === 0) print('nothing to do')
      })
    })
}

/** Without DATABASE_URL, `use` gets the data directory's own database. */
const withDatabase = async (
  use: (databaseUrl: string, reached?: { pooled: boolean }) => Promise<void>,
): Promise<void> => {
  const { databaseUrl, directUrl, dataDir } = readConfig(process.env)
  if (databaseUrl !== null) {
    const { reachConfigured } = await import('../../probe.ts')
    if (directUrl === null) return use(databaseUrl, await reachConfigured(databaseUrl))
    return use(directUrl, await reachConfigured(directUrl, 'DATABASE_DIRECT_URL'))
  }
  const { startEmbedded } = await import('../../../embedded.ts')
  const embedded = await startEmbedded(dataDir)
  try {
    await use(embedded.url)
  } finally {
    await embedded.stop()
  }
}
