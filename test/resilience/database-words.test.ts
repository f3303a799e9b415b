/**
 * What the database says when it does not do as it is told, in real words of a real server: each is
 * 503 on every surface, with when to try again, and readiness names it until it is over.
 * Field cases: a database that turns read-only; a database that lets nobody in; tables locked for long;
 * a database with other habits.
 */
import { afterAll, expect, test } from 'vitest'
import { createAgent } from '../../src/agent-kit/agent.ts'
import { openDatabase } from '../../src/store/postgres/database.ts'
import { ADMIN_TOKEN, startApp } from '../support/app.ts'
import { a2aClient, agentClient, post } from '../support/clients/actors.ts'
import { withClient } from '../support/database/database.ts'
import { metric } from '../support/steps.ts'
import { until } from '../support/until.ts'

const app = await startApp({ poolSize: 4, lockMs: 300, acquireMs: 1000 })
const { client, agent } = await app.queue('desk', { contexts: 'parallel' })
const a2a = a2aClient(app.url, 'desk', client.token)
const name = new URL(app.databaseUrl).pathname.slice(1)

/** A statement on the server, past the database of the test. */
const onServer = (text: string) => {
  const url = new URL(app.databaseUrl)
  url.pathname = '/postgres'
  return withClient(url.href, (sql) => sql.query(text))
}
/** What a new setting or right means to connections is seen by those made afterwards. */
const cutOff = () =>
  onServer(
    `select pg_terminate_backend(pid) from pg_stat_activity where datname = '${name}' and pid <> pg_backend_pid()`,
  )

const readiness = async () => {
  const response = await fetch(`${app.url}/readyz`)
  const { reasons } = (await response.json()) as { reasons: string[] }
  return { status: response.status, reasons }
}
const isReady = () => until(async () => (await readiness()).status === 200)
const isNotReady = (reason: string) =>
  until(async () => {
    const { status, reasons } = await readiness()
    return status === 503 && reasons.includes(reason)
  })

const rpc = (path: string, method: string, params: unknown, token: string) =>
  post(app.url + path, JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }), {
    token,
    headers: { 'A2A-Version': path.startsWith('/a2a') ? '1.0' : '' },
  })
const message = () => ({
  messageId: crypto.randomUUID(),
  role: 'ROLE_USER',
  parts: [{ text: 'x' }],
})

/** A write of each surface is refused: 503, when to try again, and the surface's own code. */
const refusesWrites = async (retryAfter: string): Promise<void> => {
  const calls = [
    ['/a2a/desk/', 'SendMessage', { message: message() }, client.token, -32603],
    ['/agent', 'todos.claim', {}, agent.token, -32014],
    ['/operator', 'queues.put', { name: 'other' }, ADMIN_TOKEN, -32014],
  ] as const
  for (const [path, method, params, token, code] of calls) {
    const { status, body, headers } = await rpc(path, method, params, token)
    expect([path, status, body.error.code]).toEqual([path, 503, code])
    expect(headers.get('retry-after')).toBe(retryAfter)
    // Nothing was done, so it may be repeated.
    expect(JSON.stringify(body)).not.toContain('unknown')
  }
  const rest = await post(
    `${app.url}/a2a/desk/message:send`,
    JSON.stringify({ message: message() }),
    {
      token: client.token,
      headers: { 'A2A-Version': '1.0' },
    },
  )
  expect([rest.status, rest.headers.get('retry-after')]).toEqual([503, retryAfter])
}

afterAll(() => onServer(`alter database "${name}" with allow_connections true`))

test('a database that turns read-only is named, and its connections are thrown away', async () => {
  const { id } = await a2a.submit('before')
  // Handed to whom it belongs once the database writes again.
  await agentClient(app.url, agent.token)
    .claim()
    .then(({ held }) => agentClient(app.url, agent.token).call('todos.complete', held))
  await onServer(`alter database "${name}" set default_transaction_read_only = on`)
  await cutOff()
  await isNotReady('the database is read-only')
  await refusesWrites('1')
  // Reading goes on.
  expect((await a2a.get(id)).status.state).toBe('TASK_STATE_COMPLETED')
  await onServer(`alter database "${name}" reset default_transaction_read_only`)
  // Nobody cuts the old connections off: each is thrown away as soon as it says that it is read-only.
  await until(
    async () =>
      (
        await a2a.call('SendMessage', {
          message: message(),
          configuration: { returnImmediately: true },
        })
      ).result,
  )
  await isReady()
})

