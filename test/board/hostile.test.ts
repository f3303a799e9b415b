// What a browser can be led to: another site's page, two windows, an ended session, a record too large to draw.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, expect, test } from 'vitest'
import { LOCAL } from '../push/support.ts'
import { startApp } from '../support/app.ts'
import { card, lane, openBoardPage, openBrowser } from '../support/browser.ts'
import { a2aClient, agentClient } from '../support/clients/actors.ts'
import { startReceiver } from '../support/network/receiver.ts'
import { ask, operate } from '../support/steps.ts'

const app = await startApp({ config: LOCAL })
const browser = await openBrowser()
const { client, agent } = await app.queue('desk', { contexts: 'parallel' })
const a2a = a2aClient(app.url, 'desk', client.token)
const worker = agentClient(app.url, agent.token)

const work = async (text: string) => {
  await a2a.submit(text)
  return worker.claim()
}

/** A page of somebody else's on this machine: another origin, but the same site, so that it is sent the cookie. */
const elsewhere = createServer((_req, res) => {
  res.setHeader('Content-Type', 'text/html')
  res.end('<!doctype html><title>elsewhere</title><form method="post"></form>')
})
await new Promise<void>((resolve) => elsewhere.listen(0, '127.0.0.1', resolve))
afterAll(() => elsewhere.close())
const evil = `http://127.0.0.1:${(elsewhere.address() as AddressInfo).port}/`

test('a page of another origin can neither act nor read, though the browser would send it the cookie', async () => {
  const context = await browser.newContext()
  const todo = await work('Stay as I am')
  const { page: board } = await openBoardPage(app, context)
  await card(board, todo.id).waitFor()
  // Not by openPage: a browser complains there of what it rightly refuses.
  const page = await context.newPage()
  await page.goto(evil)
  const cancel = { jsonrpc: '2.0', id: 1, method: 'todos.cancel', params: { id: todo.id } }
  const tried = await page.evaluate(
    async ([url, body]) => {
      const post = { method: 'POST', credentials: 'include', body: body! } as const
      const tries: [string, RequestInit][] = [
        ['operator', { ...post, mode: 'no-cors' }],
        ['operator', { ...post, headers: { 'Content-Type': 'application/json' } }],
        ['operator', { ...post, headers: { 'X-Switchboard-Board': '1' } }],
        ['logout', { ...post, mode: 'no-cors' }],
        ['todos', { credentials: 'include' }],
        ['events', { credentials: 'include' }],
      ]
      const read: string[] = []
      for (const [path, init] of tries) {
        const answer = await fetch(`${url}/board/${path}`, init).catch(() => null)
        read.push(answer === null || answer.type === 'opaque' ? '' : await answer.text())
      }
      return read.join('')
    },
    [app.url, JSON.stringify(cancel)],
  )
  expect(tried).toBe('')
  for (const path of ['board/logout', 'board/operator', 'board/login']) {
    await page.goto(evil)
    const answered = page.waitForResponse(`${app.url}/${path}`)
    await page.locator('form').evaluate((form, action) => {
      form.setAttribute('action', action)
      ;(form as unknown as { submit(): void }).submit()
    }, `${app.url}/${path}`)
    expect((await answered).status()).toBe(403)
    await page.waitForURL(`${app.url}/${path}`)
  }
  expect((await operate(app, 'todos.show', { id: todo.id })).state).toBe('claimed')
  // Still logged in.
  await board.reload()
  await card(board, todo.id).waitFor()
  await context.close()
})

test('no other page puts the board, or an answer link, into a frame', async () => {
  const todo = await work('Frame me')
  await ask(worker, todo, 'Well?')
  const { url } = await operate(app, 'todos.answerLink', { id: todo.id })
  for (const address of [url, `${app.url}/board`]) {
    const { headers } = await fetch(address)
    expect(headers.get('content-security-policy')).toContain("frame-ancestors 'none'")
    expect(headers.get('x-frame-options')).toBe('DENY')
    expect(headers.get('referrer-policy')).toBe('no-referrer')
  }
  await operate(app, 'todos.cancel', { id: todo.id })
})

