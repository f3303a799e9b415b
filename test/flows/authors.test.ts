// Whom a message is from among the people behind one client, and two clients in one line.
import { expect, test } from 'vitest'
import { runCli } from '../cli/run.ts'
import { ADMIN_TOKEN, startApp } from '../support/app.ts'
import { type Answer, a2aClient, agentClient, rpc, textMessage } from '../support/clients/actors.ts'
import { ask, nextOf, openBoard, operate, refusalOf, rowCounts, saying } from '../support/steps.ts'

const app = await startApp({ reapMs: 3_600_000 })

const MEMBER = 'switchboard/author'

const place = async (name: string, policy: Record<string, unknown> = {}) => {
  const { client, agent } = await app.queue(name, policy)
  const speaker = (token: string) => {
    const a2a = a2aClient(app.url, name, token)
    const call = (text: string, metadata?: Record<string, unknown>, more: object = {}) =>
      a2a.call('SendMessage', {
        message: textMessage(text, { contextId: 'group', ...more }),
        configuration: { returnImmediately: true },
        ...(metadata && { metadata }),
      })
    const from = async (author: string | null, text: string, more: object = {}, also = {}) =>
      (await call(text, { ...(author !== null && { [MEMBER]: author }), ...also }, more)).result
        .task
    return { a2a, call, from }
  }
  const other = await app.vend(['send'], [name])
  return {
    ...speaker(client.token),
    other: speaker(other.token),
    worker: agentClient(app.url, agent.token),
  }
}
const receiptOf = (task: Answer) => task.metadata?.['urn:switchboard:receipt']
const shown = (id: string) => operate(app, 'todos.show', { id })

test.each(['question', 'author'])(
  'Bob’s message is his own task in the line, and never an answer or a word to Ann’s (reentry: %s)',
  async (reentry) => {
    const { from, worker } = await place(`people-${reentry}`, { reentry })
    const ann = await from('ann', 'a table')
    const hers = await worker.claim()
    await ask(worker, hers, 'for when?')
    const bob = await from('bob', 'tomorrow')
    const nobody = await from(null, 'tonight')
    expect(new Set([ann.id, bob.id, nobody.id]).size).toBe(3)
    // Nobody else is told that she is asked something.
    expect(receiptOf(bob)).toBeUndefined()
    expect(receiptOf(nobody)).toBeUndefined()
    expect((await shown(ann.id)).question).not.toBeNull()
    const his = await worker.claim()
    expect(his).toMatchObject({ id: bob.id, author: 'bob' })

    const answer = await from('ann', 'on Friday')
    expect(answer.id).toBe(ann.id)
    expect(receiptOf(answer).outcome).toBe('deferred')
    await worker.call('todos.complete', his.held)
    const { messages } = await worker.call('todos.messages', { ...hers.held, waitMs: 5000 })
    expect(messages.map((owed: Answer) => [owed.author, owed.message.parts[0].text])).toEqual([
      ['ann', 'on Friday'],
    ])
    await worker.call('todos.complete', { ...hers.held, acknowledge: messages[0].seq })
    const last = await worker.claim()
    expect(last.id).toBe(nobody.id)
    expect(last).not.toHaveProperty('author')
    await worker.call('todos.complete', last.held)
  },
)

test('while Ann’s task is at work her word goes to it, Bob’s waits, and whoever names it speaks to it', async () => {
  const { from, worker, other } = await place('words', { reentry: 'author' })
  const ann = await from('ann', 'one')
  const todo = await worker.claim()
  const bob = await from('bob', 'two')
  expect(bob.metadata['urn:switchboard:waits-behind']).toBe(ann.id)
  expect((await from('ann', 'three')).id).toBe(ann.id)
  expect((await from('bob', 'four', { taskId: ann.id })).id).toBe(ann.id)
  // Another client's ann is somebody else.
  expect((await other.from('ann', 'five')).id).not.toBe(ann.id)
  const { messages } = await worker.call('todos.messages', todo.held)
  expect(messages.map(({ author }: Answer) => author)).toEqual(['ann', 'bob'])
})

