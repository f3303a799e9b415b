/** `npm start` from its banner to Ctrl-C: what the first command of the README promises. */
import { spawn } from 'node:child_process'
import path from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { metric } from '../support/steps.ts'
import { until } from '../support/until.ts'
import { banner, endDev, folder, groups, leftovers, paste, startDev } from './dev.ts'

afterAll(endDev)

test('dev prints addresses, tokens and commands that work as pasted; Ctrl-C ends it all', async () => {
  const dataDir = path.join(folder, 'one')
  const first = startDev(dataDir)
  const text = await banner(first)
  const url = /(http:\/\/127\.0\.0\.1:\d+)\/board/.exec(text)![1]!
  const card = /Agent card\s+(\S+)/.exec(text)![1]!
  expect((await fetch(card)).status).toBe(200)
  expect((await fetch(`${url}/readyz`)).status).toBe(200)
  const client = /Client token\s+(\S+)/.exec(text)![1]!
  const agent = /Agent token\s+(\S+)/.exec(text)![1]!
  const called = async (place: string, token: string, method: string) =>
    (
      await fetch(`${url}${place}`, {
        method: 'POST',
        headers: {
          'Content-Type': 'application/json',
          'A2A-Version': '1.0',
          Authorization: `Bearer ${token}`,
        },
        body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params: {} }),
      })
    ).json()
  expect(await called('/a2a/concierge/', client, 'ListTasks')).toHaveProperty('result.tasks')
  expect(await called('/agent', agent, 'todos.list')).toHaveProperty('result.todos')

  const board = /Board\s+(\S+)/.exec(text)![1]!
  const login = await fetch(board, { redirect: 'manual' })
  const cookie = login.headers.get('set-cookie') ?? ''
  expect(cookie).toContain('HttpOnly')
  const page = await fetch(`${url}/board`, { headers: { Cookie: cookie.split(';')[0]! } })
  expect(await page.text()).toContain('switchboard')

  const commands = text.split('\n').filter((line) => /^ {2}cd /.test(line))
  const [send, answer, watch] = commands.map((line) => line.trim())
  expect((await paste(send!)).stdout).toContain('input-required')
  expect((await paste(answer!)).stdout).toContain('input-required')
  expect((await paste(answer!.replace(/'[^']*'$/, "'3'"))).stdout).toContain('done')
  const boards = () => metric({ url }, 'switchboard_streams_open{kind="board"}')
  // The server takes a moment to tell a command that has ended from one that only stopped sending.
  await until(async () => (await boards()) === 0, { what: 'no board is watched yet' })
  const watching = spawn('sh', ['-c', watch!], {
    env: { PATH: process.env.PATH, HOME: folder },
    detached: true,
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  groups.push(watching.pid!)
  let seen = ''
  watching.stdout.on('data', (chunk: Buffer) => {
    seen += chunk
  })
  await until(async () => (await boards()) === 1, { what: 'the watching command is connected' })
  const another = paste(send!)
  await until(() => seen.includes('input-required'), { what: 'the board, watched' })
  process.kill(-watching.pid!, 'SIGTERM')
  await another

  const second = startDev(dataDir)
  expect((await second.exited)[0]).not.toBe(0)
  expect(second.errors().trim().split('\n')).toHaveLength(1)
  expect(second.errors()).toContain(String(first.child.pid))

  first.child.kill('SIGINT')
  expect((await first.exited)[0]).toBe(0)
  await until(() => leftovers(dataDir).length === 0, { what: 'nothing left after Ctrl-C' })
})
