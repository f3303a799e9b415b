// The same send under a key: by header, by metadata and by the queue's policy.
// Field cases: the same send again; defaults written or left out; other words under a known id.
import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { ADMIN_TOKEN, startApp, startNode } from '../support/app.ts'
import { type Answer, a2aClient, agentClient, rpc, textMessage } from '../support/clients/actors.ts'
import { restClient } from '../support/clients/rest.ts'
import { ask, operate, resultsOf, rowCounts, saying } from '../support/steps.ts'
import { until } from '../support/until.ts'

const app = await startApp({ maxWaitMs: 20_000 })
const { client, agent } = await app.queue('desk')
await app.queue('annex')
const other = await app.vend(['send'], ['desk', 'annex'])
const guarded = await app.queue('guarded', { dedupe: 'messageId' })

const a2a = a2aClient(app.url, 'desk', client.token)
const worker = agentClient(app.url, agent.token)
const NOW = { returnImmediately: true }
const MEMBER = 'urn:switchboard:idempotency-key'

interface Sending {
  configuration?: object
  metadata?: object
  as?: ReturnType<typeof a2aClient>
}

/** A send under a key, by the header. */
const keyed = (
  key: string,
  message: object,
  { configuration = NOW, metadata, as = a2a }: Sending = {},
): Promise<Answer> =>
  as.call(
    'SendMessage',
    { message, configuration, ...(metadata && { metadata }) },
    { headers: { 'Idempotency-Key': key } },
  )

const taskOf = (answer: Answer): Answer => {
  if (!answer.result?.task) throw new Error(JSON.stringify(answer))
  return answer.result.task
}

const REASON = (answer: Answer): [number, string] => [
  answer.error?.code,
  answer.error?.data?.[0]?.reason,
]
const CONFLICT = [-32000, 'IDEMPOTENCY_CONFLICT']

const todosOf = async (text: string): Promise<string[]> =>
  (
    await app.sql<{ id: string }>(
      `select todo_id as id from messages where message::text like $1 and seq = 1`,
      [`%${text}%`],
    )
  ).map(({ id }) => id)

/** Makes the key as old as its window. */
const age = (key: string) =>
  app.sql(`update idempotency_keys set expires_at = now() where key = $1`, [key])

const keysNamed = async (key: string): Promise<number> =>
  (await app.sql('select from idempotency_keys where key = $1', [key])).length

const counts = async () => ({
  ...(await rowCounts(app)),
  keys: (await app.sql('select from idempotency_keys')).length,
})

const claimOf = async (id: string, as = worker) => {
  const todo = await as.claim()
  expect(todo.id).toBe(id)
  return todo
}

const finish = async (id: string, text = 'done') => {
  const todo = await claimOf(id)
  await worker.call('todos.complete', { ...todo.held, message: saying(text) })
}

test('twice in a row it is one task, and the repeat says so', async () => {
  const key = randomUUID()
  const message = textMessage(key)
  const first = taskOf(await keyed(key, message))
  const again = taskOf(await keyed(key, message))
  expect(first.metadata).toBeUndefined()
  expect(again).toEqual({
    ...first,
    metadata: {
      'urn:switchboard:receipt': {
        messageId: message.messageId,
        seq: 1,
        outcome: 'repeated',
        answers: null,
      },
    },
  })
  expect(await todosOf(key)).toEqual([first.id])
  await finish(first.id)
})

test('twenty at the same instant are one task', async () => {
  const key = randomUUID()
  const message = textMessage(key)
  const answers = await Promise.all(Array.from({ length: 20 }, () => keyed(key, message)))
  const ids = new Set(answers.map((answer) => taskOf(answer).id))
  expect(ids.size).toBe(1)
  expect(await todosOf(key)).toEqual([...ids])
  await finish([...ids][0])
})

test('twenty into one conversation at the same instant, over two nodes, are one task', async () => {
  const second = await startNode(app.databaseUrl)
  try {
    const there = a2aClient(second.url, 'desk', client.token)
    const key = randomUUID()
    const message = textMessage(key, { contextId: randomUUID() })
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, n) => keyed(key, message, { as: n % 2 ? there : a2a })),
    )
    const ids = new Set(answers.map((answer) => taskOf(answer).id))
    expect(ids.size).toBe(1)
    expect(await todosOf(key)).toEqual([...ids])
    await finish([...ids][0])
  } finally {
    await second.stop()
  }
})

