/**
 * `npm run bench -- [<case> …] [--quick] [--rounds n] [--profile] [--against <checkout>]`: runs the
 * cases, prints each as markdown and writes all of it to bench/results. `--quick` is for trying the
 * benchmark out, not for numbers; `--profile` leaves a CPU profile of each server; `--against`
 * measures another checkout's server beside this one, in turns (cases send, settle, claim and board).
 */
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { parseArgs } from 'node:util'
import { a2aJs } from './cases/a2a-js.ts'
import { board } from './cases/board.ts'
import { claim } from './cases/claim.ts'
import { dead } from './cases/dead.ts'
import { fanout } from './cases/fanout.ts'
import { history } from './cases/history.ts'
import { latency } from './cases/latency.ts'
import { memory } from './cases/memory.ts'
import { nodes } from './cases/nodes.ts'
import { partitions } from './cases/partitions.ts'
import { plans } from './cases/plans.ts'
import { queues } from './cases/queues.ts'
import { send } from './cases/send.ts'
import { settle } from './cases/settle.ts'
import { size } from './cases/size.ts'
import { start } from './cases/start.ts'
import { type Lab, openLab, RESULTS } from './lab.ts'
import { type Postgres, startPostgres } from './postgres.ts'
import { type Outcome, report, runCase } from './runner.ts'

const CASES = [
  send,
  claim,
  settle,
  board,
  queues,
  latency,
  a2aJs,
  history,
  dead,
  memory,
  start,
  fanout,
  nodes,
  size,
  partitions,
  plans,
]
const PACE = { rounds: 3, seconds: 2.5, warmSeconds: 1 }
const QUICK = { rounds: 3, seconds: 0.2, warmSeconds: 0 }

const say = (line: string): void => void process.stdout.write(`${line}\n`)

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    quick: { type: 'boolean', default: false },
    profile: { type: 'boolean', default: false },
    against: { type: 'string' },
    rounds: { type: 'string' },
  },
})
const chosen = CASES.filter(({ name }) => positionals.length === 0 || positionals.includes(name))
const unknown = positionals.filter((name) => !CASES.some((known) => known.name === name))
if (unknown.length > 0) {
  process.stderr.write(`no such case: ${unknown}; there are ${CASES.map(({ name }) => name)}\n`)
  process.exit(2)
}
const pace = { ...(values.quick ? QUICK : PACE) }
// Fewer than three rounds have no median worth the name.
if (values.rounds) pace.rounds = Math.max(3, Number(values.rounds) || 0)

let postgres: Postgres | null = null
let lab: Lab | null = null
const close = async (): Promise<void> => {
  await lab?.close()
  await postgres?.stop()
}
let interrupted = false
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.on(signal, () => {
    if (interrupted) return
    interrupted = true
    // A run under way fails as its processes end; what it had set up goes with the lab.
    void close().finally(() => process.exit(130))
  })
}

const outcomes: Outcome[] = []
try {
  fs.mkdirSync(RESULTS, { recursive: true })
  postgres = await startPostgres()
  for (const one of chosen) {
    say(`\n# ${one.title}`)
    lab = openLab({
      serverUrl: postgres.url,
      profile: values.profile,
      against: values.against ? path.resolve(values.against) : null,
    })
    const outcome = await runCase(one, lab, pace, say)
    outcomes.push(outcome)
    say(`\n${report(outcome)}`)
    await lab.close()
  }
  const at = new Date().toISOString()
  const machine = { cpus: os.cpus().length, model: os.cpus()[0]?.model, node: process.version }
  const file = path.join(RESULTS, `${at.replaceAll(':', '-')}.json`)
  fs.writeFileSync(file, JSON.stringify({ at, machine, pace, outcomes }, null, 2))
  say(`\nwritten to ${path.relative(process.cwd(), file)}`)
} catch (error) {
  if (!interrupted) throw error
} finally {
  if (!interrupted) await close()
}
