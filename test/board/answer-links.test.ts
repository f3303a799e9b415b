// Links with which somebody without an account answers exactly one question, once.
import { expect, test } from 'vitest'
import { ADMIN_TOKEN, startApp, startNode } from '../support/app.ts'
import { openBoardPage, openBrowser, openPage } from '../support/browser.ts'
import { a2aClient, agentClient, rpc } from '../support/clients/actors.ts'
import { ask, operate } from '../support/steps.ts'

const app = await startApp()
const browser = await openBrowser()
const { client, agent } = await app.queue('desk', { contexts: 'parallel' })
await operate(app, 'queues.put', { name: 'desk', card: { name: 'Concierge' } })
const a2a = a2aClient(app.url, 'desk', client.token)
const worker = agentClient(app.url, agent.token)

const asked = async (question: string, more = {}) => {
  await a2a.submit('Book a table')
  const todo = await worker.claim()
  await ask(worker, todo, question, more)
  return todo
}

const linkTo = async (id: string, more = {}): Promise<string> =>
  (await operate(app, 'todos.answerLink', { id, ...more })).url

const answer = (url: string, fields: Record<string, string>, headers = {}) =>
  fetch(url, { method: 'POST', body: new URLSearchParams(fields), headers })

const messagesOf = async (id: string) => (await operate(app, 'todos.show', { id })).messages

test('a person answers by a link, without scripts, and the blocking client returns', async () => {
  const blocking = a2a.send('Book a table for the dinner')
  const todo = await worker.claim()
  await ask(worker, todo, 'Thursday or Friday?')
  const { result } = await blocking
  const url = await linkTo(todo.id)
  expect(url).toMatch(new RegExp(`^${app.url}/answer/[A-Za-z0-9_-]{43}$`))

  const context = await browser.newContext({ javaScriptEnabled: false })
  const { page, complaints } = await openPage(context)
  await page.goto(url)
  expect(await page.getByRole('heading').textContent()).toBe('Concierge asks')
  await page.getByText('Thursday or Friday?').waitFor()
  await page.getByLabel('Your answer').fill('Friday, at eight')
  await page.getByLabel('Your name').fill('Ada Lovelace')
  const goesOn = a2a.stream('SubscribeToTask', { id: result.task.id })
  await page.getByRole('button', { name: 'Answer' }).click()
  await page.getByText('Answered by Ada Lovelace').waitFor()
  await page.getByText('Thank you.').waitFor()
  expect(complaints).toEqual([])

  const { messages } = await worker.call('todos.messages', todo.held)
  expect(messages[0].message).toMatchObject({
    parts: [{ text: 'Friday, at eight' }],
    metadata: { answeredBy: 'Ada Lovelace' },
  })
  await worker.call('todos.complete', { ...todo.held, acknowledge: 1000 })
  const frames = await (await goesOn).rest()
  expect(frames.at(-1)!.json.result.statusUpdate.status.state).toBe('TASK_STATE_COMPLETED')

  // Once more, by the same link, on another node: nothing changes, and it says who and when.
  const other = await startNode(app.databaseUrl)
  const again = await answer(url.replace(app.url, other.url), { text: 'Thursday', by: 'Eve' })
  expect(again.status).toBe(409)
  const text = await again.text()
  expect(text).toContain('Answered by <bdi>Ada Lovelace</bdi>')
  expect(text).toMatch(/<time datetime="\d{4}-[^"]+Z">/)
  expect(text).toContain('A question is answered once.')
  expect(await messagesOf(todo.id)).toHaveLength(3)
  await page.goto(url)
  await page.getByText('Answered by Ada Lovelace').waitFor()
  await other.stop()
  await context.close()
})

test('looking answers nothing, and of many who answer at once one is taken', async () => {
  const todo = await asked('which?')
  const url = await linkTo(todo.id)
  for (let i = 0; i < 3; i += 1) expect((await fetch(url)).status).toBe(200)
  expect((await fetch(url, { method: 'HEAD' })).status).toBe(200)
  const other = await startNode(app.databaseUrl)
  const answers = await Promise.all(
    Array.from({ length: 8 }, (_, i) =>
      answer(i % 2 ? url : url.replace(app.url, other.url), { text: `this ${i}`, by: `N${i}` }),
    ),
  )
  expect(answers.map(({ status }) => status).sort()).toEqual([200, ...Array(7).fill(409)])
  const messages = await messagesOf(todo.id)
  expect(messages.filter(({ answers }: { answers?: number }) => answers === 3)).toHaveLength(1)
  const taken = answers.findIndex(({ status }) => status === 200)
  expect(messages[2].message.metadata.answeredBy).toBe(`N${taken}`)
  for (const each of answers) expect(await each.text()).toContain(`<bdi>N${taken}</bdi>`)
  await other.stop()
})