test('a log-in leads to the board and nowhere else', async () => {
  const code = await app.issueBoardCode()
  const query = new URLSearchParams({ code, next: evil, redirect: evil, url: evil })
  const answer = await fetch(`${app.url}/board/login?${query}`, { redirect: 'manual' })
  expect(answer.status).toBe(303)
  const leads = new URL(answer.headers.get('location')!, answer.url)
  expect(leads.href).toBe(`${app.url}/board`)
})

test('an open drawer of a session that was ended gives way to the log-in, and tells nothing to who comes next', async () => {
  const context = await browser.newContext()
  const todo = await work('Of the former one')
  await ask(worker, todo, 'Secret question?')
  const { page } = await openBoardPage(app, context, `#/todo/${todo.id}`)
  const drawer = page.getByRole('dialog', { name: 'Of the former one' })
  await drawer.getByLabel('Answer to').fill('yes')
  await operate(app, 'sessions.revoke', { all: true })
  await page.getByLabel('Token').waitFor()
  expect(await page.getByText('Secret question?').count()).toBe(0)

  await app.queue('other', { contexts: 'parallel' })
  const { token } = await app.vend(['watch'], ['other'])
  await page.getByLabel('Token').fill(token)
  await page.getByRole('button', { name: 'Log in' }).click()
  await page.getByText('There is no such thing here').waitFor()
  expect(await page.getByText('Secret question?').count()).toBe(0)
  await operate(app, 'todos.cancel', { id: todo.id })
  await context.close()
})

test('what was typed for one question does not stand in the field of the next', async () => {
  const context = await browser.newContext()
  const todo = await work('Two questions')
  await ask(worker, todo, 'Transfer the money?')
  const { page } = await openBoardPage(app, context, `#/todo/${todo.id}`)
  const drawer = page.getByRole('dialog', { name: 'Two questions' })
  await drawer.getByLabel('Answer to').fill('yes')
  // Answered elsewhere, and another asked, between two looks of the page.
  await context.setOffline(true)
  await page.getByText(/^reconnecting/).waitFor()
  await operate(app, 'todos.answer', { id: todo.id, message: { parts: [{ text: 'no' }] } })
  const { messages } = await worker.call('todos.messages', todo.held)
  await worker.call('todos.acknowledge', { ...todo.held, through: messages[0].seq })
  await ask(worker, todo, 'Delete the account?')
  await context.setOffline(false)
  await drawer.locator('blockquote', { hasText: 'Delete the account?' }).waitFor()
  expect(await drawer.getByLabel('Answer to').inputValue()).toBe('')
  await operate(app, 'todos.cancel', { id: todo.id })
  await context.close()
})

test('of two windows that answer one question one is taken, and the other is told', async () => {
  const context = await browser.newContext()
  const todo = await work('Race for it')
  await ask(worker, todo, 'Who is first?')
  const windows = await Promise.all([0, 1].map(() => openBoardPage(app, context)))
  const field = (i: number) => card(windows[i]!.page, todo.id).getByRole('textbox')
  await field(0).fill('first')
  await field(1).fill('second')
  // The second one's answer is on its way for as long as the first one's takes.
  let go: () => void = () => {}
  const first = new Promise<void>((resolve) => {
    go = resolve
  })
  await windows[1]!.page.route('**/board/operator', async (route) => {
    await first
    await route.continue()
  })
  const late = windows[1]!.page.waitForResponse('**/board/operator')
  await field(1).press('Enter')
  await field(0).press('Enter')
  for (const { page } of windows) {
    await lane(page, 'Working').getByText('Race for it').waitFor()
  }
  go()
  expect((await (await late).json()).error.data.reason).toBe('wrong_state')
  const shown = await operate(app, 'todos.show', { id: todo.id })
  expect(shown.messages.at(-1).message.parts).toEqual([{ text: 'first' }])
  expect(shown.messages).toHaveLength(3)
  await operate(app, 'todos.cancel', { id: todo.id })
  await context.close()
})

