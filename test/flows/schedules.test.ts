/** Recurring sends: one todo a tick over two nodes, whatever their clocks, restarts and failures do. */
import { expect, test } from 'vitest'
import { startApp, startNode } from '../support/app.ts'
import { type Answer, agentClient, rpc } from '../support/clients/actors.ts'
import { ADMIN_TOKEN } from '../support/config.ts'
import { withClient } from '../support/database/database.ts'
import { until } from '../support/until.ts'

const HOUR = 3_600_000
const app = await startApp({ scheduleMs: HOUR, comeDueMs: HOUR, reapMs: HOUR })
const { agent } = await app.queue('jobs')
const worker = agentClient(app.url, agent.token)

const call = (method: string, params: object): Promise<Answer> =>
  rpc(`${app.url}/operator`, method, params, { token: ADMIN_TOKEN })
const ok = async (method: string, params: object): Promise<Answer> => {
  const { result, error } = await call(method, params)
  if (error) throw new Error(JSON.stringify(error))
  return result
}
const message = { parts: [{ text: 'do it' }] }
const put = (name: string, more: object = {}) =>
  ok('schedules.put', { name, queue: 'jobs', cron: '* * * * *', message, ...more })
/** As if nobody had looked for so many minutes: that many ticks are due, and not the one of just now. */
const missed = (name: string, minutes: number) =>
  app.sql(
    `update schedules set next_at = date_trunc('minute', now()) - make_interval(mins => $2)
    where name = $1`,
    [name, minutes],
  )
const todosOf = (name: string) =>
  app.sql<{ id: string; tick: Date }>(
    'select id, not_before as tick from todos where schedule = $1 order by not_before',
    [name],
  )
const get = (name: string) => ok('schedules.get', { name })

test('the timeouts of a schedule are unset by null, and left as they are by silence', async () => {
  const timeouts = { heartbeat: 60 }
  expect((await put('unset', { timeouts })).timeouts).toEqual(timeouts)
  expect((await ok('schedules.put', { name: 'unset', priority: 2 })).timeouts).toEqual(timeouts)
  expect((await ok('schedules.put', { name: 'unset', timeouts: null })).timeouts).toBeNull()
  expect((await get('unset')).timeouts).toBeNull()
  await ok('schedules.remove', { name: 'unset' })
})

test('a tick makes one todo, which says for which moment and by which schedule', async () => {
  const made = await put('daily', { cron: '30 9 * * 1-5', timeZone: 'Europe/Berlin', priority: 0 })
  expect(made).toMatchObject({ catchUp: 'one', paused: false, made: 0, nextAt: made.upcoming[0] })
  expect(made.upcoming).toHaveLength(3)
  await put('daily', { cron: '* * * * *' })
  await missed('daily', 0)
  expect(await app.sweep.tick()).toBe(1)
  expect(await app.sweep.tick()).toBe(0)
  const [todo] = await todosOf('daily')
  const after = await get('daily')
  expect(after).toMatchObject({ made: 1, skipped: 0, error: null, lastTodoId: todo!.id })
  expect(after.lastTickAt).toBe(todo!.tick.toISOString())
  expect(Date.parse(after.nextAt)).toBe(todo!.tick.getTime() + 60_000)
  const claimed = await worker.claim()
  expect(claimed).toMatchObject({
    id: todo!.id,
    schedule: 'daily',
    notBefore: after.lastTickAt,
    message: { messageId: `daily ${after.lastTickAt}`, parts: message.parts },
  })
  await worker.call('todos.complete', claimed.held)
  const { events, schedule } = await ok('todos.show', { id: todo!.id })
  expect(schedule).toBe('daily')
  expect(events[0].detail).toMatchObject({ schedule: 'daily', notBefore: after.lastTickAt })
  await ok('schedules.remove', { name: 'daily' })
})

test('two nodes that look at once make each tick once, and a batch is bounded', async () => {
  const other = await startNode(app.databaseUrl, { scheduleMs: 5, comeDueMs: HOUR, reapMs: HOUR })
  try {
    await put('both', { catchUp: 'all', catchUpLimit: 200 })
    await missed('both', 119)
    await Promise.all(Array.from({ length: 6 }, () => app.sweep.tick()))
    await until(async () => (await todosOf('both')).length >= 120, { what: 'all are made' })
    const todos = await todosOf('both')
    const ticks = new Set(todos.map(({ tick }) => tick.getTime()))
    expect(ticks.size).toBe(todos.length)
    // A minute may have passed meanwhile.
    expect(todos.length - 120).toBeLessThanOrEqual(1)
    expect((await get('both')).made).toBe(todos.length)
    // They do not run into each other's keys: whoever is late finds the row locked.
    for (const node of [app, other]) {
      const { values } = await node.metrics.scheduleTicks.get()
      expect(values.filter(({ labels }) => labels.outcome === 'failed')).toEqual([])
    }
  } finally {
    await other.stop()
  }
  await ok('schedules.remove', { name: 'both' })
})