test('two links to one question, and an answer by another way: the later ones say who and when', async () => {
  const todo = await asked('which?')
  const links = [await linkTo(todo.id), await linkTo(todo.id)]
  await a2a.submit('by the client', { taskId: todo.id })
  for (const url of links) {
    const late = await answer(url, { text: 'late', by: 'Eve' })
    expect(late.status).toBe(409)
    expect(await late.text()).toContain('Answered by <bdi>send</bdi>')
  }
  const next = await asked('and this?')
  const [first, second] = [await linkTo(next.id), await linkTo(next.id)]
  expect((await answer(first!, { text: 'yes', by: 'Ada' })).status).toBe(200)
  expect(await (await answer(second!, { text: 'no', by: 'Eve' })).text()).toContain(
    '<bdi>Ada</bdi>',
  )
})

test('a link is for one question: once something else is asked it says so', async () => {
  const todo = await asked('first?')
  const url = await linkTo(todo.id)
  await app.sql(`update todos set interrupted_at = now() - interval '2 days' where id = $1`, [
    todo.id,
  ])
  await app.sweep.reap()
  const gone = await fetch(url)
  expect(gone.status).toBe(410)
  expect(await gone.text()).toContain('This is not asked any more.')
  const again = await worker.claim()
  await ask(worker, again, 'second?')
  const late = await answer(url, { text: 'to the first', by: 'Ada' })
  expect(late.status).toBe(410)
  const texts = (await messagesOf(todo.id)).map(
    ({ message }: { message: { parts: { text: string }[] } }) => message.parts[0]!.text,
  )
  expect(texts).toEqual(['Book a table', 'first?', 'second?'])
  await operate(app, 'todos.cancel', { id: todo.id })
  expect((await fetch(await url)).status).toBe(410)
})

test('a link expires, and outlives a restart until then', async () => {
  const todo = await asked('which?')
  const url = await linkTo(todo.id, { expiresInSeconds: 60 })
  const restarted = await startNode(app.databaseUrl)
  expect((await fetch(url.replace(app.url, restarted.url))).status).toBe(200)
  await restarted.stop()
  await app.sql(`update answer_links set expires_at = now() where todo_id = $1`, [todo.id])
  const late = await answer(url, { text: 'late', by: 'Ada' })
  expect([late.status, (await late.text()).includes('This link has expired.')]).toEqual([410, true])
  expect(await messagesOf(todo.id)).toHaveLength(2)
  expect(JSON.stringify(await app.sql('select * from answer_links'))).not.toContain(
    url.split('/').at(-1),
  )
})

test('an address that is none of ours says so, and tells nothing', async () => {
  for (const secret of ['x', 'A'.repeat(43), 'A'.repeat(5000), '%00', '%ff', '..%2fboard']) {
    const response = await fetch(`${app.url}/answer/${secret}`)
    expect([secret.slice(0, 50), response.status]).toEqual([secret.slice(0, 50), 404])
  }
})

test('a question with a schema is a form with a control for each property', async () => {
  const todo = await asked('Which day, and for how many?', {
    schema: {
      type: 'object',
      properties: {
        day: { title: 'Day', enum: ['Thursday', 'Friday'] },
        seats: { title: 'Seats', type: 'integer', minimum: 1, maximum: 12 },
        vegan: { title: 'Vegan', type: 'boolean' },
        wish: { title: 'Wish', type: 'string', maxLength: 40 },
        extra: { title: 'Extra', type: 'object' },
      },
      required: ['day', 'seats', 'vegan'],
    },
  })
  const url = await linkTo(todo.id)
  const context = await browser.newContext({ javaScriptEnabled: false })
  const { page } = await openPage(context)
  await page.goto(url)
  await page.getByRole('radio', { name: 'Friday' }).check()
  await page.getByRole('radio', { name: 'No' }).check()
  await page.getByLabel('Seats').fill('40')
  await page.getByLabel('Your name').fill('Ada')
  await page.getByRole('button', { name: 'Answer' }).click()
  // What was typed is still there beside what is wrong with it.
  expect(await page.getByRole('alert').textContent()).toContain('seats: must be <= 12')
  expect(await page.getByRole('radio', { name: 'Friday' }).isChecked()).toBe(true)
  await page.getByLabel('Seats').fill('six')
  await page.getByRole('button', { name: 'Answer' }).click()
  expect(await page.getByRole('alert').textContent()).toContain('Seats: is not a number')
  await page.getByLabel('Seats').fill('6')
  await page.getByRole('button', { name: 'Answer' }).click()
  await page.getByText('Answered by Ada').waitFor()
  const { messages } = await worker.call('todos.messages', todo.held)
  expect(messages[0].message.parts).toEqual([{ data: { day: 'Friday', seats: 6, vegan: false } }])
  await context.close()
})

test('what others wrote stays text on the page, whatever it looks like', async () => {
  const hostile = `</blockquote><script>document.title='owned'</script><img src=x onerror="document.title='owned'"> & "quoted" \u202Eturned`
  const todo = await asked(hostile, {
    schema: {
      type: 'object',
      properties: { '"><script>x</script>': { title: hostile, type: 'string' } },
    },
  })
  const url = await linkTo(todo.id)
  const context = await browser.newContext()
  const { page, complaints } = await openPage(context)
  await page.goto(url)
  expect(await page.getByRole('blockquote').textContent()).toContain(
    "<script>document.title='owned'",
  )
  await page.getByLabel(hostile).fill('fine')
  await page.getByLabel('Your name').fill('<b>Mallory</b>')
  await page.getByRole('button', { name: 'Answer' }).click()
  await page.getByText('Answered by <b>Mallory</b>').waitFor()
  expect(await page.title()).toBe('Concierge asks')
  expect(await page.locator('script, img, b').count()).toBe(0)
  expect(complaints).toEqual([])
  await context.close()
})

