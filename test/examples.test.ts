/** Every file in examples/, run as a stranger would run it, against the real server; here, or where it says. */
import { execFile } from 'node:child_process'
import fs from 'node:fs'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startApp } from './support/app.ts'
import { a2aClient } from './support/clients/actors.ts'
import { type AgentProcess, startAgentProcess } from './support/process/agent-process.ts'
import { childArgs } from './support/process/child-args.ts'

const run = promisify(execFile)
const app = await startApp()
const { client, agent } = await app.queue('concierge')
const echoes = await app.queue('echo')
const agents: AgentProcess[] = []

beforeAll(async () => {
  agents.push(
    await startAgentProcess('concierge.ts', { url: app.url, token: agent.token }),
    await startAgentProcess('echo-agent.ts', { url: app.url, token: echoes.agent.token }),
  )
})
afterAll(async () => {
  for (const running of agents) await running.stop()
})

const env = { PATH: process.env.PATH, SWITCHBOARD_URL: app.url, CLIENT_TOKEN: client.token }

test('there is no example that is not run', () => {
  expect(fs.readdirSync('examples').sort()).toEqual([
    'concierge.ts',
    // By test/conformance-agent.test.ts.
    'conformance-agent.ts',
    'echo-agent.ts',
    'sdk-client.ts',
    'walkthrough.sh',
  ])
})

test('the echo agent answers every task with its own text', async () => {
  const echo = a2aClient(app.url, 'echo', echoes.client.token)
  const { result } = await echo.send('hello there')
  expect(result.task.status).toMatchObject({
    state: 'TASK_STATE_COMPLETED',
    message: { parts: [{ text: 'hello there' }] },
  })
})

test('the concierge asks for the day and the guests, asks again for what it cannot read, and books', async () => {
  const guest = a2aClient(app.url, 'concierge', client.token)
  const asked = async (text: string, taskId?: string) =>
    (await guest.send(text, taskId === undefined ? {} : { taskId })).result.task
  const task = await asked('a table')
  expect(task.status.state).toBe('TASK_STATE_INPUT_REQUIRED')
  await asked('tomorrow', task.id)
  const again = await asked('a few', task.id)
  expect(again.status.state).toBe('TASK_STATE_INPUT_REQUIRED')
  const done = await asked('4', task.id)
  expect(done.status.state).toBe('TASK_STATE_COMPLETED')
  expect(done.artifacts.map(({ name }: { name: string }) => name)).toEqual([
    'confirmation.txt',
    'booking.ics',
  ])
  // Each came in several chunks, and is one artifact now.
  for (const { parts } of done.artifacts) expect(parts.length).toBeGreaterThan(1)
})

test('guests who never answer leave the concierge free for others', async () => {
  const guest = a2aClient(app.url, 'concierge', client.token)
  for (let sent = 0; sent < 12; sent += 1) {
    const { result } = await guest.send('a table')
    expect(result.task.status.state).toBe('TASK_STATE_INPUT_REQUIRED')
  }
})

test('the walk-through with curl comes to its end', async () => {
  const { stdout } = await run('sh', ['examples/walkthrough.sh'], { env })
  for (const sign of [
    '"protocolVersion":"1.0"',
    'TASK_STATE_INPUT_REQUIRED',
    'artifactUpdate',
    'TASK_STATE_COMPLETED',
    'TASK_STATE_CANCELED',
    '# Done.',
  ]) {
    expect(stdout).toContain(sign)
  }
})

test('a client on the official SDK is asked, answers and gets its artifacts', async () => {
  const { stdout } = await run(process.execPath, childArgs('examples/sdk-client.ts'), {
    env,
  })
  expect(stdout).toContain('confirmation.txt')
  expect(stdout).toContain('BEGIN:VCALENDAR')
})