test('with another content the key is refused, and nothing is stored', async () => {
  const key = randomUUID()
  const message = textMessage(key)
  const { id } = taskOf(await keyed(key, message))
  const before = await counts()
  const others: [object, Sending?][] = [
    [{ ...message, parts: [{ text: 'something else' }] }],
    [{ ...message, contextId: randomUUID() }],
    [{ ...message, metadata: { a: 1 } }],
    [{ ...message, parts: [...message.parts, { text: '' }] }],
    [message, { metadata: { 'urn:switchboard:timeouts': { heartbeat: 60 } } }],
  ]
  for (const [changed, sending] of others) {
    expect(REASON(await keyed(key, changed, sending))).toEqual(CONFLICT)
  }
  const stream = await a2a.stream(
    'SendStreamingMessage',
    { message: { ...message, parts: [{ text: 'x' }] } },
    { headers: { 'Idempotency-Key': key } },
  )
  expect(REASON(stream.body)).toEqual(CONFLICT)
  expect(await counts()).toEqual(before)
  await finish(id)
})

test('how it is written, and how it is answered, does not make it another', async () => {
  const key = randomUUID()
  const data = { z: { b: [1, { d: null, c: 'é' }], a: 1.5 }, y: key }
  const again = { y: key, z: { a: 1.5, b: [1, { c: 'é', d: null }] } }
  const message = { ...textMessage(''), parts: [{ data, mediaType: 'application/json' }] }
  const { id } = taskOf(await keyed(key, message))
  const rewritten = {
    parts: [{ mediaType: 'application/json', data: again }],
    role: 'ROLE_USER',
    extensions: [],
    metadata: {},
    // Of a client that makes its ids anew at each try.
    message_id: randomUUID(),
  }
  for (const sending of [
    {},
    { configuration: { ...NOW, historyLength: 0, acceptedOutputModes: ['text/plain'] } },
    { metadata: { [MEMBER]: key } },
  ]) {
    expect(taskOf(await keyed(key, rewritten, sending)).id).toBe(id)
  }
  await finish(id)
})

test('the metadata names a send as the header does; where both do, they must agree', async () => {
  const key = randomUUID()
  const message = textMessage(key)
  const { id } = taskOf(await keyed(key, message))
  const byMember = await a2a.call('SendMessage', {
    message,
    configuration: NOW,
    metadata: { [MEMBER]: key },
  })
  expect(taskOf(byMember).id).toBe(id)
  const refused = await keyed(key, message, { metadata: { [MEMBER]: 'another' } })
  expect(REASON(refused)).toEqual([-32602, 'INVALID_PARAMS'])
  expect(JSON.stringify(refused)).toContain(MEMBER)
  await finish(id)
})

test.each([
  ['an empty one', ''],
  ['one of 256 characters', 'k'.repeat(256)],
  ['one with a letter beyond ASCII', 'clé'],
  ['one with a tab', 'a\tb'],
])('%s is no key: it is refused by its name and nothing is stored', async (_, key) => {
  const before = await counts()
  const byHeader = await keyed(key, textMessage('x'))
  expect(REASON(byHeader)).toEqual([-32602, 'INVALID_PARAMS'])
  expect(byHeader.error.data[1].fieldViolations[0].field).toBe('Idempotency-Key')
  const byMember = await a2a.call('SendMessage', {
    message: textMessage('x'),
    configuration: NOW,
    metadata: { [MEMBER]: key },
  })
  expect(byMember.error.data[1].fieldViolations[0].field).toBe(`metadata.${MEMBER}`)
  expect(await counts()).toEqual(before)
})

test.each([[1], [null], [{}], [['k']]])('%j in the metadata is no key', async (key) => {
  const answer = await a2a.call('SendMessage', {
    message: textMessage('x'),
    configuration: NOW,
    metadata: { [MEMBER]: key },
  })
  expect(REASON(answer)).toEqual([-32602, 'INVALID_PARAMS'])
})

test('a key of 255 characters, with blanks and quotes, is one', async () => {
  const key = `"${'k y'.repeat(84)}"`.padEnd(255, '~')
  const message = textMessage(randomUUID())
  const { id } = taskOf(await keyed(key, message))
  expect(taskOf(await keyed(key, message)).id).toBe(id)
  await finish(id)
})

