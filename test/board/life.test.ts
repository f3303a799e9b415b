// The board as a person sees it: a real browser, the real server, a real agent.
import { afterAll, expect, test } from 'vitest'
import { createAgent, textOf } from '../../src/index.ts'
import { ADMIN_TOKEN, startApp, startNode } from '../support/app.ts'
import { card, lane, openBoardPage, openBrowser, openPage } from '../support/browser.ts'
import { a2aClient, agentClient } from '../support/clients/actors.ts'
import { ask, operate } from '../support/steps.ts'
import { until } from '../support/until.ts'

const app = await startApp()
const browser = await openBrowser()
const { client, agent } = await app.queue('desk', { contexts: 'parallel' })
const a2a = a2aClient(app.url, 'desk', client.token)
const worker = agentClient(app.url, agent.token)
const planner = agentClient(app.url, (await app.vend(['work', 'send'], ['desk'])).token)

test('a task goes through all lanes under the eyes of who is logged in, answered from its drawer', async () => {
  const context = await browser.newContext()
  const { page, complaints } = await openPage(context)
  await page.goto(`${app.url}/board`)
  await page.getByLabel('Token').fill('wrong')
  await page.getByRole('button', { name: 'Log in' }).click()
  await page.getByText('This token is not valid').waitFor()
  await page.getByLabel('Token').fill(ADMIN_TOKEN)
  await page.getByRole('button', { name: 'Log in' }).click()
  await lane(page, 'Submitted').getByText('Nothing waits to start.').waitFor()

  const sent = await a2a.submit('Book a table for six')
  await lane(page, 'Submitted').getByText('Book a table for six').waitFor()

  let go: () => void = () => {}
  const gate = new Promise<void>((resolve) => {
    go = resolve
  })
  const concierge = createAgent(
    { url: app.url, token: agent.token, claimant: 'box-7' },
    async (ctx) => {
      await ctx.progress('looking for a table')
      await gate
      const answer = await ctx.requireInput('Thursday or Friday?')
      return { message: `Booked for ${textOf(answer)}` }
    },
  )
  afterAll(() => concierge.stop({ graceMs: 0 }))
  concierge.start()
  await lane(page, 'Working').getByText('Book a table for six').waitFor()
  await lane(page, 'Working').getByText('box-7').waitFor()
  await lane(page, 'Working').getByText('looking for a table').waitFor()
  go()
  await lane(page, 'Waiting').getByText('Thursday or Friday?').waitFor()
  await lane(page, 'Waiting').getByText('held by box-7, for client send').waitFor()
  expect(await page.title()).toBe('(1) switchboard')

  // The client waits in a call of its own for what the operator will say.
  const waiting = a2a.stream('SubscribeToTask', { id: sent.id })
  await card(page, sent.id).getByRole('link', { name: 'Book a table for six' }).click()
  expect(new URL(page.url()).hash).toBe(`#/todo/${sent.id}`)
  const drawer = page.getByRole('dialog', { name: 'Book a table for six' })
  await drawer.getByLabel('Answer to Book a table for six').fill('Friday')
  await drawer.getByRole('button', { name: 'Answer', exact: true }).click()
  const frames = await (await waiting).rest()
  expect(frames.at(-1)!.json.result.statusUpdate.status.state).toBe('TASK_STATE_COMPLETED')

  await lane(page, 'Finished').getByText('Book a table for six').waitFor()
  await drawer.getByText('ended as done').waitFor()
  await drawer
    .getByRole('region', { name: 'Conversation' })
    .getByText('Friday', { exact: true })
    .waitFor()
  await drawer.getByRole('row', { name: /complete/ }).waitFor()
  await page.keyboard.press('Escape')
  await drawer.waitFor({ state: 'detached' })
  expect(complaints).toEqual([])
  await concierge.stop()
  await context.close()
})

test('a card says what waits for its time, and which schedule made it', async () => {
  const context = await browser.newContext()
  const message = { parts: [{ text: 'Water the plants' }] }
  const [sent] = await Promise.all([
    operate(app, 'todos.send', { queue: 'desk', message, delaySeconds: 7200 }),
    operate(app, 'schedules.put', { name: 'plants', queue: 'desk', cron: '* * * * *', message }),
  ])
  await app.sql(`update schedules set next_at = date_trunc('minute', now())`)
  const { page, complaints } = await openBoardPage(app, context)
  await card(page, sent.id)
    .getByText(/waits for its time, in \d/)
    .waitFor()
  const made = await until(
    async () => (await operate(app, 'schedules.get', { name: 'plants' })).lastTodoId,
  )
  await card(page, made).getByText('by schedule plants').waitFor()
  await operate(app, 'schedules.remove', { name: 'plants' })
  await card(page, made).getByRole('link').first().click()
  await page.getByRole('dialog').getByText('schedule plants').waitFor()
  for (const id of [sent.id, made]) await operate(app, 'todos.cancel', { id })
  expect(complaints).toEqual([])
  await context.close()
})

