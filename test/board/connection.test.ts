// A light that tells the truth, and an exact catch-up after a lost connection.
import { expect, test } from 'vitest'
import { startApp, startNode, testConfig } from '../support/app.ts'
import { card, lane, openBoardPage, openBrowser } from '../support/browser.ts'
import { a2aClient, agentClient } from '../support/clients/actors.ts'

const app = await startApp()
const browser = await openBrowser()
const { client, agent } = await app.queue('desk', { contexts: 'parallel' })
const a2a = a2aClient(app.url, 'desk', client.token)
const worker = agentClient(app.url, agent.token)

test('a board that was cut off says since when it is stale, and then catches up to the last card', async () => {
  const context = await browser.newContext()
  const { page, complaints } = await openBoardPage(app, context)
  const light = page.getByRole('status').first()
  const tasks = []
  for (let i = 0; i < 6; i += 1) tasks.push(await a2a.submit(`task ${i}`))
  await card(page, tasks[5].id).waitFor()

  await context.setOffline(true)
  await page.getByText(/^reconnecting, stale since \d\d:\d\d:\d\d$/).waitFor()
  const { todos } = await worker.call('todos.claim', { limit: 4 })
  for (const { id, fence } of todos.slice(0, 2)) {
    await worker.call('todos.complete', { id, fence })
  }
  await a2a.submit('while you were away')
  // Nothing of it shows: the board says that it is old and stays as it was.
  expect(await lane(page, 'Submitted').locator('.card').count()).toBe(6)

  const requests: string[] = []
  page.on('request', (request) => requests.push(new URL(request.url()).pathname))
  await context.setOffline(false)
  await page.getByText('live', { exact: true }).waitFor()
  await lane(page, 'Finished').locator('.card').nth(1).waitFor()
  await lane(page, 'Submitted').getByText('while you were away').waitFor()
  const counts = async () =>
    Promise.all(
      ['Submitted', 'Working', 'Finished'].map((name) =>
        lane(page, name).locator('output').textContent(),
      ),
    )
  await expect.poll(counts).toEqual(['3', '2', '2'])
  expect(await light.getAttribute('data-state')).toBe('live')
  // It went on after the last event it had: nothing was loaded anew.
  expect(requests).not.toContain('/board')
  expect(complaints).toEqual([])
  await context.close()
})

test('a board goes on with a server that was restarted, logged in as before', async () => {
  const first = await startNode(app.databaseUrl)
  const port = Number(new URL(first.url).port)
  const context = await browser.newContext()
  const { page } = await openBoardPage(first, context)
  await first.stop()
  await page.getByText(/^reconnecting, stale since/).waitFor()
  await a2a.submit('sent meanwhile')
  const second = await startNode(app.databaseUrl, {
    config: testConfig({ port }),
  })
  await page.getByText('live', { exact: true }).waitFor()
  await lane(page, 'Submitted').getByText('sent meanwhile').waitFor()
  await context.close()
  await second.stop()
})

test('a cursor that is too old makes the board begin anew', async () => {
  const context = await browser.newContext()
  const { page } = await openBoardPage(app, context)
  const title = lane(page, 'Submitted').getByText('after the gap')
  await context.setOffline(true)
  await page.getByText(/^reconnecting/).waitFor()
  await a2a.submit('before the gap')
  const last = await a2a.submit('after the gap')
  await expect
    .poll(async () => (await app.sql('select from events where position is null')).length)
    .toBe(0)
  await app.sql(
    `delete from events where position < (select min(position) from events where todo_id = $1)`,
    [last.id],
  )
  await context.setOffline(false)
  await page.getByText('live', { exact: true }).waitFor()
  await title.waitFor()
  await lane(page, 'Submitted').getByText('before the gap').waitFor()
  await context.close()
})