test('without a key the same message twice is two tasks', async () => {
  const message = textMessage(randomUUID())
  const ids = await Promise.all(
    [1, 2].map(
      async () => taskOf(await a2a.call('SendMessage', { message, configuration: NOW })).id,
    ),
  )
  expect(new Set(ids).size).toBe(2)
  for (const id of ids) await a2a.call('CancelTask', { id })
})

test('a key is its sender’s and its queue’s alone', async () => {
  const key = randomUUID()
  const message = textMessage(key)
  const mine = taskOf(await keyed(key, message)).id
  const theirs = a2aClient(app.url, 'desk', other.token)
  const elsewhere = a2aClient(app.url, 'annex', other.token)
  const another = { ...message, parts: [{ text: `not ${key}` }] }
  const stranger = taskOf(await keyed(key, another, { as: theirs }))
  const annexed = taskOf(
    await keyed(key, { ...message, parts: [{ text: 'x' }] }, { as: elsewhere }),
  )
  expect(new Set([mine, stranger.id, annexed.id]).size).toBe(3)
  expect(stranger.metadata).toBeUndefined()
  await a2a.call('CancelTask', { id: mine })
  await theirs.call('CancelTask', { id: stranger.id })
})

test('a rotated token is the same sender', async () => {
  const vended = await app.vend(['send'], ['desk'])
  const key = randomUUID()
  const message = textMessage(key)
  const sender = (token: string) => ({ as: a2aClient(app.url, 'desk', token) })
  const { id } = taskOf(await keyed(key, message, sender(vended.token)))
  const { token } = await operate(app, 'endpoints.rotate', { id: vended.endpoint.id })
  expect(taskOf(await keyed(key, message, sender(token))).id).toBe(id)
  await a2aClient(app.url, 'desk', token).call('CancelTask', { id })
})

test('a key outlives the server, and is free once its window is over, swept or not', async () => {
  const key = randomUUID()
  const message = textMessage(key)
  const { id } = taskOf(await keyed(key, message))
  const restarted = await startNode(app.databaseUrl)
  try {
    const there = a2aClient(restarted.url, 'desk', client.token)
    expect(taskOf(await keyed(key, message, { as: there })).id).toBe(id)
  } finally {
    await restarted.stop()
  }
  const [{ hours }] = (await app.sql<{ hours: number }>(
    `select extract(epoch from expires_at - created_at) / 3600 as hours
     from idempotency_keys where key = $1`,
    [key],
  )) as [{ hours: string | number }]
  expect(Number(hours)).toBeCloseTo(24, 3)

  await age(key)
  const changed = { ...message, parts: [{ text: `later ${key}` }] }
  const later = taskOf(await keyed(key, changed))
  expect(later.id).not.toBe(id)
  expect(taskOf(await keyed(key, changed)).id).toBe(later.id)
  expect(REASON(await keyed(key, message))).toEqual(CONFLICT)
  for (const each of [id, later.id]) await a2a.call('CancelTask', { id: each })
})

test('twenty at the instant after the window are one new task', async () => {
  const key = randomUUID()
  const message = textMessage(key)
  const { id } = taskOf(await keyed(key, message))
  await age(key)
  const answers = await Promise.all(Array.from({ length: 20 }, () => keyed(key, message)))
  const ids = new Set(answers.map((answer) => taskOf(answer).id))
  expect(ids.size).toBe(1)
  expect(ids.has(id)).toBe(false)
  for (const each of [id, ...ids]) await a2a.call('CancelTask', { id: each })
})

test('the janitor deletes what is over, and nothing else', async () => {
  const [old, live] = [randomUUID(), randomUUID()]
  const ids = []
  for (const key of [old, live]) ids.push(taskOf(await keyed(key, textMessage(key))).id)
  await age(old)
  await app.sweep.tidy()
  expect([await keysNamed(old), await keysNamed(live)]).toEqual([0, 1])
  for (const id of ids) await a2a.call('CancelTask', { id })
})

test('the window can be made longer, and not shorter than a day', async () => {
  const setting = 'idempotency_window_seconds'
  for (const value of ['86399', '0', 'never', '99999999']) {
    await expect(operate(app, 'settings.set', { key: setting, value })).rejects.toThrow()
  }
  await operate(app, 'settings.set', { key: setting, value: '172800' })
  try {
    const days = async (): Promise<number> => {
      const key = randomUUID()
      const { id } = taskOf(await keyed(key, textMessage(key)))
      await a2a.call('CancelTask', { id })
      const [row] = await app.sql<{ days: string }>(
        `select extract(epoch from expires_at - created_at) / 86400 as days
         from idempotency_keys where key = $1`,
        [key],
      )
      return Math.round(Number(row!.days))
    }
    await until(async () => (await days()) === 2)
  } finally {
    await operate(app, 'settings.unset', { key: setting })
  }
})