test('an answer that waits for its turn leaves no question: the next message is for the one that is open', async () => {
  const { from, worker } = await place('two-questions', { reentry: 'author' })
  await from('bob', 'first')
  const first = await from('ann', 'one')
  const second = await from('ann', 'two')
  await worker.call('todos.complete', (await worker.claim()).held)
  for (const { id } of [first, second]) {
    const todo = await worker.claim()
    expect(todo.id).toBe(id)
    await ask(worker, todo, 'which?')
  }
  await from('bob', 'at work')
  await worker.claim()
  const answers = [await from('ann', 'this'), await from('ann', 'that')]
  expect(answers.map(({ id }) => id)).toEqual([second.id, first.id])
  expect(answers.map((answer) => receiptOf(answer).outcome)).toEqual(['deferred', 'deferred'])
})

test('interrupt and rollback cancel what their author sent, and nothing of others', async () => {
  const { from, a2a, other } = await place('wishes', { line: 'context' })
  const wish = (busy: string) => ({ 'urn:switchboard:busy': busy })
  const ann = await from('ann', 'one')
  const bob = await from('bob', 'two')
  const theirs = await other.from('ann', 'three')
  await from('bob', 'four', {}, wish('interrupt'))
  const stateOf = async (id: string) => (await shown(id)).state
  expect(await stateOf(ann.id)).toBe('pending')
  await from('bob', 'five', {}, wish('rollback'))
  expect(await stateOf(bob.id)).toBe('canceled')
  expect(await stateOf(ann.id)).toBe('pending')
  expect(await stateOf(theirs.id)).toBe('pending')
  // Whoever is at the front, it is busy.
  const refused = await other.from('bob', 'six', {}, wish('reject'))
  expect(refused.status.state).toBe('TASK_STATE_REJECTED')
  await from('ann', 'seven', {}, wish('interrupt'))
  expect((await a2a.get(ann.id)).status.state).toBe('TASK_STATE_CANCELED')
})

test('two clients in one context stand in one line where the queue says so, and see their own tasks alone', async () => {
  const { from, a2a, other, worker } = await place('shared', {
    line: 'context',
    reentry: 'question',
  })
  const mine = await from(null, 'one')
  const todo = await worker.claim()
  const theirs = await other.from(null, 'two')
  expect((await worker.call('todos.claim', { limit: 5 })).todos).toEqual([])
  // It waits behind a task that it may not see, so it is not told which.
  expect(theirs.metadata?.['urn:switchboard:waits-behind']).toBeUndefined()
  const listed = (await other.a2a.call('ListTasks', { contextId: 'group' })).result.tasks
  expect(listed.map(({ id }: Answer) => id)).toEqual([theirs.id])
  expect(JSON.stringify(listed)).not.toContain(mine.id)
  expect((await other.a2a.call('GetTask', { id: mine.id })).error.code).toBe(-32001)
  // Operators see why it waits.
  expect((await shown(theirs.id)).waitsBehind).toBe(mine.id)
  expect((await operate(app, 'todos.why', { id: theirs.id })).why).toContain(mine.id)

  await ask(worker, todo, 'which?')
  const next = await worker.claim()
  expect(next.id).toBe(theirs.id)
  const third = await other.from(null, 'this')
  expect([mine.id, theirs.id]).not.toContain(third.id)
  expect(receiptOf(third)).toBeUndefined()
  expect((await a2a.get(mine.id)).status.state).toBe('TASK_STATE_INPUT_REQUIRED')
  await worker.call('todos.complete', next.held)
})

test('by default two clients of one context id know nothing of each other', async () => {
  const { from, other, worker } = await place('apart')
  await from('ann', 'one')
  const theirs = await other.from('ann', 'two')
  expect(theirs.metadata?.['urn:switchboard:waits-behind']).toBeUndefined()
  expect((await worker.call('todos.claim', { limit: 5 })).todos).toHaveLength(2)
})

test.each([
  ['empty', ''],
  ['too long', 'x'.repeat(201)],
  ['no text', 7],
  ['null', null],
  ['a line break', 'ann\nbob'],
  ['an invisible character', 'ann\u200b'],
  ['a change of direction', '\u202eann'],
  ['half a character', 'ann\ud800'],
  ['a blank at its end', 'ann '],
])('an author that is %s is refused by name, and nothing is stored', async (what, author) => {
  const { call } = await place(`bad-${what.replaceAll(' ', '-')}`)
  const before = await rowCounts(app)
  for (const member of [MEMBER, 'urn:switchboard:author']) {
    const { error } = await call('hello', { [member]: author })
    expect(error.code).toBe(-32602)
    expect(JSON.stringify(error.data)).toContain(`metadata.${member}`)
  }
  const refused = await refusalOf(
    operate(app, 'todos.send', { queue: 'people-author', message: saying('x'), author }),
  )
  expect(refused.code).toBe(-32602)
  expect(JSON.stringify(refused)).toContain('author')
  expect(await rowCounts(app)).toEqual(before)
})

