/**
 * Attempts, retries, dead letters, and the one line that says what a todo waits for.
 *
 * Field cases: one retry of a dead letter; bounded attempt history.
 */
import { randomUUID } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { runCli } from '../cli/run.ts'
import { ADMIN_TOKEN } from '../support/app.ts'
import { type Answer, a2aClient, agentClient, rpc } from '../support/clients/actors.ts'
import {
  ask,
  attemptsOf,
  type Claimed,
  lapseLease,
  makeDue,
  openBoard,
  operate,
  refusalOf,
  saying,
} from '../support/steps.ts'
import { until } from '../support/until.ts'
import { ageWait, DAY, direct, resultOf, rowOf, setting, startQuiet, TTL } from './support.ts'

const app = await startQuiet({ bodyLimitBytes: 8_000_000 })
const never = new AbortController().signal

const desk = async (policy?: Record<string, unknown>) => {
  const name = `q-${randomUUID().slice(0, 8)}`
  const { client, agent } = await app.queue(name, policy)
  return {
    name,
    agent,
    a2a: a2aClient(app.url, name, client.token),
    worker: agentClient(app.url, agent.token),
  }
}
type Desk = Awaited<ReturnType<typeof desk>>

const claimed = async ({ a2a, worker }: Desk) => {
  await a2a.submit('work')
  return worker.claim()
}

const fail = ({ worker }: Desk, { held }: Claimed, more: Record<string, unknown> = {}) =>
  worker.call('todos.fail', { ...held, error: { code: 'boom', message: 'it broke' }, ...more })

const dead = async (here: Desk): Promise<Claimed> => {
  const todo = await claimed(here)
  await fail(here, todo, { retryable: false })
  return todo
}

