/** What an operator has set in a queue's policy can be unset, and a queue in use says why it stays. */
import { expect, test } from 'vitest'
import { DEFAULT_POLICY } from '../../src/domain/policy.ts'
import { runCli } from '../cli/run.ts'
import { ADMIN_TOKEN, startApp } from '../support/app.ts'
import { a2aClient } from '../support/clients/actors.ts'
import { operate } from '../support/steps.ts'

const app = await startApp()

const ALL = {
  maxAttempts: 9,
  backoff: { initialSeconds: 7, factor: 3, maxSeconds: 70, jitter: 0.5 },
  contexts: 'parallel',
  line: 'context',
  reentry: 'question',
  dedupe: 'messageId',
  concurrency: 3,
  interruptTtlSeconds: 600,
  timeouts: { scheduleToStart: 10, startToClose: 20, scheduleToClose: 30, heartbeat: 40 },
  retentionDays: 5,
  highestPriority: 0,
  lowestPriority: 2,
}

const policyOf = async (name: string) => {
  const { queues } = await operate(app, 'queues.list', {})
  return queues.find((queue: { name: string }) => queue.name === name).policy
}
const without = (policy: object, member: string) =>
  Object.fromEntries(Object.entries(policy).filter(([name]) => name !== member))

test.each(Object.keys(ALL))('null unsets %s, and nothing else', async (member) => {
  const name = `q-${member.toLowerCase()}`
  await operate(app, 'queues.put', { name, policy: ALL })
  expect(await policyOf(name)).toEqual(ALL)
  await operate(app, 'queues.put', { name, policy: { [member]: null } })
  const standard = (DEFAULT_POLICY as unknown as Record<string, unknown>)[member]
  expect(await policyOf(name)).toEqual({
    ...without(ALL, member),
    ...(standard !== undefined && { [member]: standard }),
  })
})

test.each(['backoff', 'timeouts'] as const)('each member of %s is unset by itself', async (of) => {
  const name = `q-each-${of}`
  for (const member of Object.keys(ALL[of])) {
    await operate(app, 'queues.put', { name, policy: ALL })
    await operate(app, 'queues.put', { name, policy: { [of]: { [member]: null } } })
    const standard = (DEFAULT_POLICY[of] as unknown as Record<string, unknown>)[member]
    expect((await policyOf(name))[of]).toEqual({
      ...without(ALL[of], member),
      ...(standard !== undefined && { [member]: standard }),
    })
  }
})

test('a new queue with nothing but nulls has the default policy', async () => {
  const policy = Object.fromEntries(Object.keys(ALL).map((member) => [member, null]))
  await operate(app, 'queues.put', { name: 'q-nulls', policy })
  expect(await policyOf('q-nulls')).toEqual(DEFAULT_POLICY)
})

test('a queue with live todos says how many keep it, and what to do', async () => {
  const { client } = await app.queue('busy', { contexts: 'parallel' })
  const a2a = a2aClient(app.url, 'busy', client.token)
  const ids = [(await a2a.submit('one')).id, (await a2a.submit('two')).id]
  const remove = () =>
    runCli(['queue', 'remove', 'busy'], {
      env: { SWITCHBOARD_URL: app.url, SWITCHBOARD_TOKEN: ADMIN_TOKEN },
    })
  const refused = await remove()
  expect(refused.code).not.toBe(0)
  expect(refused.stderr).toContain('queue busy still has 2 live todos: wait until they have ended')
  for (const id of ids) await operate(app, 'todos.cancel', { id })
  expect(await remove()).toMatchObject({ code: 0, stdout: 'queue busy is removed\n' })
})
