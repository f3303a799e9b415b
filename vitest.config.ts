import { defineConfig } from 'vitest/config'
import { scaled } from './test/support/timeouts.ts'

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    globalSetup: ['test/support/postgres.ts'],
    // A wait has a limit of its own, and says what it waited for; these are for what has none.
    testTimeout: scaled(120_000),
    hookTimeout: scaled(120_000),
    teardownTimeout: scaled(30_000),
    maxWorkers: 2,
    // A condition is waited for, however slow the machine is; the default gives up after a second.
    expect: { poll: { timeout: scaled(15_000) } },
  },
})
