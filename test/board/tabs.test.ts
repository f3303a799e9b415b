// All tabs of one browser share one stream, so that what people do in them always gets through.
// Field cases: many tabs of one board.
import type { BrowserContext, Page } from 'playwright-core'
import { expect, test } from 'vitest'
import { ADMIN_TOKEN, startApp, startNode, testConfig } from '../support/app.ts'
import { card, lane, openBoardPage, openBrowser, openPage } from '../support/browser.ts'
import { a2aClient, agentClient } from '../support/clients/actors.ts'
import { ask, metric } from '../support/steps.ts'
import { until } from '../support/until.ts'

const TABS = 10

const app = await startApp()
const browser = await openBrowser()
const desk = await app.queue('desk', { contexts: 'parallel' })
const shop = await app.queue('shop', { contexts: 'parallel' })
const a2a = a2aClient(app.url, 'desk', desk.client.token)
const inShop = a2aClient(app.url, 'shop', shop.client.token)
const worker = agentClient(app.url, desk.agent.token)

const streams = () => metric(app, 'switchboard_streams_open{kind="board"}')

const isLive = (page: Page) => page.getByText('live', { exact: true }).waitFor()

/** Tabs of one browser, logged in once. */
const openTabs = async (context: BrowserContext, count: number, address = ''): Promise<Page[]> => {
  const { page: first } = await openBoardPage(app, context, address)
  const pages = [first]
  while (pages.length < count) {
    const { page } = await openPage(context)
    await page.goto(`${app.url}/board${address}`)
    pages.push(page)
  }
  await Promise.all(pages.map(isLive))
  return pages
}

const answerFrom = async (page: Page, id: string, text: string): Promise<void> => {
  await page.goto(`${app.url}/board#/todo/${id}`)
  const drawer = page.getByRole('dialog')
  await drawer.getByRole('textbox').first().fill(text)
  await drawer.getByRole('button', { name: 'Answer', exact: true }).click()
}

const asked = async (text: string) => {
  await a2a.submit(text)
  const todo = await worker.claim()
  await ask(worker, todo, `What of ${text}?`)
  return todo
}

test('ten tabs over HTTP/1.1 are live by one stream, and a question is answered from any of them', async () => {
  const context = await browser.newContext()
  const tabs = await openTabs(context, TABS)
  expect(await streams()).toBe(1)
  const task = await a2a.submit('seen by all')
  await Promise.all(tabs.map((tab) => card(tab, task.id).waitFor()))
  await worker.call('todos.complete', (await worker.claim()).held)
  await Promise.all(tabs.map((tab) => lane(tab, 'Finished').getByText('seen by all').waitFor()))

  for (const tab of [tabs[0]!, tabs[TABS - 1]!]) {
    const todo = await asked('it')
    await Promise.all(tabs.map((each) => lane(each, 'Waiting').getByText('What of it?').waitFor()))
    await answerFrom(tab, todo.id, 'this')
    await until(async () => (await worker.call('todos.messages', todo.held)).messages.length > 0, {
      what: 'the answer',
    })
    await worker.call('todos.complete', { ...todo.held, acknowledge: 1000 })
    await tab.goto(`${app.url}/board`)
    await isLive(tab)
  }

  // Whoever opened the stream may go: it is nobody's in particular.
  for (const tab of tabs.splice(0, TABS - 2)) await tab.close()
  const later = await a2a.submit('after they left')
  await Promise.all(tabs.map((tab) => card(tab, later.id).waitFor()))
  expect(await streams()).toBe(1)
  for (const tab of tabs) await tab.close()
  await until(async () => (await streams()) === 0, { what: 'the end of the stream' })
  await worker.call('todos.complete', (await worker.claim()).held)
  await context.close()
})

test('each tab has a filter of its own, which may change, and counts right', async () => {
  const context = await browser.newContext()
  const [all] = await openTabs(context, 1)
  const [ofDesk] = await openTabs(context, 1, '?queue=desk')
  const [ofShop] = await openTabs(context, 1, '?queue=shop')
  expect(await streams()).toBe(1)
  const [one, two] = [await a2a.submit('for the desk'), await inShop.submit('for the shop')]
  await card(all!, one.id).waitFor()
  await card(all!, two.id).waitFor()
  await card(ofDesk!, one.id).waitFor()
  await card(ofShop!, two.id).waitFor()
  expect(await card(ofDesk!, two.id).count()).toBe(0)
  expect(await card(ofShop!, one.id).count()).toBe(0)
  await ofDesk!.goto(`${app.url}/board?queue=shop`)
  await card(ofDesk!, two.id).waitFor()
  const three = await inShop.submit('one more')
  await card(ofDesk!, three.id).waitFor()
  for (const [tab, count] of [
    [ofDesk!, '2'],
    [ofShop!, '2'],
    [all!, '3'],
  ] as const) {
    await expect.poll(() => lane(tab, 'Submitted').locator('output').textContent()).toBe(count)
  }
  expect(await streams()).toBe(1)
  await worker.call('todos.complete', (await worker.claim()).held)
  await context.close()
})