test('work that ends while the database is read-only ends once, with its first attempt', async () => {
  const queue = await app.queue('slow', { contexts: 'parallel' })
  let runs = 0
  let begun = () => {}
  const working = new Promise<void>((resolve) => {
    begun = resolve
  })
  let go = () => {}
  const goes = new Promise<void>((resolve) => {
    go = resolve
  })
  const worker = createAgent({ url: app.url, token: queue.agent.token }, async () => {
    runs += 1
    begun()
    await goes
    return 'done'
  })
  worker.start()
  const side = a2aClient(app.url, 'slow', queue.client.token)
  const { id } = await side.submit('x')
  await working
  await onServer(`alter database "${name}" set default_transaction_read_only = on`)
  await cutOff()
  await isNotReady('the database is read-only')
  go()
  await refusesWrites('1')
  // The end of the work is refused, and reported again, for as long as that lasts.
  const refused =
    'switchboard_requests_total{surface="agent",method="todos.complete",code="-32014"}'
  await until(async () => (await metric(app, refused)) >= 4, { what: 'four reports of the end' })
  await onServer(`alter database "${name}" reset default_transaction_read_only`)
  await until(async () => (await side.get(id)).status.state === 'TASK_STATE_COMPLETED')
  await worker.stop()
  expect(runs).toBe(1)
  expect(await app.sql('select attempt, outcome from attempts where todo_id = $1', [id])).toEqual([
    { attempt: 1, outcome: 'completed' },
  ])
  await isReady()
})

test('a database that lets nobody in is named, and serves again once it does', async () => {
  await onServer(`alter database "${name}" with allow_connections false`)
  await cutOff()
  await isNotReady('the database lets nobody in')
  const { status, body } = await rpc(
    '/a2a/desk/',
    'SendMessage',
    { message: message() },
    client.token,
  )
  expect([status, body.error.code]).toEqual([503, -32603])
  await onServer(`alter database "${name}" with allow_connections true`)
  await isReady()
})

test('tables that somebody has locked are named as soon as statements have waited too long', async () => {
  await isReady()
  await withClient(app.databaseUrl, async (sql) => {
    await sql.query('begin')
    await sql.query('lock table todos in access exclusive mode')
    const configuration = { returnImmediately: true }
    const calls = [
      ['/a2a/desk/', 'ListTasks', {}, client.token],
      ['/a2a/desk/', 'SendMessage', { message: message(), configuration }, client.token],
      ['/agent', 'todos.claim', {}, agent.token],
      ['/operator', 'todos.list', {}, ADMIN_TOKEN],
    ] as const
    for (const [path, method, params, token] of calls) {
      const { status, headers, body } = await rpc(path, method, params, token)
      expect([method, status, headers.get('retry-after')]).toEqual([method, 503, '1'])
      expect(JSON.stringify(body)).not.toContain('unknown')
    }
    await isNotReady('statements wait too long in the database')
    await sql.query('rollback')
  })
  await isReady()
})

test('a database whose dates and intervals are written otherwise serves all the same', async () => {
  for (const habit of [`datestyle = 'German, DMY'`, `intervalstyle = 'iso_8601'`]) {
    await onServer(`alter database "${name}" set ${habit}`)
  }
  await cutOff()
  await isReady()
  const worker = agentClient(app.url, agent.token)
  const { id, status } = await a2a.submit('x')
  expect(status.timestamp).toMatch(/^20\d\d-\d\d-\d\dT/)
  await until(async () => {
    const todo = await worker.claim()
    await worker.call('todos.complete', todo.held)
    return todo.id === id
  })
  expect((await a2a.get(id)).status.state).toBe('TASK_STATE_COMPLETED')
})

type Word = [code: string, retryAfter: string, isUndone: boolean]

