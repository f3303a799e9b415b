/**
 * Rows that a sweep cannot move, as a trigger that raises makes them: what stands behind them goes on,
 * each is counted and logged, and an operator who asks is told where to look.
 * Field case: rows that no sweep can move.
 */
import { Writable } from 'node:stream'
import pino from 'pino'
import { expect, test } from 'vitest'
import type { Log } from '../../src/base/log.ts'
import { startApp } from '../support/app.ts'
import { a2aClient, agentClient } from '../support/clients/actors.ts'
import { metric, operate } from '../support/steps.ts'

const NEVER = 3_600_000
const lines: Record<string, unknown>[] = []
const log = pino(
  { level: 'error' },
  new Writable({
    write: (chunk, _encoding, done) => {
      lines.push(JSON.parse(String(chunk)))
      done()
    },
  }),
) as unknown as Log
// The sweeps are those of the test.
const app = await startApp({ log, reapMs: NEVER, comeDueMs: NEVER, tidyMs: NEVER })
const { client, agent } = await app.queue('desk', { contexts: 'parallel' })
const a2a = a2aClient(app.url, 'desk', client.token)
const worker = agentClient(app.url, agent.token)

const failures = (sweep: string) =>
  metric(app, `switchboard_sweep_failures_total{sweep="${sweep}"}`)
const linesOf = (id: string) =>
  lines.filter(({ todo }) => todo === id).map(({ sweep, verb, msg }) => ({ sweep, verb, msg }))
const stateOf = async (id: string) =>
  (await app.sql<{ state: string }>('select state from todos where id = $1', [id]))[0]!.state

const breakIt = async (id: string): Promise<() => Promise<unknown>> => {
  await app.sql(`create function broken() returns trigger language plpgsql as
    $$ begin raise exception 'broken by hand'; end $$`)
  await app.sql(
    `create trigger broken before update on todos for each row when (old.id = '${id}')
    execute function broken()`,
  )
  return () => app.sql('drop function broken cascade')
}

interface Case {
  sweep: string
  verb: string
  due: string
  run: () => Promise<unknown>
  after: string
}

test.each<Case>([
  {
    sweep: 'reap',
    verb: 'reapLease',
    due: `lease_expires_at = now() - interval '10 minutes'`,
    run: app.sweep.reap,
    after: 'pending',
  },
  {
    sweep: 'timeout',
    verb: 'expire',
    due: `close_at = now() - interval '10 minutes', alarm_at = now()`,
    run: app.sweep.timeOut,
    after: 'failed',
  },
  {
    sweep: 'come_due',
    verb: 'comeDue',
    due: `owner = null, claimant = null, lease_expires_at = null, lease_probe_at = null,
      state = 'pending', due_at = now() - interval '10 minutes', ready_reason = 'released'`,
    run: app.sweep.comeDue,
    after: 'pending',
  },
])(
  'what $verb cannot move is counted under $sweep and logged once, and the rest is moved',
  async (it) => {
    const { sweep, verb, due, run, after } = it
    const ids = [(await a2a.submit('one')).id, (await a2a.submit('two')).id]
    for (let n = 0; n < 2; n += 1) await worker.claim()
    await app.sql(`update todos set ${due} where id = any($1)`, [ids])
    const [broken, whole] = ids as [string, string]
    const mend = await breakIt(broken)
    const before = await failures(sweep)
    const stood = await stateOf(broken)

    await run()
    expect(await failures(sweep)).toBe(before + 1)
    expect(linesOf(broken)).toEqual([{ sweep, verb, msg: 'a todo could not be swept' }])
    expect([await stateOf(broken), await stateOf(whole)]).toEqual([stood, after])

    // Met again at each tick, it is counted again and not logged again.
    await run()
    expect(await failures(sweep)).toBe(before + 2)
    expect(linesOf(broken)).toHaveLength(1)
    if (verb !== 'comeDue') {
      const { why } = await operate(app, 'todos.why', { id: broken })
      expect(why).toContain('no sweep could move it: the log of a node says why')
    }

    await mend()
    await run()
    expect(await failures(sweep)).toBe(before + 2)
    expect(await stateOf(broken)).toBe(after)
    expect((await operate(app, 'todos.why', { id: broken })).why).not.toContain('no sweep')
    await app.sql(`delete from todos where id = any($1)`, [ids])
  },
)

test('a line of a conversation that cannot go on is counted and logged with its name', async () => {
  const line = await app.queue('serial')
  const side = a2aClient(app.url, 'serial', line.client.token)
  const contextId = crypto.randomUUID()
  const first = await side.submit('one', { contextId })
  const second = await side.submit('two', { contextId })
  const mend = await breakIt(second.id)
  // A hand-over that was missed.
  await app.sql(
    `update todos set state = 'done', front = false, finished_at = now(), due_at = null
    where id = $1`,
    [first.id],
  )
  const before = await failures('reap')
  await app.sweep.reap()
  expect(await failures('reap')).toBe(before + 1)
  expect(lines.at(-1)).toMatchObject({
    line: expect.any(String),
    sweep: 'reap',
    msg: 'a line could not go on',
  })
  await mend()
  await app.sweep.reap()
  expect(await failures('reap')).toBe(before + 1)
  await agentClient(app.url, line.agent.token).claim()
})

test('what cannot be deleted is counted and logged once, and what is behind it is deleted, in every queue', async () => {
  const desks = await Promise.all(
    ['kept-1', 'kept-2'].map((name) => app.queue(name, { contexts: 'parallel', retentionDays: 1 })),
  )
  const ids: string[] = []
  for (const [n, desk] of desks.entries()) {
    const side = a2aClient(app.url, `kept-${n + 1}`, desk.client.token)
    for (let count = 0; count < 3; count += 1) {
      const { id } = await side.submit('old')
      await side.call('CancelTask', { id })
      ids.push(id)
      const age = `${ids.length} hours`
      await app.sql(
        `update todos set finished_at = now() - interval '3 days' + $2::interval where id = $1`,
        [id, age],
      )
    }
  }
  const [broken] = ids as [string]
  await app.sql(`create function broken() returns trigger language plpgsql as
    $$ begin raise exception 'broken by hand'; end $$`)
  await app.sql(
    `create trigger broken before delete on todos for each row when (old.id = '${broken}')
    execute function broken()`,
  )
  const left = async () =>
    (await app.sql<{ id: string }>('select id from todos where id = any($1)', [ids])).map(
      ({ id }) => id,
    )
  const before = await failures('tidy')
  await app.sweep.tidy()
  expect(await left()).toEqual([broken])
  expect(await failures('tidy')).toBe(before + 1)
  const told = () => lines.filter(({ todo }) => todo === broken)
  expect(told()).toMatchObject([{ sweep: 'tidy', msg: 'a todo could not be deleted' }])

  await app.sweep.tidy()
  expect(await failures('tidy')).toBe(before + 2)
  expect(told()).toHaveLength(1)
  await app.sql('drop function broken cascade')
  await app.sweep.tidy()
  expect(await left()).toEqual([])
})