test('a repeat that blocks waits for the answer, and a later one has it at once', async () => {
  const key = randomUUID()
  const message = textMessage(key)
  const waiting = [1, 2, 3].map(() => keyed(key, message, { configuration: {} }))
  const todo = await worker.claim()
  await worker.call('todos.artifact', {
    ...todo.held,
    artifact: { artifactId: 'a', parts: [{ text: 'x' }] },
  })
  await worker.call('todos.complete', { ...todo.held, message: saying('the answer') })
  const finished = [
    ...(await Promise.all(waiting)),
    await keyed(key, message, { configuration: {} }),
    await keyed(key, message),
  ]
  for (const answer of finished) {
    expect(taskOf(answer)).toMatchObject({
      id: todo.id,
      status: { state: 'TASK_STATE_COMPLETED', message: saying('the answer') },
      artifacts: [{ artifactId: 'a' }],
    })
  }
  expect(await todosOf(key)).toEqual([todo.id])
})

test('a bare message is the answer of the repeat, too', async () => {
  const key = randomUUID()
  const message = textMessage(key)
  const first = keyed(key, message, { configuration: {} })
  const todo = await worker.claim()
  await worker.call('todos.complete', { ...todo.held, message: saying('plain'), direct: true })
  const bare = (await first).result
  expect(bare.message).toMatchObject(saying('plain'))
  expect((await keyed(key, message)).result).toEqual(bare)
})

test('a repeat shows the question that is open, and the answer to it goes to the one task', async () => {
  const key = randomUUID()
  const message = textMessage(key)
  const { id } = taskOf(await keyed(key, message))
  const todo = await claimOf(id)
  await ask(worker, todo, 'which?')
  const asked = taskOf(await keyed(key, message, { configuration: {} }))
  expect(asked.status).toMatchObject({
    state: 'TASK_STATE_INPUT_REQUIRED',
    message: saying('which?'),
  })
  await a2a.send('this', { taskId: id }, NOW)
  await worker.call('todos.complete', {
    ...todo.held,
    acknowledge: (await worker.call('todos.messages', { ...todo.held })).messages[0].seq,
  })
  expect(taskOf(await keyed(key, message)).status.state).toBe('TASK_STATE_COMPLETED')
})

test('canceled, failed and rejected tasks are answered as they ended', async () => {
  const ends: [string, (id: string) => Promise<unknown>][] = [
    ['TASK_STATE_CANCELED', (id) => a2a.call('CancelTask', { id })],
    [
      'TASK_STATE_FAILED',
      async (id) => {
        const { held } = await claimOf(id)
        const error = { code: 'x', message: 'y' }
        await worker.call('todos.fail', { ...held, error, retryable: false })
      },
    ],
    ['TASK_STATE_REJECTED', async (id) => worker.call('todos.reject', (await claimOf(id)).held)],
  ]
  for (const [state, end] of ends) {
    const key = randomUUID()
    const message = textMessage(key)
    const { id } = taskOf(await keyed(key, message))
    await end(id)
    const again = taskOf(await keyed(key, message, { configuration: {} }))
    expect([again.id, again.status.state]).toEqual([id, state])
  }
})

test('a stream of a repeat shows the task and goes on to its end', async () => {
  const key = randomUUID()
  const params = { message: textMessage(key) }
  const options = { headers: { 'Idempotency-Key': key } }
  const first = await a2a.stream('SendStreamingMessage', params, options)
  const todo = await worker.claim()
  await worker.call('todos.say', { ...todo.held, message: saying('half way') })
  const again = await a2a.stream('SendStreamingMessage', params, options)
  const shown = await again.next()
  expect(shown?.json.result.task).toMatchObject({
    id: todo.id,
    status: { state: 'TASK_STATE_WORKING', message: saying('half way') },
  })
  await worker.call('todos.complete', { ...todo.held, message: saying('done') })
  const last = (await again.rest()).at(-1)
  expect(last?.json.result.statusUpdate.status.state).toBe('TASK_STATE_COMPLETED')
  expect(resultsOf(await first.rest()).at(-1).statusUpdate.taskId).toBe(todo.id)

  const over = await (await a2a.stream('SendStreamingMessage', params, options)).rest()
  expect(resultsOf(over)).toMatchObject([
    { task: { id: todo.id, status: { state: 'TASK_STATE_COMPLETED' } } },
  ])
  expect(await todosOf(key)).toEqual([todo.id])
})

