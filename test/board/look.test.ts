// Filters, keys, other people's text, many todos, a narrow screen, and what axe-core says.
// Field case: the board shows text as text.
import axe from 'axe-core'
import type { Page } from 'playwright-core'
import { expect, test } from 'vitest'
import { startApp } from '../support/app.ts'
import { card, lane, openBoardPage, openBrowser, openPage } from '../support/browser.ts'
import { a2aClient, agentClient } from '../support/clients/actors.ts'
import { ask, operate } from '../support/steps.ts'
import { makeBusy } from './busy.ts'

const app = await startApp()
const browser = await openBrowser()
const busy = await makeBusy(app)

const violations = async (page: Page): Promise<unknown> => {
  // By the debugger, which no policy of the page forbids.
  await page.evaluate(axe.source)
  const text = await page.evaluate<string>(
    `axe.run(document, { resultTypes: ['violations'] }).then(({ violations }) => JSON.stringify(
      violations.map(({ id, nodes }) => [id, nodes.map(({ html, failureSummary }) => html.slice(0, 200) + failureSummary)])))`,
  )
  return JSON.parse(text)
}

const WIDE = { width: 1440, height: 900 }

test.each(['light', 'dark'] as const)(
  'axe-core finds nothing to complain of, %s',
  async (colorScheme) => {
    const context = await browser.newContext({
      colorScheme,
      reducedMotion: 'reduce',
      viewport: WIDE,
    })
    const login = await openPage(context)
    await login.page.goto(`${app.url}/board`)
    await login.page.getByLabel('Token').waitFor()
    expect(await violations(login.page)).toEqual([])
    const { page } = await openBoardPage(app, context)
    await card(page, busy.dinner.id).waitFor()
    expect(await violations(page)).toEqual([])
    await page.keyboard.press('?')
    await page.getByRole('heading', { name: 'Keys' }).waitFor()
    expect(await violations(page)).toEqual([])
    await page.keyboard.press('Escape')
    for (const id of [busy.table.id, busy.dead.id]) {
      await page.goto(`${app.url}/board#/todo/${id}`)
      await page.getByRole('heading', { name: 'Events' }).waitFor()
      expect(await violations(page)).toEqual([])
    }
    const digest = (await operate(app, 'todos.list', { queue: 'office', state: 'done' })).todos[0]
    await page.goto(`${app.url}/board#/todo/${digest.id}`)
    await page.getByRole('heading', { name: 'Numbers' }).waitFor()
    expect(await violations(page)).toEqual([])
    const { url } = await operate(app, 'todos.answerLink', { id: busy.table.id })
    await page.goto(url)
    expect(await violations(page)).toEqual([])
    await context.close()
  },
)

test('the lanes are narrowed by queue, conversation and text, and the address keeps it', async () => {
  const context = await browser.newContext({ viewport: WIDE })
  const { page } = await openBoardPage(app, context)
  await card(page, busy.contract.id).waitFor()
  await page.getByLabel('Queue').selectOption('office')
  await card(page, busy.contract.id).waitFor({ state: 'detached' })
  await card(page, busy.dinner.id).waitFor()
  expect(await lane(page, 'Waiting').locator('output').textContent()).toBe('2')
  // It is narrowed at the server: what happens elsewhere is not told.
  const elsewhere = await busy.send('support', 'Not of the office')
  const here = await busy.send('office', 'Of the office')
  await card(page, here.id).waitFor()
  expect(await card(page, elsewhere.id).count()).toBe(0)

  await page.getByLabel('Search').fill('DINNER')
  await lane(page, 'Submitted').getByText('Nothing here matches.').waitFor()
  await card(page, busy.dinner.id).waitFor()
  expect(await lane(page, 'Waiting').locator('output').textContent()).toBe('1 of 2')
  await page.reload()
  await card(page, busy.dinner.id).waitFor()
  expect(await page.getByLabel('Search').inputValue()).toBe('DINNER')
  expect(await page.getByLabel('Queue').inputValue()).toBe('office')

  await page.getByLabel('Search').fill('')
  await page.getByLabel('Queue').selectOption('')
  await page.getByLabel('Context').fill(busy.contract.contextId)
  await page.getByLabel('Context').press('Enter')
  await card(page, busy.dinner.id).waitFor({ state: 'detached' })
  await card(page, busy.contract.id).waitFor()
  await lane(page, 'Submitted').getByText('Draft the Q4 supplier letter').waitFor()
  await lane(page, 'Submitted').getByRole('link', { name: 'Translate the contract' }).waitFor()
  await context.close()
})

