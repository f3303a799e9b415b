// On whose behalf a task was sent, as the board shows it.
import { expect, test } from 'vitest'
import { startApp } from '../support/app.ts'
import { card, lane, openBoardPage, openBrowser } from '../support/browser.ts'
import { a2aClient, agentClient, textMessage } from '../support/clients/actors.ts'
import { ask } from '../support/steps.ts'

const app = await startApp()
const browser = await openBrowser()

test('a card and its drawer say whom the task is from, and who said what', async () => {
  const { client, agent } = await app.queue('group', { reentry: 'author' })
  const a2a = a2aClient(app.url, 'group', client.token)
  const send = async (author: string, text: string, more: object = {}) =>
    (
      await a2a.call('SendMessage', {
        message: textMessage(text, { contextId: 'c', ...more }),
        metadata: { 'switchboard/author': author },
        configuration: { returnImmediately: true },
      })
    ).result.task
  const context = await browser.newContext()
  const { page } = await openBoardPage(app, context)
  const sent = await send('<b>Ann</b>', 'A table, please')
  const ann = card(page, sent.id)
  await ann.getByText('from <b>Ann</b>', { exact: true }).waitFor()
  const worker = agentClient(app.url, agent.token)
  const todo = await worker.claim()
  await ask(worker, todo, 'For which day?')
  await lane(page, 'Waiting').getByText('For which day?').waitFor()
  await ann.getByText('from <b>Ann</b>', { exact: true }).waitFor()
  await send('Bob', 'Friday', { taskId: sent.id })
  await ann.getByRole('link', { name: 'A table, please' }).click()
  const drawer = page.getByRole('dialog', { name: 'A table, please' })
  await drawer.locator('.meta').getByText('from <b>Ann</b>', { exact: true }).waitFor()
  const talk = drawer.getByRole('region', { name: 'Conversation' })
  await talk.getByText('answer by Bob', { exact: true }).waitFor()
  expect(await talk.locator('.who').allInnerTexts()).toEqual([
    expect.stringContaining('<b>Ann</b>'),
    expect.stringContaining('agent'),
    expect.stringContaining('answer by Bob'),
  ])
  await context.close()
})
