import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    globalSetup: ['test/support/postgres.ts'],
    testTimeout: 30_000,
    hookTimeout: 60_000,
    maxWorkers: 2,
    // A condition is waited for, however slow the machine is; the default gives up after a second.
    expect: { poll: { timeout: 15_000 } },
  },
})