test('the board is worked by keys alone', async () => {
  const context = await browser.newContext({ viewport: WIDE })
  const { page } = await openBoardPage(app, context)
  await card(page, busy.dinner.id).waitFor()
  const focused = () =>
    page.evaluate<string>(
      'document.activeElement?.closest(".card")?.dataset.phase ?? document.activeElement?.id ?? ""',
    )
  await page.keyboard.press('j')
  expect(await focused()).toBe('waiting')
  await page.keyboard.press('l')
  expect(await focused()).toBe('held')
  await page.keyboard.press('j')
  await page.keyboard.press('Enter')
  await page.getByRole('dialog').waitFor()
  expect(await page.getByRole('dialog').getAttribute('aria-labelledby')).toBe('drawer-title')
  await expect.poll(focused).toBe('drawer-title')
  await page.keyboard.press('Escape')
  await page.getByRole('dialog').waitFor({ state: 'detached' })
  await expect.poll(focused).toBe('held')
  await page.keyboard.press('/')
  expect(await focused()).toBe('search')
  // Typed letters are letters.
  await page.keyboard.type('jac')
  expect(await page.getByLabel('Search').inputValue()).toBe('jac')
  await page.getByLabel('Search').fill('')
  await page.keyboard.press('Escape')
  await page.keyboard.press('d')
  await lane(page, 'Dead letters').waitFor()
  await page.keyboard.press('d')
  await page.keyboard.press('?')
  await page.getByRole('heading', { name: 'Keys' }).waitFor()
  await page.keyboard.press('Escape')
  await page.keyboard.press('j')
  await page.keyboard.press('w')
  await expect.poll(focused).toBe('why')
  await page.keyboard.press('Escape')
  await expect.poll(focused).toBe('waiting')
  await page.keyboard.press('c')
  await page.getByText(/^Cancel “/).waitFor()
  await page.keyboard.press('Escape')

  const { client, agent } = await app.queue('keys')
  await a2aClient(app.url, 'keys', client.token).submit('Answer me by keys')
  const worker = agentClient(app.url, agent.token)
  const todo = await worker.claim()
  await ask(worker, todo, 'By keys?')
  await card(page, todo.id).getByRole('textbox').waitFor()
  await card(page, todo.id).getByRole('link').focus()
  await page.keyboard.press('a')
  await page.keyboard.type('yes')
  await page.keyboard.press('Enter')
  await lane(page, 'Working').getByText('Answer me by keys').waitFor()
  await operate(app, 'todos.cancel', { id: todo.id })
  await context.close()
})

test('a line that is being typed outlives whatever else moves on the board', async () => {
  const context = await browser.newContext({ viewport: WIDE })
  const { page } = await openBoardPage(app, context)
  const field = card(page, busy.dinner.id).getByRole('textbox')
  await field.fill('Frid')
  await field.press('End')
  for (let i = 0; i < 5; i += 1) await busy.send('support', `Noise ${i}`)
  const { todos } = await busy.agent('support').call('todos.claim', { limit: 100 })
  await card(page, todos.at(-1).id).and(page.locator('[data-phase="held"]')).waitFor()
  await page.keyboard.type('ay')
  expect(await field.inputValue()).toBe('Friday')
  await context.close()
})

const HOSTILE = [
  `<script>document.title='owned'</script>`,
  `"><img src=x onerror="document.title='owned'">`,
  `<svg onload=document.title='owned'>`,
  `[click](javascript:document.title='owned') **bold** \`code\` <b>b</b>`,
  `\u202Egnihtemos\u202C \u2066isolated`,
  `{{constructor.constructor("document.title=1")()}} \${1+1} ?lit$123$`,
  `</textarea></style></title><iframe srcdoc="<script>parent.document.title='owned'</script>">`,
]

