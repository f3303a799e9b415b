/**
 * `dev`: everything at once, for a first look and for development: a database of its own, the
 * server, a demo queue with an example agent, and a banner that says what to do next.
 */
import { randomBytes } from 'node:crypto'
import type { Command } from 'commander'
import { readConfig } from '../../../config.ts'
import { readDevFile } from '../../client.ts'
import { devFileIn, setUpDemo } from '../../demo.ts'
import { startDemoAgent } from '../../demo-agent.ts'
import { print } from '../../output.ts'
import { type DrainOption, drainOption } from '../../program.ts'
import { runUntilSignal } from '../../run-until-signal.ts'

export const addDev = (program: Command): void => {
  drainOption(program.command('dev'))
    .description('run everything: database, server, demo queue, example agent')
    .action(async (drain: DrainOption) => {
      const config = withAdminToken(readConfig(process.env))
      const parts = await import('../../startup.ts')
      const { banner } = await import('../../banner.ts')
      await runUntilSignal(async (life) => {
        await parts.holdDataDir(life, config)
        const opened = await parts.openDatabase(life, config)
        const { server, url } = await parts.startServer(life, config, opened, drain)
        const dev = await setUpDemo(url, config.adminToken, config.dataDir)
        await life.step(
          () => startDemoAgent(dev.url, dev.agentToken),
          (agent) => agent.stop(),
        )
        const code = await server.issueBoardCode()
        print(banner(dev, `${url}/board/login?code=${code}`, config.dataDir))
      })
    })
}

/** Adds the admin token of the last run where none is set, so that open boards stay logged in. */
const withAdminToken = <Given extends { adminToken: string | null; dataDir: string }>(
  config: Given,
): Given & { adminToken: string } => ({
  ...config,
  adminToken:
    config.adminToken ??
    readDevFile(devFileIn(config.dataDir))?.adminToken ??
    randomBytes(24).toString('base64url'),
})
