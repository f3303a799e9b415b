// On the real `serve` process.
// Field case: orderly shutdown.
import { once } from 'node:events'
import { connect } from 'node:net'
import { expect, test } from 'vitest'
import { ADMIN_TOKEN, startApp, startNode } from '../support/app.ts'
import { a2aClient, agentClient, openStream, post, resumeAfter } from '../support/clients/actors.ts'
import { serveProcess } from '../support/process/serve-process.ts'
import { metric, nextOf, openBoard, saying } from '../support/steps.ts'
import { scaled } from '../support/timeouts.ts'
import { until } from '../support/until.ts'

const app = await startApp()
const { client, agent } = await app.queue('desk', { contexts: 'parallel' })
const idle = await app.queue('idle')

const serve = (...options: string[]) => serveProcess(app.databaseUrl, ...options)

/** A request that is under way until the rest of its body is sent. */
const begin = (url: string, body: string) => {
  const { hostname, port } = new URL(url)
  const socket = connect(Number(port), hostname)
  socket.on('error', () => {})
  let answer = ''
  socket.on('data', (chunk: Buffer) => {
    answer += chunk
  })
  socket.write(
    `POST /a2a/desk/ HTTP/1.1\r\nHost: x\r\nA2A-Version: 1.0\r\nAuthorization: Bearer ${client.token}\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body.slice(0, 1)}`,
  )
  return {
    finish: () => socket.write(body.slice(1)),
    answer: async () => {
      if (!socket.closed) await once(socket, 'close')
      return answer
    },
    destroy: () => socket.destroy(),
  }
}

const readiness = async (url: string) => {
  const response = await fetch(`${url}/readyz`)
  return { status: response.status, body: await response.json() }
}

test('after SIGTERM streams and waits end in order, every send that was accepted is there, and the exit is clean', async () => {
  const { child, url, log } = await serve()
  const a2a = a2aClient(url, 'desk', client.token)
  const worker = agentClient(url, agent.token)
  const task = await a2a.submit('followed')
  const todo = await worker.claim()
  const streams = await Promise.all(
    Array.from({ length: 20 }, () => a2a.stream('SubscribeToTask', { id: task.id })),
  )
  await Promise.all(streams.map(nextOf))
  await worker.call('todos.say', { ...todo.held, message: saying('before') })
  const [last] = (await Promise.all(streams.map(nextOf))).map(({ id }) => id)
  const board = await openBoard({ url }, 'queue=desk')
  const sends = Array.from({ length: 5 }, (_, i) => a2a.send(`blocking ${i}`))
  await until(async () => (await a2a.call('ListTasks', { pageSize: 1 })).result.totalSize === 6)
  const waiter = agentClient(url, idle.agent.token)
  const claims = Array.from({ length: 10 }, () => waiter.call('todos.claim', { waitMs: 60_000 }))
  await until(async () => (await metric({ url }, 'switchboard_waiting_claims')) === 10)

  const exit = once(child, 'exit')
  child.kill('SIGTERM')
  for (const stream of streams) {
    expect(await stream.rest()).toEqual([])
    // Told last, and spread out, so that they do not all come back in one moment.
    expect(stream.retries).toHaveLength(1)
  }
  expect(new Set(streams.flatMap(({ retries }) => retries)).size).toBeGreaterThan(5)
  await board.rest()
  expect(board.retries).toHaveLength(2)
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
  // And so does the reader, after the frame it had last.
  const resumed = await a2aClient(app.url, 'desk', client.token).stream(
    'SubscribeToTask',
    { id: task.id },
    { headers: resumeAfter(last!) },
  )
  await elsewhere.call('todos.say', { ...todo.held, message: saying('after') })
  const next = await nextOf(resumed)
  expect(next.json.result.statusUpdate.status.message.parts).toEqual([{ text: 'after' }])
  resumed.close()
  await elsewhere.call('todos.complete', todo.held)
  const left = await app.sql(
    `select from pg_stat_activity where application_name like 'switchboard%' and datname = current_database()
       and state = 'idle in transaction'`,
  )
  expect(left).toEqual([])
  for (const token of [ADMIN_TOKEN, client.token, agent.token])
    expect(log.join('\n')).not.toContain(token)
})

