/**
 * `npm run chaos -- [--seconds n] [--seed n] [--verbose]`: hurts a whole installation of its own for
 * so long, then says what did not hold. Ends with 1 where anything did not.
 */
import { parseArgs } from 'node:util'
import { runChaos, unwind } from './run.ts'

const say = (line: string): void => void process.stdout.write(`${line}\n`)

const { values } = parseArgs({
  options: {
    seconds: { type: 'string', default: '60' },
    seed: { type: 'string', default: String(Date.now() % 1_000_000) },
    verbose: { type: 'boolean', default: false },
  },
})
const seed = Number(values.seed)
const seconds = Number(values.seconds)
if (!Number.isSafeInteger(seed) || !(seconds >= 5 && seconds <= 3600)) {
  process.stderr.write('--seed is a whole number, --seconds one from 5 to 3600\n')
  process.exit(2)
}

const undo: (() => Promise<unknown>)[] = []
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, () => void unwind(undo).finally(() => process.exit(130)))
}

say(`seed ${seed}, ${seconds} s of faults`)
const { violations, summary } = await runChaos({
  seed,
  seconds,
  undo,
  ...(values.verbose && {
    say: (line) => say(`${(performance.now() / 1000).toFixed(1).padStart(6)} s  ${line}`),
  }),
})
for (const [what, count] of Object.entries(summary)) say(`${String(count).padStart(8)}  ${what}`)
const SHOWN = 30
for (const { what, detail } of violations.slice(0, SHOWN)) say(`VIOLATION ${what}: ${detail}`)
if (violations.length > SHOWN) say(`… and ${violations.length - SHOWN} more`)
say(violations.length === 0 ? 'everything held' : `${violations.length} did not hold; seed ${seed}`)
process.exit(violations.length === 0 ? 0 : 1)
