/** The commands for schedules and for sends that name their moment, against a real server. */
import { expect, test } from 'vitest'
import { startApp } from '../support/app.ts'
import { ADMIN_TOKEN } from '../support/config.ts'
import { runCli } from './run.ts'

const app = await startApp({ scheduleMs: 3_600_000 })
await app.queue('jobs')
const cli = async (...args: string[]) => {
  const env = { SWITCHBOARD_URL: app.url, SWITCHBOARD_TOKEN: ADMIN_TOKEN, TZ: 'UTC' }
  return runCli(args, { env })
}

test('a schedule is put, shown, paused, resumed and removed', async () => {
  const words = ['--queue', 'jobs', '--cron', '0 9 * * 1-5', '--time-zone', 'Asia/Tokyo']
  const put = await cli('schedule', 'put', 'morning', 'hello', ...words, '--catch-up', 'skip')
  expect(put).toMatchObject({ code: 0, stdout: 'schedule morning is there\n' })
  expect(put.stderr).toMatch(/^next: .* 00:00:00, .* 00:00:00, .* 00:00:00\n$/)
  expect(await cli('schedule', 'pause', 'morning')).toMatchObject({
    code: 0,
    stdout: 'schedule morning is paused\n',
    stderr: '',
  })
  const list = await cli('schedule', 'list')
  expect(list.stdout).toMatch(/morning +jobs +0 9 \* \* 1-5 +Asia\/Tokyo +paused/)
  expect((await cli('schedule', 'resume', 'morning')).stdout).toBe('schedule morning is active\n')
  await app.sql(`update schedules set next_at = date_trunc('minute', now()), cron = '* * * * *'`)
  expect(await app.sweep.tick()).toBe(1)
  const show = await cli('schedule', 'show', 'morning')
  expect(show.stdout).toContain('morning  * * * * * (Asia/Tokyo) to jobs')
  expect(show.stdout).toMatch(/made +1/)
  const [todo] = await app.sql<{ id: string }>('select id from todos')
  expect((await cli('show', todo!.id)).stdout).toMatch(/schedule +morning/)
  expect((await cli('schedule', 'remove', 'morning')).code).toBe(0)
  expect(await cli('schedule', 'show', 'morning')).toMatchObject({ code: 3 })
})

test('a schedule that is none is refused in words', async () => {
  const bad = await cli('schedule', 'put', 'bad', 'x', '--queue', 'jobs', '--cron', 'soon')
  expect(bad.code).not.toBe(0)
  expect(bad.stderr).toContain('five fields')
})

test('a send names its moment', async () => {
  const sent = await cli('send', 'jobs', 'later', '--no-wait', '--delay', '3600', '--priority', '0')
  expect(sent.code).toBe(0)
  const [todo] = await app.sql(
    `select priority, round(extract(epoch from not_before - created_at))::int as delay
    from todos where id = $1`,
    [sent.stdout.trim()],
  )
  expect(todo).toEqual({ priority: 0, delay: 3600 })
  const moment = new Date(Date.now() + 7_200_000).toISOString()
  const then = await cli('send', 'jobs', 'then', '--no-wait', '--not-before', moment)
  expect((await cli('why', then.stdout.trim())).stdout).toContain(moment.slice(0, 19))
})
