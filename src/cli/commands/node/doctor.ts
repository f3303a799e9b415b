/**
 * `doctor`: looks at an installation and says what is wrong with it, and what to do. With DATABASE_URL it
 * looks at the database itself, and needs no node for it; without, it has a running node look. Where the
 * address of a node is known, it also asks whether that one is ready.
 */
import type { Command } from 'commander'
import { serverAddress } from '../../../agent-kit/connection/address.ts'
import { readConfig } from '../../../config.ts'
import type { Diagnosis, Finding } from '../../../store/doctor/doctor.ts'
import { type ClientOptions, createClient } from '../../client.ts'
import { CliError, EXIT } from '../../exit.ts'
import { plain, print, printJson, style } from '../../output.ts'
import { clientCommand } from '../../program.ts'

type Options = ClientOptions & { json?: boolean }

export const addDoctor = (program: Command): void => {
  clientCommand(
    program,
    'doctor',
    'say what is wrong with an installation, and what to do: that of DATABASE_URL, else of a node',
  ).action(async ({ json = false, ...options }: Options) => {
    const url = options.url || process.env.SWITCHBOARD_URL
    const { checks } = await examine(options)
    if (url) checks.push(await askNode(url))
    const ok = checks.every(({ status }) => status !== 'wrong')
    if (json) printJson({ ok, checks })
    else checks.forEach(printFinding)
    process.exitCode = ok ? EXIT.ok : EXIT.failed
  })
}

const examine = async (options: ClientOptions): Promise<Diagnosis> => {
  const { databaseUrl, directUrl } = readConfig(process.env)
  if (databaseUrl === null) {
    return createClient(options, process.env).call<Diagnosis>('doctor.run')
  }
  const { reachConfigured } = await import('../../probe.ts')
  await reachConfigured(databaseUrl)
  if (directUrl !== null) await reachConfigured(directUrl, 'DATABASE_DIRECT_URL')
  const { diagnose } = await import('../../../store/doctor/doctor.ts')
  return diagnose({ databaseUrl: directUrl ?? databaseUrl })
}

/** How long a node may take to say whether it is ready, in ms. */
const READY_MS = 10_000

const askNode = async (url: string): Promise<Finding> => {
  const address = serverAddress(url)
  if (address === null) throw new CliError(EXIT.usage, `Not an http or https address: ${url}`)
  const check = 'node'
  try {
    const answer = await fetch(`${address}/readyz`, { signal: AbortSignal.timeout(READY_MS) })
    const { status, reasons } = (await answer.json()) as { status: string; reasons: string[] }
    if (status === 'ready') return { check, status: 'ok', found: `${address} is ready`, advice: [] }
    const advice = ['its log says more']
    return { check, status: 'wrong', found: `${address} is not: ${reasons.join('; ')}`, advice }
  } catch {
    const advice = ['start it, or give the address of one that runs (--url, SWITCHBOARD_URL)']
    return { check, status: 'wrong', found: `${address} does not answer as a node does`, advice }
  }
}

const MARKS = { ok: 'ok', wrong: 'WRONG', unknown: '?' } as const
const STYLES = { ok: 'green', wrong: 'red', unknown: 'yellow' } as const

const printFinding = ({ check, status, found, advice }: Finding): void => {
  print(`${style(STYLES[status], MARKS[status].padEnd(5))}  ${check.padEnd(9)}  ${plain(found)}`)
  for (const line of advice) print(`       ${style('dim', plain(line))}`)
}