test('where the statement fails there is neither task nor key, and the next try succeeds', async () => {
  const key = randomUUID()
  const message = textMessage(key)
  const before = await counts()
  await app.sql('alter table details rename column metadata to hidden')
  try {
    expect((await keyed(key, message)).error.code).toBe(-32603)
  } finally {
    await app.sql('alter table details rename column hidden to metadata')
  }
  await app.sql('alter table idempotency_keys rename column digest to hidden')
  try {
    expect((await keyed(key, message)).error.code).toBe(-32603)
    // Who sends without a key does not even notice.
    await a2a.call('CancelTask', { id: (await a2a.submit('x')).id })
  } finally {
    await app.sql('alter table idempotency_keys rename column hidden to digest')
  }
  expect(await keysNamed(key)).toBe(0)
  expect((await counts()).keys).toBe(before.keys)
  const { id } = taskOf(await keyed(key, message))
  expect(await todosOf(key)).toEqual([id])
  await finish(id)
})

test('a send that is refused stores no key, so that it can be corrected', async () => {
  const key = randomUUID()
  const message = textMessage(key)
  const wrong = { metadata: { 'urn:switchboard:busy': 'maybe' } }
  expect(REASON(await keyed(key, message, wrong))[0]).toBe(-32602)
  const lost = { ...message, taskId: randomUUID() }
  expect(REASON(await keyed(key, lost))[0]).toBe(-32001)
  expect(await keysNamed(key)).toBe(0)
  const { id } = taskOf(await keyed(key, message))
  await finish(id)
  // A follow-up to what has ended is refused as ever.
  const late = randomUUID()
  expect(REASON(await keyed(late, { ...textMessage('x'), taskId: id }))[0]).toBe(-32004)
  expect(await keysNamed(late)).toBe(0)
})

test('other methods do not look at the header', async () => {
  const { id } = await a2a.submit('x')
  const options = { headers: { 'Idempotency-Key': 'clé' } }
  expect((await a2a.call('GetTask', { id }, options)).result.id).toBe(id)
  expect((await a2a.call('CancelTask', { id }, options)).result.id).toBe(id)
})

/* --------------------------------------------------------------- follow-ups */

const messagesOf = async (id: string): Promise<string[]> =>
  (
    await app.sql<{ text: string }>(
      `select message->'parts'->0->>'text' as text from messages
       where todo_id = $1 and role = 'user' order by seq`,
      [id],
    )
  ).map(({ text }) => text)

test('a repeated message id in one task is one message, with or without a key', async () => {
  const { id } = await a2a.submit('first')
  const todo = await claimOf(id)
  const again = { ...textMessage('again'), taskId: id }
  for (let n = 0; n < 2; n += 1) {
    await a2a.call('SendMessage', { message: again, configuration: NOW })
  }
  const key = randomUUID()
  expect(taskOf(await keyed(key, again)).id).toBe(id)
  expect(await messagesOf(id)).toEqual(['first', 'again'])
  // The key is taken all the same.
  expect(REASON(await keyed(key, { ...textMessage('other'), taskId: id }))).toEqual(CONFLICT)
  const [{ seq }] = (await worker.call('todos.messages', todo.held)).messages
  await worker.call('todos.complete', { ...todo.held, acknowledge: seq })
})

const taken = async (message: object, more = {}) => {
  const { result } = await a2a.call('SendMessage', { message, configuration: NOW, ...more })
  return result.task.metadata['urn:switchboard:receipt'].outcome
}