test('a clock that steps back, and one that is set back over made ticks, repeats none', async () => {
  await put('steps', { catchUp: 'all' })
  await missed('steps', 2)
  const made = await app.sweep.tick()
  expect(made).toBeGreaterThanOrEqual(3)
  await missed('steps', 2)
  await app.sweep.tick()
  const todos = await todosOf('steps')
  expect(new Set(todos.map(({ tick }) => tick.getTime())).size).toBe(todos.length)
  await app.sql(`update schedules set next_at = now() + interval '1 day' where name = 'steps'`)
  expect(await app.sweep.tick()).toBe(0)
  await ok('schedules.remove', { name: 'steps' })
})

test.each([
  ['skip', 1, 10],
  ['one', 1, 10],
  ['all', 4, 7],
] as const)('missed ticks by the policy %s', async (catchUp, made, skipped) => {
  const name = `missed-${catchUp}`
  await put(name, { catchUp, catchUpLimit: 4 })
  await missed(name, 10)
  await app.sweep.tick()
  const todos = await todosOf(name)
  const after = await get(name)
  // The newest minute is not missed; another one may begin meanwhile.
  expect([made, made + 1]).toContain(todos.length)
  expect([skipped, skipped + 1]).toContain(after.skipped)
  expect(after.made).toBe(todos.length)
  expect(after.lastTickAt).toBe(todos.at(-1)!.tick.toISOString())
  await ok('schedules.remove', { name })
})

test('a tick that cannot be made undoes its transaction, says why, and is made later', async () => {
  await put('broken', { catchUp: 'all' })
  await put('sound')
  await app.sql(`create function no_tick() returns trigger language plpgsql as $$
    begin if new.schedule = 'broken' and (select count(*) from todos where schedule = 'broken') >= 2
      then raise 'no third one'; end if; return new; end $$`)
  await app.sql(
    'create trigger no_tick before insert on todos for each row execute function no_tick()',
  )
  await missed('broken', 4)
  await missed('sound', 0)
  // The other schedule goes on.
  expect(await app.sweep.tick()).toBe(1)
  expect(await todosOf('broken')).toEqual([])
  expect((await get('broken')).error).toContain('no third one')
  const text = await (await fetch(`${app.url}/metrics`)).text()
  expect(text).toMatch(/switchboard_schedules\{state="failing"\} 1/)
  expect(text).toMatch(/switchboard_schedule_ticks_total\{queue="jobs",outcome="failed"\} [1-9]/)
  expect(Number(/^switchboard_schedule_overdue_seconds (\S+)/m.exec(text)![1])).toBeGreaterThan(200)
  await app.sql('drop trigger no_tick on todos')
  expect(await app.sweep.tick()).toBeGreaterThanOrEqual(5)
  expect((await get('broken')).error).toBeNull()
  for (const name of ['broken', 'sound']) await ok('schedules.remove', { name })
})

test('ticks of one conversation take turns; else each has one of its own', async () => {
  await put('turns', { catchUp: 'all', message: { ...message, contextId: 'log' } })
  await put('apart', { catchUp: 'all' })
  for (const name of ['turns', 'apart']) await missed(name, 1)
  await app.sweep.tick()
  const rows = await app.sql<Answer>(
    `select schedule, count(*) filter (where front)::int as fronts, count(distinct context_id)::int as contexts
    from todos where schedule in ('turns', 'apart') group by 1 order by 1`,
  )
  const [apart, turns] = rows
  expect(turns).toEqual({ schedule: 'turns', fronts: 1, contexts: 1 })
  expect(apart.contexts).toBeGreaterThanOrEqual(2)
  expect(apart.fronts).toBe(apart.contexts)
  for (const name of ['turns', 'apart']) await ok('schedules.remove', { name })
})

test('a paused schedule makes nothing, and goes on from now', async () => {
  await put('rests', { catchUp: 'all' })
  await missed('rests', 5)
  expect(await ok('schedules.pause', { name: 'rests' })).toMatchObject({
    paused: true,
    upcoming: [],
  })
  expect(await app.sweep.tick()).toBe(0)
  const { nextAt } = await ok('schedules.pause', { name: 'rests', paused: false })
  expect(Date.parse(nextAt)).toBeGreaterThan(Date.now() - 5000)
  expect(await todosOf('rests')).toEqual([])
  await ok('schedules.remove', { name: 'rests' })
})

test('summer time: a tick in the hour that is left out comes after it, in the hour that comes twice once', async () => {
  const { ticksAfter } = await import('../../src/service/schedules/cron.ts')
  const from = (text: string) =>
    ticksAfter('30 2 * * *', 'Europe/Berlin', new Date(text), 2).map((tick) => tick.toISOString())
  expect(from('2026-03-28T12:00:00Z')).toEqual([
    '2026-03-29T01:00:00.000Z',
    '2026-03-30T00:30:00.000Z',
  ])
  expect(from('2026-10-24T12:00:00Z')).toEqual([
    '2026-10-25T00:30:00.000Z',
    '2026-10-26T01:30:00.000Z',
  ])
})

