// Field case: no deadlock reaches a caller.
import { expect, test } from 'vitest'
import { ADMIN_TOKEN, startApp, startNode } from '../support/app.ts'
import { type Answer, a2aClient, rpc } from '../support/clients/actors.ts'
import { lapseLease, saying } from '../support/steps.ts'

const app = await startApp()
const { client, agent } = await app.queue('desk', { contexts: 'parallel', maxAttempts: 50 })

const [{ database }] = (await app.sql<{ database: string }>(
  'select current_database() as database',
)) as [{ database: string }]

test.each(['read committed', 'serializable'])(
  'under %s, everything at once on the same todos answers no call with a failure, and ends consistent',
  async (isolation) => {
    await app.sql(`alter database ${database} set deadlock_timeout = '100ms'`)
    await app.sql(`alter database ${database} set default_transaction_isolation = '${isolation}'`)
    // The settings hold for new sessions: a node that starts now.
    const node = await startNode(app.databaseUrl, { poolSize: 16 })
    const a2a = a2aClient(node.url, 'desk', client.token)
    const tasks: string[] = await Promise.all(
      Array.from({ length: 30 }, async () => (await a2a.submit('x')).id),
    )
    const pick = (n: number) => tasks[n % tasks.length]!
    const faults: unknown[] = []
    const call = async (url: string, method: string, params: unknown, token: string) => {
      const { result, error } = await rpc(url, method, params, {
        token,
        headers: { 'A2A-Version': '1.0' },
      })
      if (error?.code === -32603 || error?.code === -32014) faults.push([method, error])
      return result
    }
    const asAgent = (method: string, params: unknown) =>
      call(`${node.url}/agent`, `todos.${method}`, params, agent.token)
    const held: { id: string; fence: string }[] = []
    const acts: ((n: number) => Promise<unknown>)[] = [
      async () => {
        const result = await asAgent('claim', { limit: 5 })
        for (const { id, fence } of result?.todos ?? []) held.push({ id, fence })
      },
      async (n) => asAgent('heartbeat', held[n % held.length] ?? { id: pick(n), fence: '1' }),
      async (n) =>
        asAgent('interrupt', {
          ...(held[n % held.length] ?? { id: pick(n), fence: '1' }),
          state: 'input-required',
          message: saying('which?'),
        }),
      async (n) =>
        call(
          a2a.endpoint,
          'SendMessage',
          {
            message: {
              messageId: `m${n}`,
              role: 'ROLE_USER',
              parts: [{ text: 'x' }],
              taskId: pick(n),
            },
            configuration: { returnImmediately: true },
          },
          client.token,
        ),
      async (n) =>
        asAgent('complete', {
          ...(held[n % held.length] ?? { id: pick(n), fence: '1' }),
          acknowledge: 1,
        }),
      async (n) =>
        asAgent('fail', {
          ...(held[n % held.length] ?? { id: pick(n), fence: '1' }),
          error: { code: 'x', message: 'x' },
          retryInSeconds: 0,
        }),
      async (n) => asAgent('release', held[n % held.length] ?? { id: pick(n), fence: '1' }),
      async (n) =>
        n % 5 === 0 ? call(a2a.endpoint, 'CancelTask', { id: pick(n) }, client.token) : null,
      async () => call(a2a.endpoint, 'ListTasks', { pageSize: 50 }, client.token),
      async (n) => {
        await lapseLease(app, pick(n), pick(n + 1)).catch(() => {})
        await node.sweep.reap()
      },
      async (n) => call(`${node.url}/operator`, 'todos.show', { id: pick(n) }, ADMIN_TOKEN),
    ]
    await Promise.all(
      Array.from({ length: 24 }, async (_, client) => {
        for (let i = 0; i < 25; i += 1) {
          const n = client * 25 + i
          await acts[(n * 7 + i) % acts.length]!(n)
        }
      }),
    )
    expect(faults).toEqual([])
    const [row] = await app.sql<Answer>(
      `select
      count(*) filter (where (t.state in ('claimed', 'input-required', 'auth-required')) <> exists
        (select from attempts a where a.todo_id = t.id and a.ended_at is null))::int as open_mismatch,
      count(*) filter (where t.attempts_total <> (select count(*) from attempts a where a.todo_id = t.id))::int as miscounted,
      count(*) filter (where t.seq <> (select max(seq) from events e where e.todo_id = t.id))::int as ahead,
      count(*) filter (where (select count(*) from events e where e.todo_id = t.id
        and e.to_state in ('done', 'canceled', 'rejected') and e.verb in ('complete', 'cancel', 'reject')) > 1)::int as ended_twice
     from todos t`,
    )
    expect(row).toEqual({ open_mismatch: 0, miscounted: 0, ahead: 0, ended_twice: 0 })
    await node.stop()
    for (const id of tasks)
      await a2aClient(app.url, 'desk', client.token).call('CancelTask', { id })
  },
)