test('an author of 200 characters is taken, in one spelling of Unicode, by either member', async () => {
  const { call, from, worker } = await place('spellings', { reentry: 'author' })
  const name = 'é'.repeat(200)
  const first = await from(name.normalize('NFD'), 'one')
  expect(first.metadata[MEMBER]).toBe(name)
  expect((await worker.claim()).author).toBe(name)
  const again = await call('two', { 'urn:switchboard:author': name, [MEMBER]: name })
  expect(again.result.task.id).toBe(first.id)
  const torn = await call('three', { 'urn:switchboard:author': 'ann', [MEMBER]: 'bob' })
  expect(torn.error.code).toBe(-32602)
})

test('an author is shown by operators’ calls, the feed, an older client’s task and the command line', async () => {
  const { from, a2a, worker } = await place('shown')
  const events = await openBoard(app, 'queue=shown&snapshot=none')
  const sent = await from('ann', 'one')
  const { json } = await nextOf(events)
  expect(json).toMatchObject({ verb: 'send', author: 'ann', id: sent.id })
  const todo = await worker.claim()
  const claimed = (await events.until(({ json }) => json.verb === 'claim')).at(-1)!
  expect(claimed.json.author).toBe('ann')
  events.close()
  const { todos } = await operate(app, 'todos.list', { queue: 'shown' })
  expect(todos[0].author).toBe('ann')
  const record = await shown(sent.id)
  expect(record.author).toBe('ann')
  expect(record.events.every(({ author }: Answer) => author === 'ann')).toBe(true)
  expect((await worker.call('todos.get', { id: sent.id })).author).toBe('ann')
  const old = await rpc(
    a2a.endpoint,
    'message/send',
    {
      message: {
        kind: 'message',
        messageId: 'old',
        role: 'user',
        parts: [{ kind: 'text', text: 'x' }],
      },
      metadata: { [MEMBER]: 'cem' },
      configuration: { blocking: false },
    },
    { token: (await app.vend(['send'], ['shown'])).token },
  )
  expect(old.result.metadata[MEMBER]).toBe('cem')
  await worker.call('todos.complete', todo.held)

  const env = { SWITCHBOARD_URL: app.url, SWITCHBOARD_TOKEN: ADMIN_TOKEN }
  const made = await runCli(['send', 'shown', 'two', '--no-wait', '--author', 'dana'], { env })
  expect(made.code).toBe(0)
  const [show, list] = await Promise.all([
    runCli(['show', made.stdout.trim()], { env }),
    runCli(['list', '--queue', 'shown'], { env }),
  ])
  expect(show.stdout).toMatch(/author +dana/)
  expect(list.stdout).toContain('AUTHOR')
  for (const name of ['ann', 'cem', 'dana']) expect(list.stdout).toContain(name)
})

test('forks and the retry of a dead letter keep the author', async () => {
  const { from } = await place('kept', { maxAttempts: 1, contexts: 'parallel' })
  const worker = agentClient(app.url, (await app.vend(['work', 'send'], ['kept'])).token)
  const sent = await from('ann', 'one')
  const todo = await worker.claim()
  const { children } = await worker.call('todos.fork', {
    ...todo.held,
    children: [{ queue: 'kept', message: saying('part') }],
  })
  expect((await shown(children[0].id)).author).toBe('ann')
  await worker.call('todos.fail', {
    ...todo.held,
    error: { code: 'broken', message: 'x' },
    retryable: false,
  })
  expect((await operate(app, 'todos.retry', { id: sent.id })).author).toBe('ann')
})

test('the same send under one key is another where its author is', async () => {
  const { from } = await place('keys')
  const send = (author?: string) =>
    rpc(
      `${app.url}/operator`,
      'todos.send',
      { queue: 'keys', message: { ...saying('x'), messageId: 'm' }, ...(author && { author }) },
      { token: ADMIN_TOKEN, headers: { 'Idempotency-Key': 'k' } },
    )
  const first = await send('ann')
  expect((await send('ann')).result.id).toBe(first.result.id)
  expect((await send('bob')).error.message).toContain('idempotency key')
  expect((await send()).error.message).toContain('idempotency key')
  expect((await from('ann', 'x')).id).not.toBe(first.result.id)
})