test('other words under an id that the task has are a message of their own, whoever had the id', async () => {
  const first = textMessage('first')
  const sent = await a2a.call('SendMessage', { message: first, configuration: NOW })
  const { id } = taskOf(sent)
  const todo = await claimOf(id)
  const question = { messageId: 'the-question', ...saying('which?') }
  await worker.call('todos.interrupt', { ...todo.held, state: 'input-required', message: question })
  // The id of the question is the agent's, and its words from the client are still an answer.
  const answer = { ...textMessage('which?'), messageId: 'the-question', taskId: id }
  expect(await taken(answer)).toBe('resumed')
  expect(await taken(answer)).toBe('repeated')
  const more = { ...textMessage('more'), messageId: first.messageId, taskId: id }
  expect(await taken(more)).toBe('inbox')
  expect(await taken(more)).toBe('repeated')
  expect(await taken({ ...first, taskId: id })).toBe('repeated')
  for (const change of [{ metadata: { a: 1 } }, { extensions: ['urn:x'] }]) {
    expect(await taken({ ...more, ...change })).toBe('inbox')
    expect(await taken({ ...more, ...change })).toBe('repeated')
  }
  expect(await messagesOf(id)).toEqual(['first', 'which?', 'more', 'more', 'more'])
  const { messages } = await worker.call('todos.messages', todo.held)
  expect(messages.map((each: Answer) => each.message.messageId)).toEqual([
    'the-question',
    ...Array(3).fill(first.messageId),
  ])
  await worker.call('todos.complete', { ...todo.held, acknowledge: messages.at(-1).seq })
  expect(await taken(more)).toBe('repeated')
  const late = await a2a.call('SendMessage', {
    message: { ...textMessage('late'), messageId: first.messageId, taskId: id },
  })
  expect(late.error.code).toBe(-32004)
})

test('of twenty at once under one id each content is one message', async () => {
  const { id } = await a2a.submit('first')
  const todo = await claimOf(id)
  const messageId = randomUUID()
  const outcomes = await Promise.all(
    Array.from({ length: 20 }, (_, n) =>
      taken({ ...textMessage(n % 2 ? 'odd' : 'even'), messageId, taskId: id }),
    ),
  )
  expect(outcomes.filter((outcome) => outcome === 'inbox')).toHaveLength(2)
  expect((await messagesOf(id)).toSorted()).toEqual(['even', 'first', 'odd'])
  const { messages } = await worker.call('todos.messages', todo.held)
  await worker.call('todos.complete', { ...todo.held, acknowledge: messages.at(-1).seq })
})

test('members that hold their default, written or left out, are the same send and the same message', async () => {
  const key = randomUUID()
  const bare = {
    messageId: 'm-bare',
    role: 'ROLE_USER',
    parts: [{ text: '' }, { data: { mediaType: '', a: {} } }, { raw: 'aGk=' }],
  }
  const defaults = { mediaType: '', filename: '', metadata: {} }
  const written = {
    ...bare,
    contextId: '',
    taskId: '',
    extensions: [],
    referenceTaskIds: [],
    metadata: {},
    parts: bare.parts.map((part) => ({ ...part, ...defaults })),
  }
  const { id } = taskOf(await keyed(key, bare))
  expect(taskOf(await keyed(key, written)).id).toBe(id)
  // What a part contains is no default: an empty object is another value than none.
  const other = [{ text: '' }, { data: { a: {} } }, { raw: 'aGk=' }]
  expect(REASON(await keyed(key, { ...bare, parts: other }))).toEqual(CONFLICT)
  expect(await taken({ ...written, taskId: id })).toBe('repeated')
  await a2a.call('CancelTask', { id })
})

test('one send is the same through the dialects of both versions, over either binding', async () => {
  const key = randomUUID()
  const headers = { 'Idempotency-Key': key }
  const v03 = { 'A2A-Version': '0.3', ...headers }
  const { id } = taskOf(await keyed(key, { ...textMessage('a'), metadata: { n: 1 } }))
  const old = {
    kind: 'message',
    messageId: 'other',
    role: 'user',
    parts: [{ kind: 'text', text: 'a', metadata: {} }],
    metadata: { n: 1.0 },
  }
  const configuration = { blocking: false }
  const { result } = await a2a.call(
    'message/send',
    { message: old, configuration },
    { headers: v03 },
  )
  expect(result.id).toBe(id)
  const rest = restClient(app.url, 'desk', client.token)
  const body = {
    message: { ...textMessage('a'), parts: [{ text: 'a', mediaType: '' }], metadata: { n: 1 } },
    configuration: NOW,
  }
  expect((await rest.call('POST', '/message:send', { body, headers })).body.task.id).toBe(id)
  await a2a.call('CancelTask', { id })
})

