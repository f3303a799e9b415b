// Answer schemas that are made to cost, on the real `serve` process with little memory.
// Field case: small schemas that cost gigabytes.
import fs from 'node:fs'
import { expect, test } from 'vitest'
import { startApp } from '../support/app.ts'
import { a2aClient, agentClient, textMessage } from '../support/clients/actors.ts'
import { serveProcessWith } from '../support/process/serve-process.ts'
import { ask } from '../support/steps.ts'
import { scaled } from '../support/timeouts.ts'
import { until } from '../support/until.ts'

const app = await startApp()

const repeated = <T>(count: number, of: (n: number) => T): T[] =>
  Array.from({ length: count }, (_, n) => of(n))
const members = (count: number, of: (n: number) => [string, unknown]) =>
  Object.fromEntries(repeated(count, of))

/** Its copied references would make 65 MB of code in 21 s; and others that are slow in other ways. */
const MULTIPLYING = {
  $defs: { big: { properties: members(200, (n) => [`p${n}`, { minLength: 1 }]) } },
  properties: members(500, (n) => [`q${n}`, { $ref: '#/$defs/big' }]),
}
const SLOW = { oneOf: repeated(1200, () => ({ type: 'null' })) }
const BACKTRACKS = { type: 'string', pattern: '^(a+)+$' }
const GREEDY = { items: { allOf: repeated(1000, () => ({ type: 'null' })) } }

const peopleOf = async (url: string, queue: string) => {
  const { client, agent } = await app.queue(queue, { contexts: 'parallel' })
  const a2a = a2aClient(url, queue, client.token)
  const worker = agentClient(url, agent.token)
  const asked = async (schema: object) => {
    await a2a.submit('x')
    const todo = await worker.claim()
    await ask(worker, todo, 'May I?', { schema })
    return todo.id
  }
  const answer = (taskId: string, data: unknown) => {
    const message = { ...textMessage('', { taskId }), parts: [{ data }] }
    return a2a.call('SendMessage', { message, configuration: { returnImmediately: true } })
  }
  return { a2a, worker, asked, answer }
}

const residentMb = (pid: number): number =>
  Number(/VmRSS:\s+(\d+)/.exec(fs.readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024

test('a node with 160 MB of heap stays up and answers others while agents and clients make schemas costly', async () => {
  const env = { NODE_OPTIONS: '--max-old-space-size=160' }
  const { child, url } = await serveProcessWith(env, app.databaseUrl)
  const good = await peopleOf(url, 'good')
  const hostile = await Promise.all(repeated(3, (n) => peopleOf(url, `hostile-${n}`)))
  const endsAt = performance.now() + scaled(12_000)
  const goesOn = (): boolean => performance.now() < endsAt

  const hostilities = hostile.flatMap(({ a2a, worker, asked, answer }) => [
    (async () => {
      // One of many that are costly may be told to come again.
      const slow = await until(() => asked(BACKTRACKS))
      const greedy = await until(() => asked(GREEDY))
      while (goesOn()) {
        const flood = repeated(12, (n) =>
          n % 2
            ? answer(slow, `${'a'.repeat(60 + n)}!`)
            : answer(
                greedy,
                repeated(300, () => n),
              ),
        )
        for (const { error } of await Promise.all(flood)) expect(error).toBeDefined()
      }
    })(),
    (async () => {
      await a2a.submit('y')
      const todo = await worker.claim()
      const refusal = ask(worker, todo, 'May I?', { schema: MULTIPLYING })
      await expect(refusal).rejects.toMatchObject({ error: { code: -32602 } })
      for (let n = 0; goesOn(); n += 1) {
        const schema = { ...SLOW, description: String(n), $async: true }
        await expect(ask(worker, todo, 'May I?', { schema })).rejects.toBeDefined()
      }
    })(),
  ])

  const healthy: number[] = []
  const served: number[] = []
  let most = 0
  while (goesOn()) {
    const startedAt = performance.now()
    expect((await fetch(`${url}/healthz`)).status).toBe(200)
    healthy.push(performance.now() - startedAt)
    const id = await good.asked({ type: 'object', required: ['nights'] })
    expect((await good.answer(id, {})).error.code).toBe(-32602)
    expect((await good.answer(id, { nights: 2 })).result.task).toBeDefined()
    served.push(performance.now() - startedAt)
    most = Math.max(most, residentMb(child.pid!))
  }
  await Promise.all(hostilities)
  expect(child.exitCode).toBeNull()
  healthy.sort((a, b) => a - b)
  served.sort((a, b) => a - b)
  // A check of the good ones waits for what runs at that moment, three times a round.
  expect(served.at(-1)).toBeLessThan(scaled(12_000))
  expect(healthy[Math.floor(healthy.length * 0.99)]).toBeLessThan(scaled(1000))
  expect(most).toBeLessThan(700)
})
