/**
 * Numbers that no double is equal to, on the board and on the page of an answer link.
 * Field cases: numbers keep their digits.
 */
import { expect, test } from 'vitest'
import { startApp } from '../support/app.ts'
import { openBoardPage, openBrowser } from '../support/browser.ts'
import { a2aClient, agentClient, post } from '../support/clients/actors.ts'
import { ask, operate } from '../support/steps.ts'

const app = await startApp()
const { client, agent } = await app.queue('desk', { contexts: 'parallel' })
const a2a = a2aClient(app.url, 'desk', client.token)
const worker = agentClient(app.url, agent.token)
const browser = await openBrowser()
const BIG = '9007199254740993'

test('the drawer shows the digits, and the plain numbers beside them', async () => {
  const message = `{"messageId":"m","role":"ROLE_USER","parts":[{"data":{"big":${BIG},"tiny":1e-400,"n":33.33333333333333}}]}`
  const call = `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":${message},"configuration":{"returnImmediately":true}}}`
  const headers = { 'A2A-Version': '1.0' }
  const { body } = await post(a2a.endpoint, call, { token: client.token, headers })
  const context = await browser.newContext()
  const { page } = await openBoardPage(app, context, `#/todo/${body.result.task.id}`)
  const drawer = page.getByRole('dialog')
  for (const digits of [BIG, '1e-400', '33.33333333333333']) {
    await drawer.getByText(digits, { exact: true }).waitFor()
  }
  await context.close()
  await a2a.call('CancelTask', { id: body.result.task.id })
})

test('what is typed as the answer of a link keeps its digits', async () => {
  const { id } = await a2a.submit('x')
  const todo = await worker.claim()
  const schema = { type: 'object', properties: { order: { type: 'integer' } } }
  await ask(worker, todo, 'which order?', { schema })
  const { url } = await operate(app, 'todos.answerLink', { id })
  const context = await browser.newContext()
  const page = await context.newPage()
  await page.goto(url)
  await page.getByLabel('order').fill(BIG)
  await page.getByLabel('Your name').fill('Ada')
  await page.getByRole('button', { name: 'Answer' }).click()
  await expect
    .poll(async () => {
      const rows = await app.sql<{ text: string }>(
        `select message::text as text from messages where todo_id = $1 and answers is not null`,
        [id],
      )
      return rows[0]?.text
    })
    .toContain(`"order":${BIG}`)
  await context.close()
  await a2a.call('CancelTask', { id })
})
