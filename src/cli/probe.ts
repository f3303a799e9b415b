/** Makes sure that the configured database answers, or ends the command saying what is wrong. */
import { DatabaseUnreachable, probe } from '../store/postgres/probe.ts'
import { CliError, EXIT } from './exit.ts'

/** Finds out whether there is a pooler. Throws CliError (wrong configuration; unreachable). */
export const reachConfigured = async (
  databaseUrl: string,
  variable = 'DATABASE_URL',
): Promise<{ pooled: boolean }> => {
  try {
    return await probe(databaseUrl)
  } catch (error) {
    if (!(error instanceof DatabaseUnreachable)) throw error
    const code = error.refused ? EXIT.usage : EXIT.unreachable
    throw new CliError(code, `${variable} cannot be used: ${error.message}`)
  }
}