describe('attempts', () => {
  test('one is opened and closed in the very transaction of the move that causes it', async () => {
    const here = await desk({ maxAttempts: 50 })
    const together = async (id: string) => {
      const [row] = await app.sql<{ together: boolean; outcome: string | null }>(
        `select t.xmin = a.xmin as together, a.outcome from todos t
           join attempts a on a.todo_id = t.id and a.seq = t.attempts_total where t.id = $1`,
        [id],
      )
      expect(row!.together, String(row!.outcome)).toBe(true)
      return row!.outcome
    }
    const ends: [string, (todo: Claimed) => Promise<unknown>][] = [
      ['completed', ({ held }) => here.worker.call('todos.complete', held)],
      ['failed', (todo) => fail(here, todo)],
      ['released', ({ held }) => here.worker.call('todos.release', held)],
      ['rejected', ({ held }) => here.worker.call('todos.reject', held)],
      ['canceled', ({ id }) => operate(app, 'todos.cancel', { id })],
      ['reaped', ({ id }) => lapseLease(app, id).then(app.sweep.reap)],
      [
        'reaped',
        async (todo) => {
          await ask(here.worker, todo, '?')
          await ageWait(app, DAY + 1, todo.id)
          await app.sweep.reap()
        },
      ],
    ]
    for (const [outcome, end] of ends) {
      const todo = await claimed(here)
      expect(await together(todo.id)).toBeNull()
      await end(todo)
      expect(await together(todo.id)).toBe(outcome)
      await operate(app, 'todos.cancel', { id: todo.id }).catch(() => {})
    }
  })

  test('a todo has at most one open attempt, by the database itself', async () => {
    const todo = await claimed(await desk())
    await expect(
      app.sql(
        `insert into attempts (todo_id, seq, attempt, endpoint_id, claimed_at)
         values ($1, 2, 2, $1, now())`,
        [todo.id],
      ),
    ).rejects.toMatchObject({ constraint: 'attempt_one_open' })
  })

  test('a question and its answer neither open nor close one while it is held', async () => {
    const here = await desk()
    const todo = await claimed(here)
    await ask(here.worker, todo, 'May I?')
    await operate(app, 'todos.answer', { id: todo.id, message: saying('yes') })
    expect(await attemptsOf(app, todo.id)).toMatchObject([{ seq: 1, outcome: null }])
  })

  test('a holder that died is told from one that failed, one that handed back, and one that was taken over', async () => {
    const here = await desk()
    const first = await claimed(here)
    const { id } = first
    await fail(here, first, { retryInSeconds: 0, summary: 'tried the door' })
    await lapseLease(app, (await here.worker.claim({ claimant: 'two' })).id)
    await app.sweep.reap()
    await here.worker.call('todos.release', {
      ...(await here.worker.claim()).held,
      summary: 'not mine',
    })
    await here.worker.claim({ claimant: 'four' })
    await lapseLease(app, id)
    const last = await here.worker.claim()
    expect(
      last.priorAttempts.map((each: Answer) => [each.outcome, each.disposition, each.died]),
    ).toEqual([
      ['lease_expired', 'requeued', true],
      ['released', 'requeued', false],
      ['reaped', 'requeued', true],
      ['failed', 'retry_scheduled', false],
    ])
    expect(last.priorAttempts[3]).toMatchObject({ summary: 'tried the door', attempt: 1, seq: 1 })
    expect(last.priorAttempts[2]).toMatchObject({ claimant: 'two', attempt: 2 })
    for (const each of last.priorAttempts) {
      expect(Date.parse(each.endedAt)).toBeGreaterThanOrEqual(Date.parse(each.claimedAt))
    }
    // A day of the first claim is none of the last one's.
    expect(last).toMatchObject({ attempt: 4, attemptsTotal: 5 })
  })

  test('a claim carries the five newest attempts, and a hundred are kept', async () => {
    const here = await desk()
    const { agent } = app.services
    const { caller } = here.agent
    const hands = direct(app)
    const id = await hands.send(here.name)
    for (let round = 1; round <= 104; round += 1) {
      const { fence } = (await hands.claim(caller, here.name))!
      await agent.release({ id, fence, summary: `round ${round}` }, caller)
    }
    const claims = await agent.claim({ limit: 1, waitMs: 0, queues: [here.name] }, caller, never)
    expect(claims[0]!.priorAttempts.map(({ seq }) => seq)).toEqual([104, 103, 102, 101, 100])
    expect(claims[0]!.view.todo).toMatchObject({ attempt: 1, attemptsTotal: 105 })
    const [kept] = await app.sql(
      'select count(*)::int as rows, min(seq) as oldest from attempts where todo_id = $1',
      [id],
    )
    expect(kept).toEqual({ rows: 100, oldest: 6 })
    expect(await attemptsOf(app, id)).toHaveLength(100)
  })

  test('what a failure says is kept short, whatever was sent', async () => {
    const here = await desk()
    const todo = await claimed(here)
    const long = 'x'.repeat(5_000_000)
    await fail(here, todo, { error: { code: 'big', message: long }, retryInSeconds: 0 })
    const [attempt] = await attemptsOf(app, todo.id)
    expect(attempt.summary.length).toBe(2000)
    const [sizes] = await app.sql<{ event: number; result: number }>(
      `select (select max(length(detail::text)) from events where todo_id = $1) as event,
         (select length(result::text) from details where todo_id = $1) as result`,
      [todo.id],
    )
    expect(sizes!.event).toBeLessThan(1000)
    expect(sizes!.result).toBeLessThan(3000)
    expect(JSON.stringify(await here.worker.claim()).length).toBeLessThan(10_000)
  })
})