test('a blocking client returns when the operator answers on a card, the question and two keys later', async () => {
  const context = await browser.newContext()
  const { page, complaints } = await openBoardPage(app, context)
  await a2a.submit('Pay the invoice')
  const todo = await worker.claim()
  await ask(worker, todo, 'Approve 4,180?', {
    schema: { type: 'object', properties: { approve: { type: 'boolean' } }, required: ['approve'] },
  })
  const messages = worker.call('todos.messages', { ...todo.held, waitMs: 25_000 })
  await card(page, todo.id).getByRole('button', { name: 'Yes' }).waitFor()
  await page.keyboard.press('a')
  await page.keyboard.press('Enter')
  expect((await messages).messages[0].message.parts).toEqual([{ data: { approve: true } }])
  await lane(page, 'Working').getByText('Pay the invoice').waitFor()
  await operate(app, 'todos.cancel', { id: todo.id })
  expect(complaints).toEqual([])
  await context.close()
})

test('what a drawer shows is the whole record, and its form is made of the question', async () => {
  const context = await browser.newContext()
  const parent = await a2a.submit('Plan the dinner')
  const held = await planner.claim()
  const { children } = await planner.call('todos.fork', {
    ...held.held,
    children: [{ queue: 'desk', message: { parts: [{ text: 'Ask the cook' }] } }],
  })
  await planner.call('todos.artifact', {
    ...held.held,
    artifact: { artifactId: 'plan', name: 'Plan', parts: [{ data: { seats: 6, wine: null } }] },
  })
  await ask(planner, held, 'Which wine, how much?', {
    schema: {
      type: 'object',
      properties: {
        wine: { title: 'Wine', enum: ['red', 'white', 'none'] },
        bottles: { title: 'Bottles', type: 'integer', maximum: 9 },
      },
      required: ['wine', 'bottles'],
    },
  })
  const { page, complaints } = await openBoardPage(app, context, `#/todo/${parent.id}`)
  const drawer = page.getByRole('dialog', { name: 'Plan the dinner' })
  await drawer.getByText(`waits for an answer (held by`).waitFor()
  await drawer.getByRole('heading', { name: 'Plan', exact: true }).waitFor()
  await drawer.getByText('seats').waitFor()
  await drawer.getByText('answer by').waitFor()
  await drawer.getByRole('row', { name: /interrupt/ }).waitFor()
  await drawer.getByRole('radio', { name: 'white' }).check()
  await drawer.getByLabel('Bottles').fill('12')
  await drawer.getByRole('button', { name: 'Answer', exact: true }).click()
  await drawer.getByRole('alert').getByText('must be <= 9').waitFor()
  await drawer.getByLabel('Bottles').fill('2')
  await drawer.getByRole('button', { name: 'Answer', exact: true }).click()
  const { messages } = await planner.call('todos.messages', { ...held.held, waitMs: 25_000 })
  expect(messages[0].message.parts).toEqual([{ data: { wine: 'white', bottles: 2 } }])

  await drawer.getByRole('region', { name: 'Family' }).getByRole('link').click()
  const child = page.getByRole('dialog', { name: 'Ask the cook' })
  await child.getByText('child of').waitFor()
  expect(new URL(page.url()).hash).toBe(`#/todo/${children[0].id}`)
  await child.getByRole('button', { name: 'Copy as curl' }).click()
  const curl = await page.getByLabel('The same with curl').inputValue()
  expect(curl).toContain(`${app.url}/operator`)
  expect(curl).toContain(children[0].id)
  await page.getByRole('button', { name: 'Close', exact: true }).click()
  await child.getByRole('button', { name: 'Cancel' }).click()
  await page.getByRole('button', { name: 'Cancel the task' }).click()
  await child.getByText('ended as canceled').waitFor()
  await operate(app, 'todos.cancel', { id: parent.id })
  expect(complaints).toEqual([])
  await context.close()
})