test('fields whose names an object has of itself are answered like any other', async () => {
  const context = await browser.newContext()
  const todo = await work('Odd names')
  const names = ['__proto__', 'constructor', 'toString']
  const properties = JSON.parse(
    `{${names.map((name) => `"${name}": { "type": "string", "maxLength": 9 }`).join()}}`,
  )
  await ask(worker, todo, 'Well?', { schema: { type: 'object', properties, required: names } })
  const { page } = await openBoardPage(app, context, `#/todo/${todo.id}`)
  const drawer = page.getByRole('dialog', { name: 'Odd names' })
  for (const name of names) await drawer.getByLabel(name).fill(`of ${name}`.slice(0, 9))
  await drawer.getByRole('button', { name: 'Answer', exact: true }).click()
  await lane(page, 'Working').getByText('Odd names').waitFor()
  const { messages } = await worker.call('todos.messages', todo.held)
  expect(Object.entries(messages[0].message.parts[0].data)).toEqual(
    names.map((name) => [name, `of ${name}`.slice(0, 9)]),
  )
  expect(await page.evaluate('({}).polluted === undefined && !Object.hasOwn({}, "0")')).toBe(true)
  await operate(app, 'todos.cancel', { id: todo.id })
  await context.close()
})

test('a very large artifact costs what one opens of it', async () => {
  const context = await browser.newContext()
  const todo = await work('Huge')
  const row = { cells: Array.from({ length: 40 }, (_, i) => ({ i, cell: 'x' })) }
  await worker.call('todos.artifact', {
    ...todo.held,
    artifact: {
      artifactId: 'big',
      name: 'Big',
      parts: [{ data: { rows: Array.from({ length: 600 }, () => row) } }],
    },
  })
  await worker.call('todos.complete', todo.held)
  const { page } = await openBoardPage(app, context, `#/todo/${todo.id}`)
  const artifact = page.getByRole('region', { name: 'Artifacts' })
  await artifact.getByText('and 400 more').waitFor()
  const nodes = () => artifact.locator('*').count()
  expect(await nodes()).toBeLessThan(3000)
  // A branch is on the line of its name.
  const third = artifact.locator('summary', { hasText: /^2: \{1\}$/ })
  await third.click()
  const cells = artifact.locator('summary', { hasText: /^cells: \[40\]$/ })
  await cells.click()
  await artifact.locator('summary', { hasText: /^39: \{2\}$/ }).click()
  await artifact.getByText('cell: "x"').waitFor()
  await third.click()
  await cells.waitFor({ state: 'detached' })
  await context.close()
})

test('a drawer tells what the webhooks of its todo were told, and masks where', async () => {
  const receiver = await startReceiver(() => 503)
  const context = await browser.newContext()
  const sent = await a2a.submit('Tell me')
  await a2a.call('CreateTaskPushNotificationConfig', {
    taskId: sent.id,
    id: 'mine',
    url: `${receiver.url}/hook?key=secret`,
  })
  const { page } = await openBoardPage(app, context, `#/todo/${sent.id}`)
  const drawer = page.getByRole('dialog', { name: 'Tell me' })
  await drawer.getByRole('heading', { name: 'Events' }).waitFor()
  expect(await drawer.getByRole('heading', { name: 'Webhooks' }).count()).toBe(0)
  const todo = await worker.claim()
  const hooks = drawer.getByRole('region', { name: 'Webhooks' })
  await hooks.getByText('not delivered yet').first().waitFor()
  const tried = hooks.getByText(/tried (once|\d+ times), at .*503.*; next try/s)
  await tried.first().waitFor()
  expect(await hooks.textContent()).not.toContain('secret')
  await operate(app, 'todos.cancel', { id: todo.id })
  await context.close()
})