describe('retries', () => {
  const delayOf = async ({ nextRetryAt }: Answer): Promise<number> => {
    const [{ now }] = (await app.sql('select now()')) as [{ now: Date }]
    return (Date.parse(nextRetryAt) - now.getTime()) / 1000
  }

  test('the wait grows by its factor up to its cap', async () => {
    const backoff = { initialSeconds: 100, factor: 3, maxSeconds: 500, jitter: 0 }
    const here = await desk({ maxAttempts: 5, backoff })
    await here.a2a.submit('work')
    const delays: number[] = []
    for (let attempt = 1; attempt <= 4; attempt += 1) {
      const todo = await here.worker.claim()
      const failed = await fail(here, todo)
      expect(failed).toMatchObject({ state: 'failed', deadLetter: false })
      delays.push(Math.round((await delayOf(failed)) / 10) * 10)
      await makeDue(app, todo.id)
    }
    expect(delays).toEqual([100, 300, 500, 500])
    expect(await fail(here, await here.worker.claim())).toEqual({
      state: 'failed',
      deadLetter: true,
      nextRetryAt: null,
    })
  })

  test('jitter spreads the waits of those who failed together, within its bounds', async () => {
    const backoff = { initialSeconds: 1000, factor: 1, maxSeconds: 1000, jitter: 0.5 }
    const here = await desk({ backoff })
    const delays = await Promise.all(
      Array.from({ length: 12 }, async () => delayOf(await fail(here, await claimed(here)))),
    )
    for (const delay of delays) {
      expect(delay).toBeGreaterThan(490)
      expect(delay).toBeLessThan(1501)
    }
    expect(Math.max(...delays) - Math.min(...delays)).toBeGreaterThan(50)
  })

  test('an agent may say when to try again, and a failure that is not worth it ends the todo at once', async () => {
    const here = await desk({ maxAttempts: 3 })
    const later = await claimed(here)
    expect(Math.round(await delayOf(await fail(here, later, { retryInSeconds: 5000 })))).toBe(5000)
    expect((await here.a2a.get(later.id)).status.state).toBe('TASK_STATE_SUBMITTED')
    expect((await here.worker.call('todos.claim', {})).todos).toEqual([])
    const hopeless = await claimed(here)
    expect(await fail(here, hopeless, { retryable: false, retryInSeconds: 1 })).toMatchObject({
      deadLetter: true,
    })
    expect(await attemptsOf(app, hopeless.id)).toMatchObject([
      { outcome: 'failed', disposition: 'dead_lettered', cause: 'boom', summary: 'it broke' },
    ])
  })

  test('a retry that comes due is announced with reason retried', async () => {
    const here = await desk()
    const board = await openBoard(app, `queue=${here.name}`)
    const todo = await claimed(here)
    await fail(here, todo, { retryInSeconds: 3600 })
    await makeDue(app, todo.id)
    await app.sweep.comeDue()
    const frames = await board.until(({ json }) => json.reason === 'retried')
    board.close()
    expect(frames.at(-1)!.json).toMatchObject({ id: todo.id })
    expect((await here.worker.claim()).attempt).toBe(2)
  })

  test.each(['the sweep', 'takeovers'])(
    'a todo that kills its agent before it can report still uses up its attempts, through %s',
    async (how) => {
      const here = await desk({ maxAttempts: 3 })
      const { id } = await here.a2a.submit('poison')
      for (let attempt = 1; attempt <= 3; attempt += 1) {
        expect(await here.worker.claim()).toMatchObject({ id, attempt })
        await lapseLease(app, id)
        if (how === 'the sweep') await app.sweep.reap()
      }
      expect((await here.worker.call('todos.claim', {})).todos).toEqual([])
      await app.sweep.reap()
      expect(await rowOf(app, id)).toMatchObject({ state: 'failed', next_retry_at: null })
      expect(await resultOf(app, id)).toMatchObject({ error: 'lease_expired' })
      const ended = await attemptsOf(app, id)
      expect(ended.map(({ died }) => died)).toEqual([true, true, true])
      expect(ended.at(-1)).toMatchObject({ outcome: 'reaped', disposition: 'dead_lettered' })
    },
  )
})

