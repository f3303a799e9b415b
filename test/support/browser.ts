/**
 * A real Chromium for the tests of the board: the one named by CHROMIUM_PATH, else the system's,
 * else the one that a package of npm carries, so that the tests need nothing installed.
 */
import { existsSync } from 'node:fs'
import sparticuz from '@sparticuz/chromium'
import { type Browser, type BrowserContext, chromium, type Page } from 'playwright-core'
import { afterAll } from 'vitest'

const SYSTEM = '/usr/bin/chromium'

const find = async (): Promise<{ executablePath: string; args: string[] }> => {
  const given = process.env.CHROMIUM_PATH ?? (existsSync(SYSTEM) ? SYSTEM : null)
  if (given !== null) return { executablePath: given, args: [] }
  return { executablePath: await sparticuz.executablePath(), args: sparticuz.args }
}

/** Closed after the last test of the file. */
export const openBrowser = async (): Promise<Browser> => {
  const { executablePath, args } = await find()
  // Whoever runs as root, as containers do, has no sandbox.
  const browser = await chromium.launch({ executablePath, args: [...args, '--no-sandbox'] })
  afterAll(() => browser.close())
  return browser
}

/** A page, and everything it complained of: errors, and what its own policy forbade. */
export const openPage = async (
  context: BrowserContext,
): Promise<{ page: Page; complaints: string[] }> => {
  const page = await context.newPage()
  const complaints: string[] = []
  page.on('pageerror', (error) => complaints.push(String(error)))
  page.on('console', (message) => {
    // That a request was refused or broke off is told of by the page itself.
    const text = message.text()
    if (message.type() === 'error' && !/Failed to load resource|net::ERR/.test(text)) {
      complaints.push(text)
    }
  })
  return { page, complaints }
}