test('what is no schedule is refused, each member by its name', async () => {
  const fieldOf = async (more: object) => {
    const { error } = await call('schedules.put', { name: 'bad', ...more })
    expect(error.code, JSON.stringify(error)).toBe(-32602)
    return (error.data.violations ?? []).map(({ field }: Answer) => field).join()
  }
  const whole = { queue: 'jobs', cron: '* * * * *', message }
  for (const name of ['queue', 'cron', 'message'] as const) {
    expect(await fieldOf({ ...whole, [name]: undefined })).toBe(name)
  }
  for (const cron of [
    '* * * * * *',
    '61 * * * *',
    'never',
    '@reboot',
    '0 0 31 2 *',
    // A moment recurs never.
    '2030-01-01T00:00:00Z',
    '*'.repeat(201),
  ]) {
    expect(await fieldOf({ ...whole, cron })).toBe('cron')
  }
  expect(await fieldOf({ ...whole, timeZone: 'Mars/Base' })).toBe('timeZone')
  expect(await fieldOf({ ...whole, timeZone: '+02:00' })).toBe('timeZone')
  expect(await fieldOf({ ...whole, queue: 'none' })).toBe('queue')
  expect(await fieldOf({ ...whole, catchUp: 'some' })).toBe('catchUp')
  expect(await fieldOf({ ...whole, catchUpLimit: 201 })).toBe('catchUpLimit')
  expect(await fieldOf({ ...whole, message: { ...message, taskId: 'x' } })).toBe('message.taskId')
  for (const method of ['schedules.get', 'schedules.remove', 'schedules.pause']) {
    expect((await call(method, { name: 'none' })).error.data.reason).toBe('not_found')
  }
})

test('how many there may be, and how long a message, has a bound that is named', async () => {
  const long = { parts: [{ text: 'x'.repeat(262_144) }] }
  const whole = { queue: 'jobs', cron: '@daily', message }
  expect(
    (await call('schedules.put', { ...whole, name: 'long', message: long })).error,
  ).toMatchObject({
    message: expect.stringContaining('262144 bytes'),
    data: { reason: 'limit', limit: 262_144 },
  })
  await app.services.operator.setSetting('max_schedules', '2')
  const answers = await Promise.all(
    Array.from({ length: 6 }, (_, n) => call('schedules.put', { ...whole, name: `one-${n}` })),
  )
  expect(answers.filter(({ result }) => result)).toHaveLength(2)
  expect(answers.find(({ error }) => error).error).toMatchObject({
    message: expect.stringContaining('max_schedules'),
    data: { reason: 'limit', limit: 2 },
  })
  const { schedules } = await ok('schedules.list', {})
  expect(schedules).toHaveLength(2)
  expect(schedules[0]).not.toHaveProperty('message')
  // One that is there can be changed all the same.
  await ok('schedules.put', { name: schedules[0].name, cron: '@hourly' })
  await expect(app.services.operator.setSetting('max_schedules', '1001')).rejects.toThrow()
  for (const { name } of schedules) await ok('schedules.remove', { name })
  await app.services.operator.unsetSetting('max_schedules')
})

test('a queue that a schedule sends to is not removed', async () => {
  await app.queue('kept')
  await put('keeper', { queue: 'kept' })
  await expect(app.services.operator.removeQueue('kept')).rejects.toMatchObject({
    kind: 'limit',
    message: expect.stringContaining('1 schedule:'),
  })
  await ok('schedules.remove', { name: 'keeper' })
  await app.services.operator.removeQueue('kept')
})

test('a queue that goes while a schedule comes, or the other way round, is a refusal that says so', async () => {
  await app.queue('raced')
  const blocked = () =>
    until(
      async () =>
        (
          await app.sql<{ n: number }>(
            `select count(*)::int as n from pg_stat_activity
            where wait_event_type = 'Lock' and datname = current_database()`,
            [],
          )
        )[0]!.n > 0,
      { what: 'the other waits' },
    )
  await withClient(app.databaseUrl, async (client) => {
    await client.query('begin')
    await client.query(
      `insert into schedules (name, queue, cron, time_zone, catch_up, catch_up_limit, message)
      values ('first', 'raced', '@daily', 'UTC', 'one', 1, '{}')`,
    )
    const removing = app.services.operator.removeQueue('raced').catch((error: unknown) => error)
    await blocked()
    await client.query('commit')
    expect(await removing).toMatchObject({
      kind: 'limit',
      message: expect.stringContaining('1 schedule:'),
    })
    await client.query(`delete from schedules where name = 'first'`)

    await client.query('begin')
    await client.query(`delete from queues where name = 'raced'`)
    const putting = call('schedules.put', {
      name: 'later',
      queue: 'raced',
      cron: '@daily',
      message,
    })
    await blocked()
    await client.query('commit')
    expect((await putting).error.data.violations).toEqual([
      { field: 'queue', description: 'there is no queue raced' },
    ])
  })
})
