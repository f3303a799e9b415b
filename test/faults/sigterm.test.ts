// Case F091, on the real `serve` process.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { connect } from 'node:net'
import { createInterface } from 'node:readline'
import { afterAll, expect, test } from 'vitest'
import { a2aClient, agentClient } from '../support/actors.ts'
import { ADMIN_TOKEN, startApp, startNode } from '../support/app.ts'
import { killed, ROOT } from '../support/child.ts'
import { metric, nextOf } from '../support/steps.ts'
import { until } from '../support/until.ts'

const app = await startApp()
const { client, agent } = await app.line('desk', { contexts: 'parallel' })
const idle = await app.line('idle')

const children: ChildProcess[] = []
afterAll(() => Promise.all(children.map(killed)))

/** The server as it runs in production, on the database of this test. */
const serve = async (): Promise<{ child: ChildProcess; url: string; log: string[] }> => {
  const child = spawn(process.execPath, ['--import', 'tsx', 'src/cli/main.ts', 'serve'], {
    cwd: ROOT,
    env: {
      PATH: process.env.PATH,
      DATABASE_URL: app.databaseUrl,
      PORT: '0',
      SWITCHBOARD_ADMIN_TOKEN: ADMIN_TOKEN,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  children.push(child)
  const log: string[] = []
  const lines = createInterface({ input: child.stderr! })
  const url = await new Promise<string>((resolve, reject) => {
    lines.on('line', (line) => {
      log.push(line)
      const found = /listening on (http:\S+)/.exec(line)?.[1]
      if (found) resolve(found)
    })
    child.once('exit', () => reject(new Error(`serve ended: ${log.join('\n')}`)))
  })
  return { child, url, log }
}

test('after SIGTERM streams and waits end in order, every send that was accepted is there, and the exit is clean', async () => {
  const { child, url, log } = await serve()
  const a2a = a2aClient(url, 'desk', client.token)
  const worker = agentClient(url, agent.token)
  const task = await a2a.submit('followed')
  const todo = await worker.claim()
  const streams = await Promise.all(
    Array.from({ length: 50 }, () => a2a.stream('SubscribeToTask', { id: task.id })),
  )
  await Promise.all(streams.map(nextOf))
  const sends = Array.from({ length: 5 }, (_, i) => a2a.send(`blocking ${i}`))
  await until(async () => (await a2a.call('ListTasks', { pageSize: 1 })).result.totalSize === 6)
  const waiter = agentClient(url, idle.agent.token)
  const claims = Array.from({ length: 10 }, () => waiter.call('todos.claim', { waitMs: 60_000 }))
  await until(async () => (await metric({ url }, 'switchboard_waiting_claims')) === 10)

  const exit = once(child, 'exit')
  child.kill('SIGTERM')
  for (const stream of streams) expect(await stream.rest()).toEqual([])
  for (const { todos } of await Promise.all(claims)) expect(todos).toEqual([])
  for (const { result } of await Promise.all(sends)) {
    // As things are: the client may go on to ask for it elsewhere.
    expect(result.task.status.state).toBe('TASK_STATE_SUBMITTED')
    const elsewhere = await a2aClient(app.url, 'desk', client.token).get(result.task.id)
    expect(elsewhere.id).toBe(result.task.id)
  }
  expect(await exit).toEqual([0, null])
  await expect(fetch(`${url}/readyz`)).rejects.toThrow()
  // The server held nothing itself: the agent goes on at another node.
  const elsewhere = agentClient(app.url, agent.token)
  expect((await elsewhere.call('todos.heartbeat', todo.held)).state).toBe('claimed')
  await elsewhere.call('todos.complete', todo.held)
  const left = await app.sql(
    `select from pg_stat_activity where application_name like 'switchboard%' and datname = current_database()
       and state = 'idle in transaction'`,
  )
  expect(left).toEqual([])
  for (const token of [ADMIN_TOKEN, client.token, agent.token])
    expect(log.join('\n')).not.toContain(token)
})

test('a second signal ends it at once, although a client still keeps it', async () => {
  const { child, url } = await serve()
  const { hostname, port } = new URL(url)
  const socket = connect(Number(port), hostname)
  socket.on('error', () => {})
  // A request that is under way and does not end: what stopping would wait for.
  socket.write(
    `POST /a2a/desk/ HTTP/1.1\r\nHost: x\r\nA2A-Version: 1.0\r\nAuthorization: Bearer ${client.token}\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{`,
  )
  const stream = await a2aClient(url, 'desk', client.token).stream('SendStreamingMessage', {
    message: { messageId: 'm', role: 'ROLE_USER', parts: [{ text: 'x' }] },
  })
  await nextOf(stream)
  const exit = once(child, 'exit')
  child.kill('SIGTERM')
  // Its end says that the first signal was heard.
  await stream.rest()
  child.kill('SIGTERM')
  const [code, signal] = await exit
  expect(code === 143 || signal === 'SIGTERM').toBe(true)
  socket.destroy()
})

test('a node that stops does not wait for connections that nobody uses any more', async () => {
  const node = await startNode(app.databaseUrl)
  const side = a2aClient(node.url, 'desk', client.token)
  const stream = await side.stream('SendStreamingMessage', {
    message: { messageId: 'm', role: 'ROLE_USER', parts: [{ text: 'x' }] },
  })
  await nextOf(stream)
  const claim = agentClient(node.url, idle.agent.token).call('todos.claim', { waitMs: 60_000 })
  await until(async () => (await metric(node, 'switchboard_waiting_claims')) === 1)
  const started = performance.now()
  await node.stop()
  // What does not end by itself is cut off after five seconds.
  expect(performance.now() - started).toBeLessThan(4500)
  expect(await stream.rest()).toEqual([])
  expect(await claim).toEqual({ todos: [] })
})