describe('dead letters', () => {
  test('a retry is a new todo with the same message, conversation and settings and a fresh budget; the old one stays as it ended', async () => {
    const here = await desk({ maxAttempts: 2 })
    const todo = await dead(here)
    const before = await rowOf(app, todo.id)
    const again = await operate(app, 'todos.retry', { id: todo.id })
    expect(again).toMatchObject({
      state: 'pending',
      queue: here.name,
      contextId: todo.contextId,
      retryOf: todo.id,
      attempt: 0,
      maxAttempts: 2,
      message: { parts: [{ text: 'work' }], taskId: again.id },
    })
    expect(again.id).not.toBe(todo.id)
    expect(await rowOf(app, todo.id)).toEqual(before)
    expect(await attemptsOf(app, todo.id)).toHaveLength(1)
    // Its client has it, too.
    expect((await here.a2a.get(again.id)).status.state).toBe('TASK_STATE_SUBMITTED')

    const next = await here.worker.claim()
    expect(next).toMatchObject({ id: again.id, attempt: 1, priorAttempts: [] })
    await fail(here, next, { retryable: false })
    expect((await rowOf(app, again.id)).state).toBe('failed')
    expect(await operate(app, 'todos.retry', { id: again.id })).toMatchObject({ retryOf: again.id })
  })

  test('of two retries at once one wins and the other is told that it was retried before', async () => {
    const here = await desk()
    const todo = await dead(here)
    const answers = await Promise.all(
      [1, 2, 3, 4].map(() =>
        rpc(`${app.url}/operator`, 'todos.retry', { id: todo.id }, { token: ADMIN_TOKEN }),
      ),
    )
    expect(answers.filter(({ result }) => result)).toHaveLength(1)
    for (const { error } of answers.filter(({ result }) => !result)) {
      expect(error).toMatchObject({ code: -32010, data: { reason: 'duplicate' } })
    }
  })

  test('what is not dead is not retried: the refusal names its state', async () => {
    const here = await desk()
    const waiting = await here.a2a.submit('work')
    const todo = await here.worker.claim()
    const states: [string, string][] = [[waiting.id, 'claimed']]
    const retrying = await claimed(here)
    await fail(here, retrying, { retryInSeconds: 500 })
    states.push([retrying.id, 'failed'])
    const asking = await claimed(here)
    await ask(here.worker, asking, '?')
    states.push([asking.id, 'input-required'])
    const done = await claimed(here)
    await here.worker.call('todos.complete', done.held)
    states.push([done.id, 'done'])
    states.push([(await here.a2a.submit('more')).id, 'pending'])
    for (const [id, state] of states) {
      const refusal = await refusalOf(operate(app, 'todos.retry', { id }))
      expect(refusal).toMatchObject({ code: -32010, data: { reason: 'wrong_state', state } })
    }
    await here.worker.call('todos.complete', todo.held)
    expect((await refusalOf(operate(app, 'todos.retry', { id: randomUUID() }))).code).toBe(-32012)
  })

  test('the list of the dead has dead letters and nothing that will be tried again', async () => {
    const here = await desk()
    const gone = await dead(here)
    const retrying = await claimed(here)
    await fail(here, retrying, { retryInSeconds: 500 })
    const { todos } = await operate(app, 'todos.list', { queue: here.name, dead: true })
    expect(todos.map(({ id }: Answer) => id)).toEqual([gone.id])
  })

  test('the command line shows attempts and lists, explains and retries the dead, once', async () => {
    const here = await desk()
    const { id } = await dead(here)
    const env = { SWITCHBOARD_URL: app.url, SWITCHBOARD_TOKEN: ADMIN_TOKEN }
    const run = (...args: string[]) => runCli(args, { env })
    const [shown, listed, why, set] = await Promise.all([
      run('show', id),
      run('list', '--dead', '--queue', here.name, '--json'),
      run('why', id),
      run('settings', 'set', TTL, '86400'),
    ])
    expect(shown.stdout).toMatch(/1 +work .*failed +dead_lettered +it broke boom/)
    expect(JSON.parse(listed.stdout).todos.map((todo: Answer) => todo.id)).toEqual([id])
    expect(why.stdout).toMatch(new RegExp(`^${id} a dead letter since .*boom.*\\n$`))
    expect(set.code).toBe(0)
    await setting(app, TTL, null)

    const retries = await Promise.all([run('retry', id), run('retry', id)])
    expect(retries.map(({ code }) => code === 0).sort()).toEqual([false, true])
    const refused = retries.find(({ code }) => code !== 0)!
    expect(refused.stderr).toMatch(/retried before/)
    expect(refused.stdout).toBe('')
    const [made] = retries.filter(({ code }) => code === 0)
    const notDead = await run('retry', made!.stdout.trim())
    expect(notDead.code).not.toBe(0)
    expect(notDead.stderr).toMatch(/pending/)
  })
})

