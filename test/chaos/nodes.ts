/**
 * The nodes: `switchboard serve` processes under a supervisor that starts each again after it was
 * killed, and again where its database was not there. A node that goes by itself is a violation.
 */
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import net from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import { type Link, openLink } from '../support/network/link.ts'
import { killed } from '../support/process/child.ts'
import { spawnServe } from '../support/process/serve-child.ts'
import { until } from '../support/until.ts'
import type { Violations } from './violations.ts'

export interface Node {
  name: string
  /** Where it listens now; null while it is down. */
  url(): string | null
  /** Its way to the database. */
  database: Link
  kill(backMs: number): void
  /** SIGTERM: it drains. */
  end(backMs: number): void
  freeze(ms: number): void
  /** Once it is up, thawed and ready. */
  ready(timeoutMs: number): Promise<void>
  /** For good. */
  close(): Promise<void>
}

export interface NodeOptions {
  name: string
  /** A new connection to the database; null while that is down. */
  dial: () => net.Socket | null
  databaseUrl: string
  skewMs: number
  violations: Violations
}

const ENV = {
  LOG_LEVEL: 'warn',
  SWITCHBOARD_WEBHOOK_ALLOW_HTTP: 'true',
  SWITCHBOARD_WEBHOOK_ALLOW_CIDRS: '127.0.0.0/8',
}
const SKEWED_CLOCK = './test/chaos/skewed-clock.ts'
const DRAIN_SECONDS = 3

/** The same database, through a link. */
const through = (databaseUrl: string, { port }: Link): string => {
  const url = new URL(databaseUrl)
  url.hostname = '127.0.0.1'
  url.port = String(port)
  return url.href
}

export const startNode = async (options: NodeOptions): Promise<Node> => {
  const { name, violations, skewMs } = options
  const database = await openLink(options.dial)
  let child: ChildProcess | null = null
  let url: string | null = null
  let closing = false
  /** Its end is of our making. */
  let asked = false
  let backMs = 0

  const life = async (): Promise<void> => {
    const serving = spawnServe({
      databaseUrl: through(options.databaseUrl, database),
      env: { ...ENV, CLOCK_SKEW_MS: String(skewMs) },
      options: ['--drain-seconds', String(DRAIN_SECONDS)],
      imports: [SKEWED_CLOCK],
    })
    child = serving.child
    const exited = once(serving.child, 'exit')
    url = await serving.listening.catch(() => null)
    const began = url !== null
    await exited
    url = null
    // One that could not start, for want of a database, is started again; anything else is a crash.
    if (began && !asked) {
      violations.add('a node went by itself', `${name}: ${serving.log.slice(-5).join('\n')}`)
    }
  }

  const supervised = (async () => {
    while (!closing) {
      asked = false
      await life()
      if (!closing) await pause(asked ? backMs : 300)
    }
  })()

  const signal = (name: NodeJS.Signals, back: number): void => {
    if (!child || asked || url === null) return
    asked = true
    backMs = back
    url = null
    child.kill(name)
    // A frozen one would not hear it.
    child.kill('SIGCONT')
  }

  return {
    name,
    url: () => url,
    database,
    kill: (back) => signal('SIGKILL', back),
    end: (back) => signal('SIGTERM', back),
    freeze: (ms) => {
      if (url === null) return
      const frozen = child
      frozen?.kill('SIGSTOP')
      setTimeout(() => frozen?.kill('SIGCONT'), ms)
    },
    ready: async (timeoutMs) => {
      await until(async () => url !== null && (await fetch(`${url}/readyz`)).status === 200, {
        timeoutMs,
        what: `${name} is ready`,
      })
    },
    close: async () => {
      closing = true
      asked = true
      if (child) await killed(child)
      await supervised
      await database.close()
    },
  }
}

/** The way in: each connection goes to the next node that is up. */
export const openFront = (nodes: readonly Node[]): Promise<Link> => {
  let turn = 0
  return openLink(() => {
    for (let n = 0; n < nodes.length; n += 1) {
      turn += 1
      const url = nodes[turn % nodes.length]!.url()
      if (url !== null) return net.connect(Number(new URL(url).port), '127.0.0.1')
    }
    return null
  })
}
