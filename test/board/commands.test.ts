// The commands for answer links and sessions, and what the plots are drawn from.
import { expect, test } from 'vitest'
import { runCli } from '../cli/run.ts'
import { ADMIN_TOKEN, startApp, startNode } from '../support/app.ts'
import { a2aClient, agentClient } from '../support/clients/actors.ts'
import { ask } from '../support/steps.ts'

const app = await startApp()
const { client, agent } = await app.queue('desk', { contexts: 'parallel' })
const a2a = a2aClient(app.url, 'desk', client.token)
const worker = agentClient(app.url, agent.token)

const run = (...args: string[]) =>
  runCli(args, { env: { SWITCHBOARD_URL: app.url, SWITCHBOARD_TOKEN: ADMIN_TOKEN } })

test('a link is made on the command line, for the newest question or one that is named', async () => {
  expect((await run('answer-link', 'latest')).code).toBe(3)
  const { id } = await a2a.submit('x')
  const waiting = await run('answer-link', id)
  expect([waiting.code, waiting.stdout]).toEqual([5, ''])
  await ask(worker, await worker.claim(), 'which?')
  const latest = await run('answer-link', 'latest', '--hours', '1')
  expect(latest.code).toBe(0)
  expect(latest.stdout).toMatch(new RegExp(`^${app.url}/answer/[\\w-]{43}\\n$`))
  expect(latest.stderr).toContain('Good for one answer, until ')
  const json = JSON.parse((await run('answer-link', id.slice(0, 13), '--json')).stdout)
  expect(json).toMatchObject({ id, question: 3, url: expect.stringContaining('/answer/') })
  expect((await fetch(json.url)).status).toBe(200)
  expect((await run('answer-link', id, '--hours', '1000')).code).toBe(2)
  await a2a.call('CancelTask', { id })
})

test('sessions are listed and revoked on the command line', async () => {
  const code = await app.issueBoardCode()
  const { headers } = await fetch(`${app.url}/board/login?code=${code}`, { redirect: 'manual' })
  const cookie = headers.get('set-cookie')!.split(';')[0]!
  const look = async () => (await fetch(`${app.url}/board/me`, { headers: { cookie } })).status
  const listed = await run('sessions', 'list')
  expect(listed.stdout).toMatch(/^ID .*\n[0-9a-f-]{36} +operator /)
  const [session] = JSON.parse((await run('sessions', 'list', '--json')).stdout).sessions
  expect(await look()).toBe(200)
  expect((await run('sessions', 'revoke', session.id)).stdout).toBe('1 ended\n')
  expect(await look()).toBe(401)
  expect((await run('sessions', 'revoke', session.id)).code).toBe(3)
  expect((await run('sessions', 'revoke', 'all')).stdout).toBe('0 ended\n')
})

interface Minute {
  finished: number
  dead: number
  waited: { mean: number; max: number } | null
  oldest: number
}

test('the last hour is counted from the events of before, and from those that come', async () => {
  const pulse = async (url: string, queue = 'clock'): Promise<Minute[]> => {
    const response = await fetch(`${url}/board/pulse?queue=${queue}`, {
      headers: { Authorization: `Bearer ${ADMIN_TOKEN}` },
    })
    return ((await response.json()) as { minutes: Minute[] }).minutes
  }
  const line = await app.queue('clock', { contexts: 'parallel' })
  const clock = a2aClient(app.url, 'clock', line.client.token)
  const hand = agentClient(app.url, line.agent.token)
  const sum = (minutes: Minute[], of: 'finished' | 'dead') =>
    minutes.reduce((all, minute) => all + minute[of], 0)

  const first = await clock.submit('an hour ago')
  await hand.call('todos.complete', (await hand.claim()).held)
  // It waited five minutes to be claimed, and was, half an hour ago.
  await app.sql(
    `update events set at = at - make_interval(mins => case verb when 'send' then 35 else 30 end)
     where todo_id = $1`,
    [first.id],
  )
  const old = await clock.submit('older than the hour')
  await hand.call('todos.complete', (await hand.claim()).held)
  await app.sql(`update events set at = at - interval '2 hours' where todo_id = $1`, [old.id])
  await clock.submit('stays')
  await expect
    .poll(async () => (await app.sql('select from events where position is null')).length)
    .toBe(0)

  const node = await startNode(app.databaseUrl)
  const minutes = await pulse(node.url)
  expect(minutes).toHaveLength(60)
  expect(sum(minutes, 'finished')).toBe(1)
  const claimed = minutes.filter(({ waited }) => waited !== null)
  expect(claimed).toHaveLength(1)
  expect(claimed[0]!.waited!.mean).toBeGreaterThan(299)
  expect(Math.max(...minutes.map(({ oldest }) => oldest))).toBeGreaterThanOrEqual(240)
  expect(minutes.at(-1)!.oldest).toBeLessThan(60)

  const dead = await hand.claim()
  await hand.call('todos.fail', {
    ...dead.held,
    error: { code: 'x', message: 'y' },
    retryable: false,
  })
  await expect.poll(async () => sum(await pulse(node.url), 'dead')).toBe(1)
  expect(sum(await pulse(node.url, 'desk'), 'dead')).toBe(0)
  await node.stop()
})
