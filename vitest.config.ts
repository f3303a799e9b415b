/**
 * Two tiers. `npm test` runs the projects `tests` and `alone`: every behavior once, in a few minutes.
 * `npm run test:faults` runs the project `faults`: what takes long.
 */
import { defineConfig } from 'vitest/config'
import { scaled } from './test/support/timeouts.ts'

/** Kills, restarts, freezes and cut lines; and what is long for other reasons, wherever it lies. */
const FAULTS = ['test/faults/**/*.test.ts', 'test/**/*.slow.test.ts']

/** Random steps, or the same again and again: few in `npm test`, many with the faults (`runs` in tier.ts). */
const BOTH = ['test/**/*.random.test.ts']

/** Replace a module of the program, or ask something of all it has loaded: each in a process of its own. */
const ALONE = ['test/store/lease-once.test.ts', 'test/store/statements.test.ts']

/** Tests mostly wait, for the database or a time that passes, so two cores have work for four processes. */
const WAITING = 4

const project = (name: string, test: object) => ({
  extends: true as const,
  test: { name, ...test },
})

export default defineConfig({
  test: {
    globalSetup: ['test/support/database/postgres.ts'],
    setupFiles: ['test/support/setup.ts'],
    // A wait has a limit of its own, and says what it waited for; these are for what has none.
    testTimeout: scaled(120_000),
    hookTimeout: scaled(120_000),
    teardownTimeout: scaled(30_000),
    // A condition is waited for, however slow the machine is; the default gives up after a second.
    expect: { poll: { timeout: scaled(15_000) } },
    projects: [
      // The files share four processes: loading the server for each would take longer than the tests.
      project('tests', {
        include: ['test/**/*.test.ts'],
        exclude: [...FAULTS, ...ALONE],
        isolate: false,
        maxWorkers: WAITING,
      }),
      project('alone', { include: ALONE, maxWorkers: WAITING }),
      project('faults', {
        include: [...FAULTS, ...BOTH],
        env: { TEST_LONG: '1' },
        maxWorkers: 2,
        // Vitest runs projects with different numbers of processes one after the other, in this order.
        sequence: { groupOrder: 1 },
      }),
    ],
  },
})