test('a form without answer or name is not taken, and neither is another kind of body', async () => {
  const todo = await asked('which?')
  const url = await linkTo(todo.id)
  for (const fields of [{ text: ' ', by: 'Ada' }, { text: 'x', by: ' ' }, { by: 'Ada' }]) {
    const refused = await answer(url, fields as Record<string, string>)
    expect(refused.status).toBe(422)
    expect(await refused.text()).toContain('role="alert"')
  }
  for (const fields of [
    { text: 'a\0b', by: 'Ada' },
    { text: 'x', by: 'A\0' },
  ]) {
    const refused = await answer(url, fields)
    expect(refused.status).toBe(422)
    expect(await refused.text()).toContain('without NUL')
  }
  expect((await fetch(url, { method: 'POST', body: '{}' })).status).toBe(415)
  const large = await answer(url, { text: 'x'.repeat(300_000), by: 'Ada' })
  expect(large.status).toBe(413)
  expect(await messagesOf(todo.id)).toHaveLength(2)
})

test('an answer that is nested without end is refused in words', async () => {
  const todo = await asked('Anything?', { schema: {} })
  const url = await linkTo(todo.id)
  const refused = await answer(url, { f0: '['.repeat(20_000) + ']'.repeat(20_000), by: 'Ada' })
  expect(refused.status).toBe(422)
  expect(await refused.text()).toContain('nested deeper')
  expect(await messagesOf(todo.id)).toHaveLength(2)
})

test('who may answer may make a link, for what asks something, and nobody else', async () => {
  const todo = await asked('which?')
  const as = async (token: string, params: unknown) =>
    rpc(`${app.url}/operator`, 'todos.answerLink', params, { token })
  const answering = await app.vend(['answer', 'watch'], ['desk'])
  const watching = await app.vend(['watch'], ['desk'])
  expect((await as(answering.token, { id: todo.id })).result.url).toContain('/answer/')
  expect((await as(watching.token, { id: todo.id })).error.code).toBe(-32011)
  expect((await as(ADMIN_TOKEN, { id: todo.id, expiresInSeconds: 10_000_000 })).error.code).toBe(
    -32602,
  )
  await operate(app, 'todos.cancel', { id: todo.id })
  expect((await as(ADMIN_TOKEN, { id: todo.id })).error.data.reason).toBe('wrong_state')
  expect((await as(ADMIN_TOKEN, { id: 'nothing' })).error.code).toBe(-32012)
})

test('who has a token cannot pass for somebody else: not in the task, to the agent, or on the board', async () => {
  const metadata = { answeredBy: 'the operator', kept: 1 }
  const task = await a2a.submit('Book a table', { metadata })
  expect(task.history[0].metadata).toEqual({ kept: 1 })
  const todo = await worker.claim()
  expect(todo.message.metadata).toEqual({ kept: 1 })
  await ask(worker, todo, 'which?')
  await a2a.submit('mine', {
    taskId: todo.id,
    messageId: 'answer-link-of-my-own',
    metadata: { answeredBy: 'the operator' },
  })
  const { messages } = await worker.call('todos.messages', todo.held)
  expect(messages[0].message.metadata).toBeUndefined()
  await worker.call('todos.acknowledge', { ...todo.held, through: messages[0].seq })
  await ask(worker, todo, 'and which?')
  const helper = await app.vend(['watch', 'answer'], ['desk'], { name: 'helper' })
  const answered = await rpc(
    `${app.url}/operator`,
    'todos.answer',
    { id: todo.id, message: { parts: [{ text: 'theirs' }], metadata } },
    { token: helper.token },
  )
  expect(answered.error).toBeUndefined()
  const kept = await messagesOf(todo.id)
  expect(kept.map(({ message }: { message: { metadata?: object } }) => message.metadata)).toEqual([
    { kept: 1 },
    undefined,
    undefined,
    undefined,
    { kept: 1 },
  ])

  // What an older version let pass is not shown either.
  await app.sql(
    `update messages set message = (message::jsonb || '{"metadata":{"answeredBy":"the operator"}}')::json
     where todo_id = $1 and message_id <> 'answer-link-of-my-own' and role = 'user'`,
    [todo.id],
  )
  const context = await browser.newContext()
  const { page } = await openBoardPage(app, context, `#/todo/${todo.id}`)
  const talk = page.getByRole('region', { name: 'Conversation' })
  await talk.getByText('theirs').waitFor()
  const who = await talk.locator('.who').allTextContents()
  expect(who.map((text) => text.trim().split(' ')[0])).toEqual([
    'client',
    'agent',
    'answer',
    'agent',
    'answer',
  ])
  expect(await page.content()).not.toContain('the operator')
  await context.close()
})
