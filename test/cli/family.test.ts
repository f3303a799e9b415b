/** The commands about families, with a real server: fork, join, children. */
import { expect, test } from 'vitest'
import { ADMIN_TOKEN, startApp } from '../support/app.ts'
import { a2aClient, agentClient } from '../support/clients/actors.ts'
import { operate, saying } from '../support/steps.ts'
import { runCli } from './run.ts'

const app = await startApp()
const { client, agent } = await app.queue('parents')
const hands = await app.queue('children')
const worker = agentClient(app.url, agent.token)
const hand = agentClient(app.url, hands.agent.token)
const env = { SWITCHBOARD_URL: app.url, SWITCHBOARD_TOKEN: ADMIN_TOKEN }
const cli = (...args: string[]) => runCli(args, { env })

test('a task is given children with limits, waits for those that live, and lists them', async () => {
  const { id } = await a2aClient(app.url, 'parents', client.token).submit('a job')
  await worker.claim()
  const limits = [
    '--deadline-seconds',
    '600',
    '--silence-seconds',
    '60',
    '--attempt-seconds',
    '300',
  ]
  const more = ['--start-seconds', '120', '--max-attempts', '2', '--effects', 'read,mail']
  const first = await cli('fork', id.slice(-8), 'children', 'part one', ...limits, ...more)
  expect(first).toMatchObject({ code: 0 })
  const child = first.stdout.trim()
  const { view } = await app.services.operator.show(child, { kind: 'operator' })
  expect(view.todo).toMatchObject({
    parentId: id,
    maxAttempts: 2,
    effects: ['read', 'mail'],
    scheduleToStartSeconds: 120,
    startToCloseSeconds: 300,
    heartbeatSeconds: 60,
    closeAt: expect.any(Date),
  })
  expect(view.messages[0]?.message.parts).toEqual([{ text: 'part one' }])

  await hand.call('todos.complete', { ...(await hand.claim()).held, result: { pages: 3 } })
  const none = await cli('join', id)
  expect(none).toMatchObject({ code: 2 })
  expect(none.stderr).toContain('no children that live')
  const { children } = await operate(app, 'todos.fork', {
    id,
    children: [{ queue: 'children', message: saying('part two') }],
  })
  const [second] = children
  const listed = await cli('children', id)
  expect(listed.stdout).toMatch(new RegExp(`${child} +children +done +{"pages":3}`))
  expect(listed.stdout).toMatch(new RegExp(`${second.id} +children +pending`))

  const bad = await cli('join', id, '--on-timeout', 'cancel')
  expect(bad).toMatchObject({ code: 2 })
  expect(bad.stderr).toContain('onTimeout')
  const time = ['--timeout-seconds', '600', '--on-timeout', 'cancel']
  const joined = await cli('join', id, '--until', 'any', ...time)
  expect(joined).toMatchObject({ code: 0, stdout: `${id} waits for 1 of its children\n` })
  const { todo } = (await app.services.operator.show(id, { kind: 'operator' })).view
  expect(todo.join).toMatchObject({ until: 'any', children: [second.id], onTimeout: 'cancel' })
})
