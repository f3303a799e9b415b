// Nodes that are killed while they make what schedules owe: each tick is made once all the same.
import { once } from 'node:events'
import { expect, test } from 'vitest'
import type { App } from '../support/app.ts'
import { cloneDatabase, withClient } from '../support/database/database.ts'
import { serveProcess } from '../support/process/serve-process.ts'
import { until } from '../support/until.ts'

const SCHEDULES = 20
const MINUTES = 180

test('nodes that are killed while they make ticks leave none half made, and none is made twice', async () => {
  const clone = await cloneDatabase()
  const on: App['sql'] = (text, values = []) =>
    withClient(clone.url, async (session) => (await session.query(text, values)).rows)
  const made = async () =>
    (await on<{ n: number }>('select count(*)::int as n from todos where schedule is not null'))[0]!
      .n
  try {
    await on(`insert into queues (name, card, policy)
      values ('q', '{"name":"q"}', '{"maxAttempts":5,"contexts":"serial","timeouts":{}}')`)
    const [{ at }] = (await on(
      `insert into schedules (name, queue, cron, time_zone, catch_up, catch_up_limit, message, next_at)
      select 's' || n, 'q', '* * * * *', 'UTC', 'all', 200,
        '{"messageId":"m","role":"ROLE_USER","parts":[{"text":"x"}]}',
        date_trunc('minute', now()) - make_interval(mins => $2)
      from generate_series(1, $1::int) n returning next_at as at`,
      [SCHEDULES, MINUTES],
    )) as [{ at: Date }]
    for (let kill = 0; kill < 4; kill += 1) {
      const before = await made()
      const [one, two] = [await serveProcess(clone.url), await serveProcess(clone.url)]
      await until(async () => (await made()) > before, { what: 'they are at work' })
      for (const { child } of [one, two]) {
        child.kill('SIGKILL')
        await once(child, 'exit')
      }
    }
    await serveProcess(clone.url)
    await until(
      async () => (await on('select from schedules where next_at <= now()')).length === 0,
      { what: 'all that is due is made', timeoutMs: 60_000 },
    )
    const rows = await on<{
      schedule: string
      ticks: number
      todos: number
      told: number
      span: number
    }>(
      `select t.schedule, count(distinct t.not_before)::int as ticks, count(*)::int as todos,
        max(s.made)::int as told, (extract(epoch from max(t.not_before) - $1) / 60)::int as span
      from todos t join schedules s on s.name = t.schedule group by 1`,
      [at],
    )
    expect(rows).toHaveLength(SCHEDULES)
    for (const { ticks, todos, told, span } of rows) {
      expect({ ticks, told, span: span + 1 }).toEqual({ ticks: todos, told: todos, span: todos })
      expect(todos).toBeGreaterThan(MINUTES)
    }
  } finally {
    await clone.drop()
  }
})