test('at once it is not ready and takes nothing new, but a call that is under way finishes', async () => {
  const { child, url } = await serve()
  const a2a = a2aClient(url, 'desk', client.token)
  expect(await readiness(url)).toMatchObject({ status: 200 })
  const message = { messageId: 'under-way', role: 'ROLE_USER', parts: [{ text: 'x' }] }
  const request = begin(
    url,
    JSON.stringify({
      jsonrpc: '2.0',
      id: 1,
      method: 'SendMessage',
      params: { message, configuration: { returnImmediately: true } },
    }),
  )
  await until(async () => (await metric({ url }, 'switchboard_pool_connections{state="idle"}')) > 0)
  const exit = once(child, 'exit')
  child.kill('SIGTERM')
  await until(async () => (await readiness(url)).status === 503)
  expect((await readiness(url)).body).toMatchObject({ reasons: ['shutting down'] })
  expect((await fetch(`${url}/healthz`)).status).toBe(200)

  const send = { message: { ...message, messageId: 'too-late' } }
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'SendMessage', params: send })
  const refused = await post(a2a.endpoint, body, {
    token: client.token,
    headers: { 'A2A-Version': '1.0' },
  })
  expect([refused.status, refused.body.error.code]).toEqual([503, -32603])
  expect(refused.headers.get('retry-after')).not.toBeNull()
  expect(refused.headers.get('connection')).toBe('close')
  await expect(agentClient(url, agent.token).call('todos.claim', {})).rejects.toMatchObject({
    error: { code: -32014 },
  })
  expect((await openStream(`${url}/board/events`, { token: ADMIN_TOKEN })).status).toBe(503)

  request.finish()
  const answer = await request.answer()
  expect(answer).toMatch(/^HTTP\/1\.1 200 [\s\S]*Connection: close/i)
  const { id } = JSON.parse(answer.slice(answer.indexOf('\r\n\r\n'))).result.task
  expect(await exit).toEqual([0, null])
  expect((await a2aClient(app.url, 'desk', client.token).get(id)).history[0].messageId).toBe(
    'under-way',
  )
})

test('in the midst of sends each is there in full or not at all, and what was answered is there', async () => {
  const { child, url } = await serve()
  const a2a = a2aClient(url, 'desk', client.token)
  const exit = once(child, 'exit')
  const accepted: string[] = []
  const sending = Array.from({ length: 8 }, async () => {
    for (;;) {
      const answer = await a2a.submit('x', { contextId: 'midst' }).catch(() => null)
      if (answer === null) return
      accepted.push(answer.id)
    }
  })
  await until(() => accepted.length > 50)
  child.kill('SIGTERM')
  await Promise.all(sending)
  expect(await exit).toEqual([0, null])
  const stored = await app.sql<{ id: string; whole: boolean }>(
    `select t.id, (select count(*) from messages m where m.todo_id = t.id) = 1
       and (select count(*) from events e where e.todo_id = t.id and e.verb = 'send') = 1 as whole
     from todos t where t.context_id = 'midst'`,
  )
  expect(stored.filter(({ whole }) => !whole)).toEqual([])
  const ids = new Set(stored.map(({ id }) => id))
  expect(accepted.filter((id) => !ids.has(id))).toEqual([])
})

test('a call that does not end is cut off at the limit, and the exit is as clean', async () => {
  const { child, url, log } = await serve('--drain-seconds', '3')
  const request = begin(url, JSON.stringify({ never: 'finished' }))
  await until(async () => (await readiness(url)).status === 200)
  const exit = once(child, 'exit')
  const started = performance.now()
  child.kill('SIGTERM')
  expect(await exit).toEqual([0, null])
  expect(performance.now() - started).toBeLessThan(scaled(3500))
  expect(await request.answer()).toBe('')
  expect(log.join('\n')).not.toContain('did not stop in time')
})

test('a second signal ends it at once, although a client still keeps it', async () => {
  const { child, url } = await serve()
  // What stopping would wait for.
  const request = begin(url, JSON.stringify({ never: 'finished' }))
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
  request.destroy()
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
  expect(performance.now() - started).toBeLessThan(scaled(4500))
  expect(await stream.rest()).toEqual([])
  expect(await claim).toEqual({ todos: [] })
})
