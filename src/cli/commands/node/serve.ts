/** `serve`: the server alone, as it runs in production; any number of them on one database. */
import type { Command } from 'commander'
import { readConfig } from '../../../config.ts'
import { note } from '../../output.ts'
import { type DrainOption, drainOption, type LingerOption, lingerOption } from '../../program.ts'
import { runUntilSignal } from '../../run-until-signal.ts'

export const addServe = (program: Command): void => {
  lingerOption(drainOption(program.command('serve')))
    .description('run the server, configured by the environment')
    .option('--no-migrate', 'do not bring the schema up to date first')
    .action(async ({ migrate, ...stopping }: DrainOption & LingerOption & { migrate: boolean }) => {
      const config = readConfig(process.env)
      // Only the commands that serve load the server: the others start faster without it.
      const parts = await import('../../startup.ts')
      await runUntilSignal(async (life) => {
        const opened = await parts.openDatabase(life, config, { migrates: migrate })
        const { url } = await parts.startServer(life, config, opened, stopping)
        note(`switchboard: listening on ${url}`)
      })
    })
}