/** One or more of each class, and whether its statement has surely done nothing. */
const WORDS: Word[] = [
  ['08000', '1', false], // a connection exception
  ['08001', '1', true], // no connection could be made
  ['08004', '1', true], // the server rejected it
  ['08006', '1', false], // the connection failed
  ['25006', '1', true], // read-only
  ['25P03', '1', true], // idle in its transaction for too long
  ['28000', '1', true], // the login is refused
  ['3D000', '1', true], // there is no such database
  ['40003', '1', false], // nobody knows whether it was completed
  ['53000', '5', true], // too little of something
  ['53100', '5', true], // of the disk
  ['53200', '5', true], // of memory
  ['53300', '1', true], // of connections
  ['55P03', '1', true], // a lock that was not to be had
  ['57014', '1', true], // it took too long
  ['57P01', '1', false], // the server shuts down
  ['57P02', '1', false], // it has crashed
  ['57P03', '1', true], // it is starting
  ['57P04', '1', false], // the database was dropped
  ['58000', '5', false], // a fault of the system
  ['58030', '5', false], // of its files
]

/** Each new todo is answered with this word, by the server itself. */
const saysOfNewTodos = async (code: string): Promise<void> => {
  await app.sql(`create or replace function says() returns trigger language plpgsql as
    $$ begin raise exception 'of the test' using errcode = '${code}'; end $$`)
  await app.sql(`create or replace trigger says before insert on todos
    for each row execute function says()`)
}
const saysNothing = () => app.sql('drop function if exists says() cascade')

const sendOverA2a = () =>
  rpc(
    '/a2a/desk/',
    'SendMessage',
    { message: message(), configuration: { returnImmediately: true } },
    client.token,
  )
const sendAsOperator = () =>
  rpc(
    '/operator',
    'todos.send',
    { queue: 'desk', message: { parts: [{ text: 'x' }] } },
    ADMIN_TOKEN,
  )

test.each(WORDS)('%s is no fault of the call: 503 on each surface', async (...word) => {
  const [code, retryAfter, isUndone] = word
  await saysOfNewTodos(code)
  try {
    for (const send of [sendOverA2a, sendAsOperator]) {
      const { status, headers, body } = await send()
      expect([status, headers.get('retry-after')]).toEqual([503, retryAfter])
      expect([-32603, -32014]).toContain(body.error.code)
      expect(JSON.stringify(body)).not.toContain('of the test')
    }
    const { body } = await sendAsOperator()
    expect(body.error.data).toEqual({
      requestId: expect.any(String),
      reason: 'unavailable',
      retryAfterSeconds: Number(retryAfter),
      ...(!isUndone && { outcome: 'unknown' }),
    })
  } finally {
    await saysNothing()
  }
  expect((await sendOverA2a()).status).toBe(200)
})

test.each(['55000', '42501', '22012', 'P0001'])(
  '%s of a statement says nothing of the database, and is a fault of ours',
  async (code) => {
    await saysOfNewTodos(code)
    try {
      const { status, body } = await sendAsOperator()
      expect([status, body.error.data?.reason]).not.toContain('unavailable')
      expect(status).not.toBe(503)
    } finally {
      await saysNothing()
    }
    await isReady()
  },
)

test.each([
  ['53100', 'the disk of the database is full'],
  ['58030', 'statements fail in the database: its log says why'],
  ['57014', 'statements wait too long in the database'],
])('what %s means stands in readiness until statements get through', async (code, reason) => {
  await isReady()
  await saysOfNewTodos(code)
  try {
    // Two statements: a send, and one that is sent once.
    await sendOverA2a()
    await post(
      `${app.url}/a2a/desk/message:send`,
      JSON.stringify({ message: message(), configuration: { returnImmediately: true } }),
      {
        token: client.token,
        headers: { 'A2A-Version': '1.0', 'Idempotency-Key': crypto.randomUUID() },
      },
    )
    await isNotReady(reason)
  } finally {
    await saysNothing()
  }
  await sendOverA2a()
  await isReady()
})

test('only the connection that leads nowhere is thrown away after a transaction', async () => {
  const database = openDatabase({ connectionString: app.databaseUrl, poolSize: 1 })
  afterAll(() => database.close())
  const pid = async () =>
    (await database.query<{ pid: number }>('select pg_backend_pid() as pid', []))[0]?.pid
  const keepsAfter = async (code: string): Promise<boolean> => {
    const before = await pid()
    const failing = database.transaction((session) =>
      session.query(`do $$ begin raise exception using errcode = '${code}'; end $$`, []),
    )
    await expect(failing).rejects.toMatchObject({ kind: 'unavailable' })
    return (await pid()) === before
  }
  expect(await keepsAfter('53100')).toBe(true)
  expect(await keepsAfter('25006')).toBe(false)
  expect(await keepsAfter('55P03')).toBe(true)
})
