// What a subscriber of the feed costs its node in memory.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { expect, test } from 'vitest'
import { ADMIN_TOKEN, startApp, testConfig } from '../support/app.ts'
import { childArgs } from '../support/process/child-args.ts'

// One token opens more streams here than one may elsewhere.
const config = testConfig({ maxStreamsPerEndpoint: 10_000, maxCallsPerEndpoint: 10_000 })
const app = await startApp({ pollMs: 60_000, config })
await app.queue('desk', { contexts: 'parallel' })

test('an idle subscriber takes at most 20 KB of its node', async () => {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as () => void
  const memory = async () => {
    for (let i = 0; i < 6; i += 1) {
      collect()
      await new Promise(setImmediate)
    }
    const { heapUsed, external } = process.memoryUsage()
    return heapUsed + external
  }
  // In a process of its own, so that what is measured is the node's side.
  const child = spawn(
    process.execPath,
    [
      ...childArgs('test/board/subscribers-child.ts'),
      `${app.url}/board/events?queue=desk`,
      ADMIN_TOKEN,
    ],
    { stdio: ['pipe', 'pipe', 'inherit'] },
  )
  const opened = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  const open = async (count: number) => {
    child.stdin.write(`${count}\n`)
    expect((await opened.next()).value).toBe(String(count))
  }
  // So many that what else the node keeps meanwhile does not show.
  const COUNT = 3000
  await open(100)
  const before = await memory()
  await open(COUNT)
  const each = ((await memory()) - before) / COUNT
  process.stdout.write(`an idle subscriber takes ${Math.round(each)} bytes\n`)
  expect(each).toBeLessThan(20 * 1024)
  const exit = once(child, 'exit')
  child.stdin.end()
  await exit
})