test('twenty keyed answers at the same instant, their ids made anew, are one answer', async () => {
  const { id } = await a2a.submit('first')
  const todo = await claimOf(id)
  await ask(worker, todo, 'which?')
  const key = randomUUID()
  const answers = await Promise.all(
    Array.from({ length: 20 }, () => keyed(key, { ...textMessage('this'), taskId: id })),
  )
  expect(answers.map((answer) => taskOf(answer).id)).toEqual(Array(20).fill(id))
  const outcomes = answers.map(
    (answer) => taskOf(answer).metadata['urn:switchboard:receipt'].outcome,
  )
  expect(outcomes.filter((outcome) => outcome !== 'repeated')).toEqual(['resumed'])
  expect(await messagesOf(id)).toEqual(['first', 'this'])

  const { messages } = await worker.call('todos.messages', todo.held)
  const changed = { ...textMessage('that'), taskId: id }
  expect(REASON(await keyed(key, changed))).toEqual(CONFLICT)
  await worker.call('todos.complete', { ...todo.held, acknowledge: messages[0].seq })
  // Its task has ended: still the same answer.
  const late = taskOf(await keyed(key, { ...textMessage('this'), taskId: id }))
  expect([late.id, late.status.state]).toEqual([id, 'TASK_STATE_COMPLETED'])
  expect(await messagesOf(id)).toEqual(['first', 'this'])
})

test('a key of a new task is not one of a follow-up, nor of another task', async () => {
  const key = randomUUID()
  const message = textMessage('first')
  const { id } = taskOf(await keyed(key, message))
  const another = await a2a.submit('x')
  for (const taskId of [id, another.id]) {
    expect(REASON(await keyed(key, { ...message, taskId }))).toEqual(CONFLICT)
  }
  for (const each of [id, another.id]) await a2a.call('CancelTask', { id: each })
})

test('a keyed answer that must wait for the line, or goes before its front, is one answer', async () => {
  for (const claimed of [true, false]) {
    const contextId = randomUUID()
    const { id } = await a2a.submit('asks', { contextId })
    const todo = await claimOf(id)
    await ask(worker, todo, 'which?')
    const next = await a2a.submit('next', { contextId })
    const holder = claimed ? await claimOf(next.id) : null
    const key = randomUUID()
    const answer = { ...textMessage('this'), taskId: id }
    const receipts = []
    for (let n = 0; n < 2; n += 1) {
      receipts.push(taskOf(await keyed(key, answer)).metadata['urn:switchboard:receipt'].outcome)
    }
    expect(receipts).toEqual([claimed ? 'deferred' : 'resumed', 'repeated'])
    expect(await messagesOf(id)).toEqual(['asks', 'this'])
    if (holder) await worker.call('todos.complete', holder.held)
    for (const each of [id, next.id]) await a2a.call('CancelTask', { id: each })
  }
})

/* ------------------------------------------------------- busy conversations */

const wishing = (busy: string): Sending => ({ metadata: { 'urn:switchboard:busy': busy } })

test.each(['interrupt', 'rollback'])(
  'a repeat of a send that wishes to %s cancels nothing more, least of all its own task',
  async (busy) => {
    const contextId = randomUUID()
    const victim = await a2a.submit('victim', { contextId })
    const key = randomUUID()
    const message = textMessage(key, { contextId })
    const answers = await Promise.all(
      Array.from({ length: 20 }, () => keyed(key, message, wishing(busy))),
    )
    const ids = new Set(answers.map((answer) => taskOf(answer).id))
    expect(ids.size).toBe(1)
    const [id] = ids
    expect((await a2a.get(victim.id)).status.state).toBe('TASK_STATE_CANCELED')
    const later = await a2a.submit('later', { contextId })
    expect(taskOf(await keyed(key, message, wishing(busy))).id).toBe(id)
    for (const each of [id, later.id]) {
      expect((await a2a.get(each)).status.state).toBe('TASK_STATE_SUBMITTED')
    }
    for (const each of [later.id, id]) await a2a.call('CancelTask', { id: each })
  },
)

test('a send that wished to be refused stays refused, and its repeat does not wait', async () => {
  const contextId = randomUUID()
  const { id } = await a2a.submit('first', { contextId })
  const key = randomUUID()
  const message = textMessage(key, { contextId })
  const rejected = taskOf(await keyed(key, message, wishing('reject')))
  expect(rejected.status.state).toBe('TASK_STATE_REJECTED')
  await a2a.call('CancelTask', { id })
  const again = taskOf(await keyed(key, message, { ...wishing('reject'), configuration: {} }))
  expect([again.id, again.status.state]).toEqual([rejected.id, 'TASK_STATE_REJECTED'])
})

