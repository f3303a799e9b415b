// Pictures of the board for people to look at, in .shots (npm run board:shots).
import { mkdirSync } from 'node:fs'
import path from 'node:path'
import { expect, test } from 'vitest'
import { startApp } from '../support/app.ts'
import { openBrowser, openPage } from '../support/browser.ts'
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
