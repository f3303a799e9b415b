/**
 * A real Chromium for the tests of the board: the one named by CHROMIUM_PATH, else the system's,
 * else the one that a package of npm carries, so that the tests need nothing installed.
 */
import { existsSync } from 'node:fs'
import sparticuz from '@sparticuz/chromium'
import {
  type Browser,
  type BrowserContext,
  chromium,
  type Locator,
  type Page,
} from 'playwright-core'
import { afterAll, afterEach, expect } from 'vitest'
import type { Switchboard } from '../../src/app.ts'
import { scaled } from './timeouts.ts'

const SYSTEM = '/usr/bin/chromium'

const find = async (): Promise<{ executablePath: string; args: string[] }> => {
  const given = process.env.CHROMIUM_PATH ?? (existsSync(SYSTEM) ? SYSTEM : null)
  if (given !== null) return { executablePath: given, args: [] }
  return { executablePath: await sparticuz.executablePath(), args: sparticuz.args }
}

/** What any page of a test complained of. */
const allComplaints: string[] = []

/** A browser that shares its machine with others is slow, and nothing here is about speed. */
const STEP_MS = scaled(30_000)

/** Closed after the last test of the file; after each, no page may have complained of anything. */
export const openBrowser = async (): Promise<Browser> => {
  const { executablePath, args } = await find()
  // Whoever runs as root, as containers do, has no sandbox.
  const browser = await chromium.launch({ executablePath, args: [...args, '--no-sandbox'] })
  afterAll(() => browser.close())
  afterEach(() => expect(allComplaints.splice(0)).toEqual([]))
  return browser
}

/** A page, and everything it complained of: errors, and what its own policy forbade. */
export const openPage = async (
  context: BrowserContext,
): Promise<{ page: Page; complaints: string[] }> => {
  const page = await context.newPage()
  // Sooner than the test's own time is up: then it says what was waited for.
  page.setDefaultTimeout(STEP_MS)
  const complaints: string[] = []
  const complain = (text: string): void => {
    complaints.push(text)
    allComplaints.push(text)
  }
  page.on('pageerror', (error) => complain(String(error)))
  page.on('console', (message) => {
    // That a request was refused or broke off is told of by the page itself.
    const text = message.text()
    if (message.type() === 'error' && !/Failed to load resource|net::ERR/.test(text)) {
      complain(text)
    }
  })
  return { page, complaints }
}

/** The board, opened by a one-time link, as an operator sees it. */
export const openBoardPage = async (
  app: Pick<Switchboard, 'issueBoardCode'> & { url: string },
  context: BrowserContext,
  address = '',
): Promise<{ page: Page; complaints: string[] }> => {
  const opened = await openPage(context)
  await opened.page.goto(`${app.url}/board/login?code=${await app.issueBoardCode()}`)
  if (address !== '') await opened.page.goto(`${app.url}/board${address}`)
  await opened.page.getByText('live', { exact: true }).waitFor()
  return opened
}

/** One lane of the board, by the beginning of its name. */
export const lane = (page: Page, name: string): Locator =>
  page.getByRole('region', { name: new RegExp(`^${name}`) })

/** The card of a todo. */
export const card = (page: Page, id: string): Locator => page.locator(`.card[data-id="${id}"]`)