test('what others wrote is text everywhere, whatever it looks like', async () => {
  const { client, agent } = await app.queue('hostile', { contexts: 'parallel' })
  const a2a = a2aClient(app.url, 'hostile', client.token)
  const worker = agentClient(app.url, agent.token)
  const context = await browser.newContext({ viewport: WIDE })
  const { page, complaints } = await openBoardPage(app, context, '?queue=hostile')
  for (const text of HOSTILE) {
    await a2a.call('SendMessage', {
      message: {
        messageId: text.slice(0, 40),
        contextId: text,
        role: 'ROLE_USER',
        parts: [
          { text },
          { data: { [text]: text } },
          { url: `javascript:document.title='owned'`, filename: text, mediaType: text },
          { raw: 'PHN2Zz4=', filename: text, mediaType: 'image/svg+xml' },
          { raw: 'PGI+', filename: `../${text}`, mediaType: 'text/html' },
        ],
      },
      configuration: { returnImmediately: true },
    })
    const todo = await worker.claim({ claimant: text })
    await worker.call('todos.progress', { ...todo.held, note: text })
    await worker.call('todos.artifact', {
      ...todo.held,
      artifact: {
        artifactId: text,
        name: text,
        description: text,
        parts: [{ text }, { data: [text] }],
      },
    })
    await ask(worker, todo, text, {
      schema: {
        type: 'object',
        properties: {
          [text]: { type: 'string', title: text, description: text },
          pick: { enum: [text, 'b'] },
        },
      },
    })
    await card(page, todo.id).waitFor()
    await card(page, todo.id).locator('h3').getByRole('link').click()
    const drawer = page.locator(`.drawer[data-id="${todo.id}"]`)
    await drawer.getByRole('heading', { name: 'Events' }).waitFor()
    expect(await drawer.getByRole('blockquote').textContent()).toBe(text)
    // Nothing of it became markup: no element is there that the board does not make itself.
    const tags = await page.evaluate<string>(
      `[...new Set([...document.querySelectorAll('#app *')].map((e) => e.localName))].sort().join()`,
    )
    expect(tags).not.toMatch(/script|iframe|\bimg\b|style|\bb\b,code|em,|strong/)
    const links = await page.evaluate<string[]>(`[...document.links].map((a) => a.protocol)`)
    expect(links.filter((protocol) => !/^https?:$/.test(protocol))).toEqual([])
    expect(await page.title()).toMatch(/^\(\d+\) switchboard$/)
    await page.keyboard.press('Escape')
    await worker.call('todos.messages', todo.held)
    await operate(app, 'todos.cancel', { id: todo.id })
  }
  expect(complaints).toEqual([])
  await context.close()
})

test('a file is saved as bytes under a harmless name, and only images of safe kinds are shown', async () => {
  const digest = (await operate(app, 'todos.list', { queue: 'office', state: 'done' })).todos[0]
  const context = await browser.newContext({ viewport: WIDE, acceptDownloads: true })
  const { page, complaints } = await openBoardPage(app, context, `#/todo/${digest.id}`)
  const drawer = page.getByRole('dialog')
  await drawer.getByRole('img', { name: 'chart.png' }).waitFor()
  expect(await drawer.locator('figure img').count()).toBe(1)
  const download = page.waitForEvent('download')
  await drawer.getByRole('button', { name: 'Save drawing.svg' }).click()
  expect((await download).suggestedFilename()).toBe('drawing.svg')
  expect(complaints).toEqual([])
  await context.close()
})

test('nothing is cut off at a width of 400 pixels', async () => {
  const context = await browser.newContext({ viewport: { width: 400, height: 800 } })
  const { page } = await openBoardPage(app, context)
  await card(page, busy.dinner.id).waitFor()
  const overflow = () => page.evaluate<number>('document.documentElement.scrollWidth - innerWidth')
  const unbroken = (letter: string) => letter.repeat(300)
  const endless = await busy.work('office', unbroken('W'))
  await ask(busy.agent('office'), endless, unbroken('Q'), {
    schema: {
      type: 'object',
      properties: {
        [unbroken('N')]: { type: 'string', description: unbroken('D') },
        pick: { enum: [unbroken('E'), 'b'] },
      },
    },
  })
  await card(page, endless.id).waitFor()
  expect(await overflow()).toBeLessThanOrEqual(0)
  const { url } = await operate(app, 'todos.answerLink', { id: endless.id })
  const { page: letter } = await openPage(context)
  await letter.goto(url)
  const wide = 'document.documentElement.scrollWidth - innerWidth'
  expect(await letter.evaluate<number>(wide)).toBeLessThanOrEqual(0)
  await operate(app, 'todos.cancel', { id: endless.id })
  await card(page, endless.id).and(page.locator('[data-phase="ended"]')).waitFor()
  expect(await overflow()).toBeLessThanOrEqual(0)
  await card(page, busy.table.id).getByRole('link', { name: 'Reserve the large room' }).click()
  await page.getByRole('heading', { name: 'Events' }).waitFor()
  expect(await overflow()).toBeLessThanOrEqual(0)
  const box = await page.getByRole('dialog').boundingBox()
  expect(box!.width).toBeCloseTo(400)
  await context.close()
})

test('the plots are fed from what happened in the last hour', async () => {
  const context = await browser.newContext({ viewport: WIDE })
  const { page } = await openBoardPage(app, context)
  const plot = page.getByRole('img', { name: /^finished a minute, the last hour/ })
  await plot.locator('canvas').waitFor()
  const { minutes } = await (await page.request.get(`${app.url}/board/pulse?queue=support`)).json()
  expect(minutes).toHaveLength(60)
  const sum = minutes.reduce((all: number, { finished }: { finished: number }) => all + finished, 0)
  expect(sum).toBeGreaterThanOrEqual(12)
  await context.close()
})