describe('why', () => {
  const whyOf = async (id: string): Promise<Answer> => {
    const told = await operate(app, 'todos.why', { id })
    expect(told.why).not.toContain('\n')
    expect(told.since).toEqual(expect.any(String))
    return told
  }

  test('a todo in any state says in one line what it waits for, since when, until when and what would move it', async () => {
    const here = await desk({ maxAttempts: 2 })
    const { worker, name } = here
    const ids: Record<string, string> = {}
    const make = async (key: string, then: (todo: Claimed) => Promise<unknown>) => {
      const todo = await claimed(here)
      ids[key] = todo.id
      await then(todo)
    }
    await make('claimed', async () => {})
    await make('retrying', (todo) => fail(here, todo, { retryInSeconds: 3600 }))
    await make('dead', (todo) => fail(here, todo, { retryable: false }))
    await make('held', (todo) => ask(worker, todo, 'What colour?'))
    await make('parked', (todo) => ask(worker, todo, 'What size?', { hold: false }))
    await make('auth', (todo) => ask(worker, todo, 'Log in', { state: 'auth-required' }))
    await make('delayed', ({ held }) => worker.call('todos.release', { ...held, inSeconds: 3600 }))
    await make('done', ({ held }) => worker.call('todos.complete', held))
    await make('rejected', ({ held }) => worker.call('todos.reject', held))
    await make('canceled', ({ id }) => operate(app, 'todos.cancel', { id }))
    ids.pending = (await here.a2a.submit('waits')).id

    const expected: Record<string, [RegExp, boolean]> = {
      pending: [/^waits since \S+ until an agent of \S+ claims it \(1 endpoint may\)/, false],
      claimed: [
        /^work works on it since .*attempt 1 of 2; without a heartbeat by \S+ it goes/,
        true,
      ],
      retrying: [/^waits for its retry at \S+: attempt 1 of 2 failed with boom$/, true],
      dead: [/^a dead letter since \S+: boom; only a retry sends it again/, false],
      held: [/^waits for an answer \(held by work\) since \S+, until \S+.*“What colour\?”$/, true],
      parked: [/^waits for an answer \(parked\) since .*“What size\?”$/, true],
      auth: [/^waits for an authorisation \(held by work\) since .*“Log in”$/, true],
      delayed: [/^waits until \S+, as asked when it was handed back; then an agent of/, true],
      done: [/^ended as done at \S+; nothing moves it any more$/, false],
      rejected: [/^ended as rejected/, false],
      canceled: [/^ended as canceled/, false],
    }
    for (const [key, [line, hasEnd]] of Object.entries(expected)) {
      const told = await whyOf(ids[key]!)
      expect(told.why, key).toMatch(line)
      expect(told.until !== null, key).toBe(hasEnd)
    }
    expect((await whyOf(ids.pending!)).why).toContain(name)
  })

  test('a todo that nobody may claim says so, and what to do', async () => {
    const here = await desk()
    const { id } = await here.a2a.submit('waits')
    await operate(app, 'endpoints.revoke', { id: here.agent.endpoint.id })
    expect((await whyOf(id)).why).toMatch(/nobody may claim from \S+: vend an endpoint/)
  })

  test('a wait without a deadline says that it has none', async () => {
    const here = await desk({ interruptTtlSeconds: 0 })
    const todo = await claimed(here)
    await ask(here.worker, todo, 'Ever?')
    const told = await whyOf(todo.id)
    expect(told.why).toContain('without a deadline')
    expect(told.until).toBeNull()
  })

  test('the last attempt says that it would end as a dead letter', async () => {
    const here = await desk({ maxAttempts: 1 })
    const todo = await claimed(here)
    await here.worker.call('todos.heartbeat', todo.held)
    expect((await whyOf(todo.id)).why).toContain('it ends as a dead letter')
    await ask(here.worker, todo, '?')
    expect((await whyOf(todo.id)).why).toContain('when it ends as a dead letter')
  })

  test('another tenant’s todo and one that never was are the same refusal', async () => {
    const here = await desk()
    const { id } = await here.a2a.submit('waits')
    const stranger = await app.vend(['watch'], [(await desk()).name])
    const told = (of: string) =>
      rpc(`${app.url}/operator`, 'todos.why', { id: of }, { token: stranger.token })
    expect(await told(id)).toEqual(await told(randomUUID()))
    await until(async () => (await whyOf(id)).why.startsWith('waits'))
  })
})