test('all tabs catch up with a server that was restarted', async () => {
  const first = await startNode(app.databaseUrl)
  const port = Number(new URL(first.url).port)
  const context = await browser.newContext()
  const { page } = await openBoardPage(first, context)
  const { page: second } = await openPage(context)
  await second.goto(`${first.url}/board`)
  await isLive(second)
  await first.stop()
  for (const tab of [page, second]) await tab.getByText(/^reconnecting, stale since/).waitFor()
  const sent = await a2a.submit('sent meanwhile')
  const again = await startNode(app.databaseUrl, { config: testConfig({ port }) })
  for (const tab of [page, second]) {
    await isLive(tab)
    await card(tab, sent.id).waitFor()
  }
  await worker.call('todos.complete', (await worker.claim()).held)
  await context.close()
  await again.stop()
})

test('logging out of one tab logs out all, and whoever logs in next is told nothing of before', async () => {
  const watcher = await app.vend(['watch'], ['shop'], { name: 'watcher' })
  const context = await browser.newContext()
  const [one, two] = await openTabs(context, 2)
  await one!.getByRole('button', { name: 'Log out' }).click()
  for (const tab of [one!, two!]) await tab.getByLabel('Token').waitFor()
  await two!.getByLabel('Token').fill(watcher.token)
  await two!.getByRole('button', { name: 'Log in' }).click()
  await isLive(two!)
  const [hidden, shown] = [await a2a.submit('not theirs'), await inShop.submit('theirs')]
  await card(two!, shown.id).waitFor()
  expect(await card(two!, hidden.id).count()).toBe(0)
  await one!.reload()
  await card(one!, shown.id).waitFor()
  expect(await card(one!, hidden.id).count()).toBe(0)
  // Somebody else logs in over them: the stream is theirs from then on.
  await context.request.post(`${app.url}/board/logout`)
  await one!.getByLabel('Token').fill(ADMIN_TOKEN)
  await one!.getByRole('button', { name: 'Log in' }).click()
  await card(one!, hidden.id).waitFor()
  await worker.call('todos.complete', (await worker.claim()).held)
  await context.close()
})

interface TabWindow extends EventTarget {
  document: EventTarget
  SharedWorker: unknown
  setHidden(is: boolean): void
}

/** Runs in a page before its scripts: a browser without shared workers, whose tabs can be hidden. */
const withoutWorkers = (how: string): void => {
  const tab = globalThis as unknown as TabWindow
  let hidden = false
  Object.defineProperty(tab.document, 'hidden', { get: () => hidden })
  tab.setHidden = (is) => {
    hidden = is
    tab.document.dispatchEvent(new Event('visibilitychange'))
  }
  tab.SharedWorker =
    how === 'none'
      ? undefined
      : class {
          constructor() {
            throw new Error('refused')
          }
        }
}
const setHidden = (page: Page, is: boolean): Promise<void> =>
  page.evaluate((hidden) => (globalThis as unknown as TabWindow).setHidden(hidden), is)

test.each(['none', 'refused'])(
  'where there is no shared worker (%s), a tab has a stream while it is looked at',
  async (how) => {
    const context = await browser.newContext()
    await context.addInitScript(withoutWorkers, how)
    const tabs: Page[] = []
    const { page: first } = await openBoardPage(app, context)
    tabs.push(first)
    while (tabs.length < TABS) {
      await setHidden(tabs.at(-1)!, true)
      const { page } = await openPage(context)
      await page.goto(`${app.url}/board`)
      await isLive(page)
      tabs.push(page)
    }
    await until(async () => (await streams()) === 1, { what: 'one stream' })
    const todo = await asked('that')
    const last = tabs.at(-1)!
    await lane(last, 'Waiting').getByText('What of that?').waitFor()
    // The others may be behind, and are not when one looks at them.
    await setHidden(last, true)
    await setHidden(first, false)
    await lane(first, 'Waiting').getByText('What of that?').waitFor()
    await answerFrom(first, todo.id, 'this')
    await until(async () => (await worker.call('todos.messages', todo.held)).messages.length > 0)
    await worker.call('todos.complete', { ...todo.held, acknowledge: 1000 })
    await context.close()
  },
)
