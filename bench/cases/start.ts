/**
 * The cold start of `serve` on a migrated database: until it is ready, and until its first send is
 * answered. Beside it Node alone, started to do nothing: what no server in Node can be faster than.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import type { Lab } from '../lab.ts'
import type { Started } from '../process/server.ts'
import type { Case, Sample, Setup } from '../runner.ts'

const STARTS_A_SECOND = 2

/** The mean of a few starts. */
const meanOf = async (seconds: number, start: () => Promise<Sample>): Promise<Sample> => {
  const all: Sample[] = []
  const count = Math.max(1, Math.round(seconds * STARTS_A_SECOND))
  while (all.length < count) all.push(await start())
  const mean = (metric: string): number =>
    all.reduce((sum, sample) => sum + sample[metric]!, 0) / count
  return Object.fromEntries(Object.keys(all[0]!).map((metric) => [metric, mean(metric)]))
}

const open = async (lab: Lab): Promise<Setup> => {
  const databaseUrl = await lab.database()
  const server = await lab.start('server')
  const { clientToken, agentUrl, adminToken } = await server.call<Started>('start', { databaseUrl })
  await server.end()
  const load = await lab.start('load')
  const send = { token: clientToken, connections: 1, seconds: 0, count: 1, blocking: false }

  const serve = async (): Promise<Sample> => {
    const before = performance.now()
    const { url, end } = await lab.serve(databaseUrl, adminToken)
    const readyMs = performance.now() - before
    const agent = new URL(new URL(agentUrl).pathname, url).href
    await load.call('send', { ...send, url: agent })
    const answeredMs = performance.now() - before
    await end()
    return { readyMs, answeredMs }
  }
  const node = async (): Promise<Sample> => {
    const before = performance.now()
    await once(spawn(process.execPath, ['--eval', '0'], { stdio: 'ignore' }), 'exit')
    return { readyMs: performance.now() - before }
  }
  return {
    variants: [
      { name: 'serve', run: (seconds) => meanOf(seconds, serve) },
      { name: 'node alone', run: (seconds) => meanOf(seconds, node) },
    ],
    ratios: [{ of: 'serve', to: 'node alone', metric: 'readyMs' }],
  }
}

export const start: Case = { name: 'start', title: 'start: cold start of serve', open }
