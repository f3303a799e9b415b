// The board as a person sees it: a real browser, the real server, a real agent.
import { expect, test } from 'vitest'
import { a2aClient, agentClient } from '../support/actors.ts'
import { ADMIN_TOKEN, startApp } from '../support/app.ts'
import { openBrowser, openPage } from '../support/browser.ts'
import { ask } from '../support/steps.ts'

const app = await startApp()
const browser = await openBrowser()
const { client, agent } = await app.line('desk')
const a2a = a2aClient(app.url, 'desk', client.token)
const worker = agentClient(app.url, agent.token)

test('a task goes through all lanes under the eyes of who is logged in', async () => {
  const context = await browser.newContext()
  const { page, complaints } = await openPage(context)
  await page.goto(`${app.url}/board`)
  await page.getByLabel('Token').fill(ADMIN_TOKEN)
  await page.getByRole('button', { name: 'Log in' }).click()
  const lane = (name: RegExp) => page.getByRole('region', { name })
  await lane(/^Submitted/).waitFor()

  await a2a.submit('Book a table for six')
  await lane(/^Submitted/)
    .getByText('Book a table for six')
    .waitFor()
  const todo = await worker.claim()
  await lane(/^Working/)
    .getByText('Book a table for six')
    .waitFor()
  await ask(worker, todo, 'Thursday or Friday?')
  await lane(/^Waiting/)
    .getByText('Thursday or Friday?')
    .waitFor()
  await a2a.submit('Friday', { taskId: todo.id })
  await lane(/^Working/)
    .getByText('Book a table for six')
    .waitFor()
  await worker.call('todos.complete', { ...todo.held, acknowledge: 1000 })
  await lane(/^Finished/)
    .getByText('Book a table for six')
    .waitFor()
  expect(complaints).toEqual([])
  await context.close()
})