test('a dead letter is one click away, and retried it is a new todo that is shown', async () => {
  const context = await browser.newContext()
  const dead = await a2a.submit('Fetch the documents')
  const todo = await worker.claim()
  await worker.call('todos.fail', {
    ...todo.held,
    error: { code: 'gone', message: 'the portal is off' },
    retryable: false,
  })
  await a2a.submit('Something that works')
  const fine = await worker.claim()
  await worker.call('todos.complete', fine.held)
  const { page } = await openBoardPage(app, context)
  await card(page, fine.id).waitFor()
  await page.getByRole('button', { name: '1 dead letter' }).click()
  await card(page, fine.id).waitFor({ state: 'detached' })
  await lane(page, 'Dead letters').getByText('gone: the portal is off').waitFor()
  await card(page, dead.id).getByRole('link').click()
  await page.getByRole('dialog').getByRole('button', { name: 'Retry' }).click()
  await page.getByText('retry of').waitFor()
  const id = new URL(page.url()).hash.slice('#/todo/'.length)
  expect(id).not.toBe(dead.id)
  await operate(app, 'todos.cancel', { id })
  await context.close()
})

test('an answer link is made in the drawer', async () => {
  const context = await browser.newContext()
  await a2a.submit('Ask somebody')
  const todo = await worker.claim()
  await ask(worker, todo, 'Who?')
  const { page } = await openBoardPage(app, context, `#/todo/${todo.id}`)
  await page.getByRole('button', { name: 'Answer link' }).click()
  const url = await page.getByLabel('For one answer').inputValue()
  expect((await fetch(url)).status).toBe(200)
  await operate(app, 'todos.cancel', { id: todo.id })
  await context.close()
})

test('an endpoint sees its queues only, and may do there what its verbs say', async () => {
  const other = await app.queue('other', { contexts: 'parallel' })
  await a2aClient(app.url, 'other', other.client.token).submit('Foreign business')
  await a2a.submit('Ask me')
  const todo = await worker.claim()
  await ask(worker, todo, 'Well?')
  const open = async (verbs: ('watch' | 'answer')[]) => {
    const { token } = await app.vend(verbs, ['desk'])
    const context = await browser.newContext()
    const { page } = await openPage(context)
    await page.goto(`${app.url}/board`)
    await page.getByLabel('Token').fill(token)
    await page.getByRole('button', { name: 'Log in' }).click()
    await card(page, todo.id).waitFor()
    expect(await page.getByText('Foreign business').count()).toBe(0)
    expect(await page.getByLabel('Queue').locator('option').allTextContents()).toEqual([
      'all queues',
      'desk',
    ])
    await card(page, todo.id).getByRole('link').click()
    await page.getByRole('dialog').getByRole('button', { name: 'Copy as curl' }).waitFor()
    return { page, close: () => context.close() }
  }
  const buttons = ({ page }: Awaited<ReturnType<typeof open>>) =>
    page.locator('.card button, .drawer .inside button').allTextContents()
  const trimmed = (texts: string[]) => texts.map((text) => text.trim())
  const watching = await open(['watch'])
  expect(trimmed(await buttons(watching))).toEqual(['Copy as curl'])
  await watching.close()
  const answering = await open(['watch', 'answer'])
  expect(trimmed(await buttons(answering))).toEqual([
    'Answer',
    'Answer',
    'Answer link',
    'Copy as curl',
  ])
  await answering.page.getByRole('dialog').getByLabel('Answer to Ask me').fill('Yes')
  await answering.page
    .getByRole('dialog')
    .getByRole('button', { name: 'Answer', exact: true })
    .click()
  await lane(answering.page, 'Working').getByText('Ask me').waitFor()
  await answering.close()
  await operate(app, 'todos.cancel', { id: todo.id })
})

test('who logs out is out, in every window', async () => {
  const context = await browser.newContext()
  const { page } = await openBoardPage(app, context)
  await page.getByRole('button', { name: 'Log out' }).click()
  await page.getByLabel('Token').waitFor()
  const second = await context.newPage()
  await second.goto(`${app.url}/board`)
  await second.getByLabel('Token').waitFor()
  await context.close()
})

test('a board on one node shows what happens on another', async () => {
  const other = await startNode(app.databaseUrl)
  const context = await browser.newContext()
  const { page } = await openBoardPage(other, context)
  await a2a.submit('From afar')
  const todo = await worker.claim()
  await lane(page, 'Working').getByText('From afar').waitFor()
  await operate(app, 'todos.cancel', { id: todo.id })
  await lane(page, 'Finished').getByText('From afar').waitFor()
  await context.close()
  await other.stop()
})