test('where an author speaks to its live task, a repeat is neither a second message nor a task', async () => {
  const { client, agent } = await app.queue('author', { reentry: 'author', dedupe: 'messageId' })
  const author = a2aClient(app.url, 'author', client.token)
  const holder = agentClient(app.url, agent.token)
  const contextId = randomUUID()
  const first = await author.submit('first', { contextId })
  const todo = await claimOf(first.id, holder)
  const key = randomUUID()
  const byKey = () => keyed(key, textMessage('more', { contextId }), { as: author })
  const byId = textMessage('and more', { contextId })
  const send = () => author.call('SendMessage', { message: byId, configuration: NOW })
  const answers = await Promise.all(Array.from({ length: 10 }, byKey))
  for (let n = 0; n < 2; n += 1) answers.push(await send())
  expect(new Set(answers.map((answer) => taskOf(answer).id))).toEqual(new Set([first.id]))
  expect(await messagesOf(first.id)).toEqual(['first', 'more', 'and more'])
  const { messages } = await holder.call('todos.messages', todo.held)
  await holder.call('todos.complete', { ...todo.held, acknowledge: messages.at(-1).seq })
  // The task has ended: what belonged to it still does.
  for (const answer of [await byKey(), await send()]) expect(taskOf(answer).id).toBe(first.id)
  expect(await messagesOf(first.id)).toEqual(['first', 'more', 'and more'])
})

/* ---------------------------------------------------------------- by policy */

const door = a2aClient(app.url, 'guarded', guarded.client.token)
const usher = agentClient(app.url, guarded.agent.token)

test('by the policy the message id is the key of a new task', async () => {
  const message = textMessage(randomUUID())
  const send = (more: object = {}) =>
    door.call('SendMessage', { message: { ...message, ...more }, configuration: NOW })
  const answers = await Promise.all(Array.from({ length: 20 }, () => send()))
  const [id, ...others] = new Set(answers.map((answer) => taskOf(answer).id))
  expect(others).toEqual([])
  expect(REASON(await send({ parts: [{ text: 'changed' }] }))).toEqual(CONFLICT)
  const other = taskOf(await send({ messageId: randomUUID() }))
  expect(other.id).not.toBe(id)

  const todo = await usher.claim()
  await usher.call('todos.complete', { ...todo.held, message: saying('done') })
  expect(taskOf(await send()).status.message).toMatchObject(saying('done'))
  await age(message.messageId)
  expect(taskOf(await send()).id).not.toBe(id)
})

test('a key that is given goes before the message id, and the two are told apart', async () => {
  const message = textMessage('x')
  const ids = []
  for (const key of [message.messageId, randomUUID()]) {
    ids.push(taskOf(await keyed(key, message, { as: door })).id)
  }
  ids.push(taskOf(await door.call('SendMessage', { message, configuration: NOW })).id)
  expect(new Set(ids).size).toBe(3)
})

test('a policy that is switched off again leaves ids to be ids', async () => {
  await app.queue('switched', { dedupe: 'messageId' })
  const { token } = await app.vend(['send'], ['switched'])
  const sender = a2aClient(app.url, 'switched', token)
  const message = textMessage('x')
  const send = async () =>
    taskOf(await sender.call('SendMessage', { message, configuration: NOW })).id
  const first = await send()
  expect(await send()).toBe(first)
  await operate(app, 'queues.put', { name: 'switched', policy: { dedupe: 'off' } })
  await until(async () => (await send()) !== first)
})

test('an operator is one sender: by the header, and by the policy', async () => {
  const send = (queue: string, message: object, headers = {}) =>
    rpc(`${app.url}/operator`, 'todos.send', { queue, message }, { token: ADMIN_TOKEN, headers })
  const message = { messageId: randomUUID(), ...saying('x') }
  for (const [queue, headers] of [
    ['annex', { 'Idempotency-Key': randomUUID() }],
    ['guarded', {}],
  ] as const) {
    const first = (await send(queue, message, headers)).result
    expect((await send(queue, message, headers)).result.id).toBe(first.id)
    const { error } = await send(queue, { ...message, ...saying('y') }, headers)
    expect([error.code, error.data.reason]).toEqual([-32010, 'idempotency_conflict'])
  }
  const { error } = await send('annex', message, { 'Idempotency-Key': 'clé' })
  expect([error.code, error.data.violations[0].field]).toEqual([-32602, 'Idempotency-Key'])
})
