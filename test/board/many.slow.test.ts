// A board with thousands of todos on it.
import { expect, test } from 'vitest'
import { startApp } from '../support/app.ts'
import { card, lane, openBoardPage, openBrowser } from '../support/browser.ts'
import { agentClient } from '../support/clients/actors.ts'
import { scaled } from '../support/timeouts.ts'

const app = await startApp()
const browser = await openBrowser()

const WIDE = { width: 1440, height: 900 }

test('five thousand todos are a board that still moves', async () => {
  await app.queue('many', { contexts: 'parallel' })
  await app.sql(
    `with made as (
      insert into todos (id, queue, context_id, max_attempts, due_at, status_at)
      select gen_random_uuid(), 'many', 'c' || i, 5, now(), now() - make_interval(secs => i)
      from generate_series(1, 5000) i returning id, context_id)
    insert into messages (todo_id, seq, message_id, role, message)
    select id, 1, 'm', 'user', json_build_object('messageId', 'm', 'role', 'ROLE_USER',
      'parts', json_build_array(json_build_object('text', 'todo ' || context_id))) from made`,
  )
  const context = await browser.newContext({ viewport: WIDE })
  const { page, complaints } = await openBoardPage(app, context, '?queue=many')
  await lane(page, 'Submitted').getByText('todo c1', { exact: true }).waitFor()
  // By the short way: looking by role and text through thousands of cards is slow by itself.
  const submitted = page.locator('section[data-phase="waiting"]')
  const count = () => submitted.locator('output').textContent()
  expect(await count()).toBe('5,000')
  // A lane holds what was scrolled to.
  expect(await submitted.locator('.card').count()).toBeLessThan(500)
  const scroll = () =>
    submitted.evaluate((lane) => {
      lane.scrollTo(0, lane.scrollHeight)
      return lane.querySelectorAll('.card').length
    })
  await expect.poll(scroll, { timeout: scaled(100_000), interval: 100 }).toBe(5000)
  expect(await submitted.locator('.card h3').last().textContent()).toContain('todo c5000')
  const agent = await app.vend(['work'], ['many'])
  const todo = await agentClient(app.url, agent.token).claim()
  await card(page, todo.id).and(page.locator('[data-phase="held"]')).waitFor()
  await expect.poll(count).toBe('4,999')
  expect(complaints).toEqual([])
  await context.close()
})
