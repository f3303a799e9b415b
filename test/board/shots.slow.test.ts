// Pictures of the board for people to look at, in .shots (npm run board:shots).
import { mkdirSync } from 'node:fs'
import path from 'node:path'
import { expect, test } from 'vitest'
import { startApp, startNode } from '../support/app.ts'
import { openBoardPage, openBrowser, openPage } from '../support/browser.ts'
import { operate } from '../support/steps.ts'
import { makeBusy } from './busy.ts'

const FOLDER = path.resolve('.shots')
mkdirSync(FOLDER, { recursive: true })

const app = await startApp()
const browser = await openBrowser()
const busy = await makeBusy(app)

const WIDE = { width: 1440, height: 900 }
const NARROW = { width: 400, height: 860 }

test.each([
  ['light', 'light', WIDE, ''],
  ['dark', 'dark', WIDE, ''],
  ['narrow', 'light', NARROW, ''],
  ['drawer', 'light', WIDE, busy.dinner.id],
  ['drawer-dark', 'dark', WIDE, busy.table.id],
  ['drawer-narrow', 'dark', NARROW, busy.table.id],
] as const)('%s', async (name, colorScheme, viewport, id) => {
  const context = await browser.newContext({ colorScheme, viewport })
  const { page, complaints } = await openPage(context)
  await page.goto(`${app.url}/board/login?code=${await app.issueBoardCode()}`)
  await page.goto(`${app.url}/board${id === '' ? '' : `#/todo/${id}`}`)
  await page.getByText('Thursday the 10th or Friday the 11th?').first().waitFor()
  if (id !== '') await page.getByRole('heading', { name: 'Events' }).waitFor()
  await page.locator('[data-plot] canvas').first().waitFor()
  await page.screenshot({ path: path.join(FOLDER, `${name}.png`) })
  expect(complaints).toEqual([])
  await context.close()
})

test('busy', async () => {
  const worker = busy.agent('support')
  await Promise.all(Array.from({ length: 260 }, (_, i) => busy.send('support', `Sort mail ${i}`)))
  for (const claimant of ['box-5', 'box-6']) {
    const { todos } = await worker.call('todos.claim', { limit: 70, claimant })
    const done = todos.slice(0, 40)
    await Promise.all(
      done.map(({ id, fence }: { id: string; fence: string }) =>
        worker.call('todos.complete', { id, fence }),
      ),
    )
  }
  // As if it had taken an hour.
  await app.sql(
    `update events set at = at - make_interval(mins => (abs(hashtext(todo_id::text)) % 55))
     where queue = 'support'`,
  )
  // Another node counts the hour anew.
  const node = await startNode(app.databaseUrl)
  const context = await browser.newContext({ viewport: WIDE })
  const { page, complaints } = await openBoardPage(node, context)
  await page.locator('[data-plot] canvas').first().waitFor()
  await page
    .getByText(/^Sort mail/)
    .first()
    .waitFor()
  await page.screenshot({ path: path.join(FOLDER, 'busy.png') })
  expect(complaints).toEqual([])
  await context.close()
  await node.stop()
})

test('answer-link', async () => {
  const { url } = await operate(app, 'todos.answerLink', { id: busy.table.id })
  const context = await browser.newContext({ viewport: { width: 700, height: 760 } })
  const { page } = await openPage(context)
  await page.goto(url)
  await page.screenshot({ path: path.join(FOLDER, 'answer-link.png') })
  await context.close()
})
