/** `send` with a client's own token: over A2A, from the first message to the answer and the end. */
import { expect, test } from 'vitest'
import { createAgent, textOf } from '../../src/index.ts'
import { startApp } from '../support/app.ts'
import { operate } from '../support/steps.ts'
import { runCli } from './run.ts'

const app = await startApp()
const { client, agent } = await app.queue('desk', { contexts: 'parallel' })
const { client: stranger } = await app.queue('other')
const cli = (...args: string[]) =>
  runCli(args, { env: { SWITCHBOARD_URL: app.url, SWITCHBOARD_TOKEN: client.token } })

test('it waits for the question, answers it, and prints the end; others see nothing of it', async () => {
  const worker = createAgent({ url: app.url, token: agent.token }, async (ctx) => {
    const day = await ctx.requireInput('For which day?')
    await ctx.artifact({ name: 'note.txt', parts: [{ text: 'booked' }] })
    return `Booked for ${textOf(day)}`
  })
  worker.start()
  try {
    const asked = await cli('send', 'desk', 'A table')
    expect(asked).toMatchObject({ code: 0 })
    expect(asked.stdout).toMatch(/^task (\S+)\ninput-required: For which day\?\n$/)
    const id = /^task (\S+)/.exec(asked.stdout)![1]!
    expect(asked.stderr).toContain(`switchboard send desk '...' --task ${id}`)
    expect((await operate(app, 'todos.show', { id })).queue).toBe('desk')

    const refused = await runCli(['send', 'desk', 'mine?', '--task', id], {
      env: { SWITCHBOARD_URL: app.url, SWITCHBOARD_TOKEN: stranger.token },
    })
    expect(refused.code).not.toBe(0)
    const shown = await operate(app, 'todos.show', { id })
    expect(shown.question.deadline).toMatch(/^\d{4}-/)

    const ended = await cli('send', 'desk', 'Friday', '--task', id)
    expect(ended).toMatchObject({ code: 0 })
    expect(ended.stdout).toContain('done: Booked for Friday\n\nnote.txt\nbooked\n')
  } finally {
    await worker.stop()
  }
})

test('without waiting it prints the id; with --json the task; a wrong queue or priority is refused', async () => {
  const [sent, json, priority, nowhere, never, twice] = await Promise.all([
    cli('send', 'desk', 'x', '--no-wait'),
    cli('send', 'desk', 'x', '--no-wait', '--json'),
    cli('send', 'desk', 'x', '--no-wait', '--priority', '0'),
    cli('send', 'other', 'x', '--no-wait'),
    cli('send', 'desk', 'x', '--no-wait', '--not-before', 'tomorrow'),
    cli('send', 'desk', 'x', '--no-wait', '--budget', 'calls=5=6'),
  ])
  expect(sent).toMatchObject({ code: 0, stdout: expect.stringMatching(/^[0-9a-f-]{36}\n$/) })
  expect(JSON.parse(json.stdout)).toMatchObject({ status: { state: 'TASK_STATE_SUBMITTED' } })
  expect(priority).toMatchObject({ code: 6, stderr: expect.stringContaining('only priority 1') })
  expect(nowhere.code).not.toBe(0)
  expect(never).toMatchObject({ code: 2, stderr: expect.stringContaining('not-before: ') })
  expect(twice).toMatchObject({ code: 2, stderr: expect.stringContaining('calls=n') })
})

test('what its send says beside the message is kept: author, budget and when it may begin', async () => {
  const said = ['--author', 'ann', '--budget', 'calls=3', '--delay', '3600', '--no-wait', '--json']
  const { stdout } = await cli('send', 'desk', 'x', ...said)
  const shown = await operate(app, 'todos.show', { id: JSON.parse(stdout).id })
  expect(shown).toMatchObject({
    author: 'ann',
    budget: { calls: 3 },
    notBefore: expect.any(String),
  })
})
