/**
 * The plans of the statements that run all the time, on 100,000 todos. Named statements end up on
 * generic plans, so those are read as well as the custom ones.
 */
import { beforeAll, expect, test } from 'vitest'
import type { TodoFilter } from '../../src/domain/todo.ts'
import { readDeadHolders, readIdleHolders } from '../../src/store/admin/endpoints.ts'
import { readUnservedQueues } from '../../src/store/admin/queues.ts'
import { clearRemains, forgetTodos } from '../../src/store/admin/retention.ts'
import { addTodo, addTodoOnce, type NewTodo } from '../../src/store/move/add.ts'
import { countLiveChildren, readCutShort, readLeftByJoins } from '../../src/store/move/children.ts'
import { readClaimed } from '../../src/store/move/claim.ts'
import { readClaimers, readQueueSlots } from '../../src/store/move/concurrency.ts'
import { readDue, transitionDue, transitionLine, tryTransition } from '../../src/store/move/move.ts'
import type { Session, Statement, Values } from '../../src/store/postgres/database.ts'
import { leaseDeliveries } from '../../src/store/push/deliveries.ts'
import { listDeliveries, purgeDeliveries } from '../../src/store/push/delivery-log.ts'
import { readEvents, readFeed } from '../../src/store/todos/events.ts'
import { expireKeys, readKey } from '../../src/store/todos/idempotency.ts'
import { listTodos } from '../../src/store/todos/list.ts'
import { readConversation, readView } from '../../src/store/todos/view.ts'
import { withClient } from '../support/database/database.ts'
import { openStore } from '../support/database/store.ts'

const store = await openStore(2)
const SOMEBODY = '00000000-0000-4000-8000-000000000001'

interface Asked {
  text: string
  values: unknown[]
}

/** What a store function would have run. */
const askedBy = async (use: (session: Session) => Promise<unknown>): Promise<Asked[]> => {
  const asked: Asked[] = []
  await use({
    run: async <Row>({ text, order }: Statement<Row>, values: Values) => {
      asked.push({ text, values: order.map((name) => values[name] ?? null) })
      return [] as Row[]
    },
    query: async <Row>(text: string, values: readonly unknown[]) => {
      asked.push({ text, values: [...values] })
      return [] as Row[]
    },
    wake: () => {},
  })
  return asked
}

const literal = (value: unknown): string => {
  if (value === null) return 'null'
  if (Array.isArray(value)) return `'{${value.join(',')}}'`
  return `'${value instanceof Date ? value.toISOString() : String(value)}'`
}

const plansOf = async (use: (session: Session) => Promise<unknown>): Promise<string[]> => {
  const asked = await askedBy(use)
  return withClient(store.url, async (client) => {
    const plans: string[] = []
    for (const mode of ['force_generic_plan', 'force_custom_plan']) {
      await client.query(`set plan_cache_mode = ${mode}`)
      for (const [n, { text, values }] of asked.entries()) {
        const name = `plan_${mode}_${n}`
        await client.query(`prepare ${name} as ${text}`)
        const { rows } = await client.query(
          `explain (costs off) execute ${name}${values.length > 0 ? `(${values.map(literal).join(', ')})` : ''}`,
        )
        plans.push(rows.map((row) => row['QUERY PLAN']).join('\n'))
      }
    }
    return plans
  })
}

const expectIndexed = (plans: string[], index: string): void => {
  for (const plan of plans) {
    expect(plan).toContain(index)
    expect(plan).not.toMatch(
      /Seq Scan on (todos|events|messages|attempts|artifacts|details|idempotency_keys|push_configs|deliveries)/,
    )
    expect(plan).not.toMatch(/Sort Key: .*(due_at|priority)/)
  }
}

beforeAll(async () => {
  const { database } = store
  const owner = `'${SOMEBODY}'::uuid`
  await database.query(
    `insert into todos (id, queue, context_id, client_id, state, max_attempts, due_at, finished_at)
    select gen_random_uuid(), 'q' || n % 10, 'c' || n % 10000, gen_random_uuid(),
      case when n % 10 < 6 then 'done' else 'pending' end::todo_state, 5,
      case when n % 10 >= 6 then now() + ((n % 100 - 50) || ' minutes')::interval end,
      case when n % 10 < 6 then now() end
    from generate_series(1, 96000) n`,
    [],
  )
  await database.query(
    `insert into todos (id, queue, context_id, state, max_attempts, owner, fence, attempt, lease_expires_at)
    select gen_random_uuid(), 'q' || n % 10, 'c', 'claimed', 5, ${owner}, 1, 1,
      now() + interval '1 hour' from generate_series(1, 1000) n`,
    [],
  )
  await database.query(
    `insert into todos (id, queue, context_id, state, max_attempts, owner, fence, attempt, interrupted_at)
    select gen_random_uuid(), 'q' || n % 10, 'c', 'input-required', 5, ${owner}, 1, 1, now()
    from generate_series(1, 2000) n`,
    [],
  )
  await database.query(
    `insert into todos (id, queue, context_id, state, max_attempts, attempt, next_retry_at, ready_reason)
    select gen_random_uuid(), 'q' || n % 10, 'c', 'failed', 5, 1, now() + interval '1 hour', 'retried'
    from generate_series(1, 1000) n`,
    [],
  )
  await database.query(
    `insert into events (todo_id, seq, position, queue, context_id, verb, to_state, attempt, fence, at)
    select id, 1, nextval('feed_position'), queue, context_id, 'send', state, 0, 0, now() from todos`,
    [],
  )
  // 10,000 conversations: one in ten of these waits in line, without a due time.
  await database.query(
    `insert into todos (id, queue, context_id, state, max_attempts, due_at, line, front)
    select gen_random_uuid(), 'q' || c % 10, 'line' || c, 'pending', 5,
      case when n = 1 then now() - interval '1 minute' end, md5('line' || c)::uuid, n = 1
    from generate_series(1, 10000) c cross join generate_series(1, 10) n`,
    [],
  )
  await database.query(
    `insert into messages (todo_id, seq, message_id, role, message)
    select id, 1, 'm', 'user', '{}' from todos`,
    [],
  )
  await database.query(
    `insert into attempts (todo_id, seq, attempt, endpoint_id, claimed_at, ended_at, outcome, disposition)
    select id, 1, 1, ${owner}, now(), case when state = 'done' then now() end,
      case when state = 'done' then 'completed' end, case when state = 'done' then 'done' end
    from todos where state in ('done', 'claimed', 'input-required')`,
    [],
  )
  await database.query(`insert into details (todo_id, result) select id, '{}' from todos`, [])
  await database.query(
    `insert into artifacts (todo_id, artifact_id, seq, append, last_chunk, artifact)
    select id, 'a', 2, false, false, '{}' from todos where state = 'done'`,
    [],
  )
  await database.query(
    `insert into idempotency_keys (endpoint_id, queue, source, key, digest, todo_id, seq, expires_at)
    select ${owner}, 'q' || n % 10, 'key', 'k' || n, sha256('x'), gen_random_uuid(), 1,
      now() + (n % 1000 - 10) * interval '1 minute' from generate_series(1, 100000) n`,
    [],
  )
  // One in ten of 20,000 webhooks is owed something, half of that is not due yet.
  await database.query(
    `insert into push_configs (todo_id, config_id, dialect, url, host, secret, owed, due_at)
     select id, 'c', '1.0', 'https://h', 'h' || n % 50, 's', case when n % 10 = 0 then 1 else 0 end,
       case when n % 10 = 0 then now() + ((n % 100 - 50) || ' minutes')::interval end
     from (select id, row_number() over () as n from todos limit 20000) t`,
    [],
  )
  await database.query(
    `insert into deliveries (todo_id, config_id, seq, queue, state, settled_at)
     select todo_id, config_id, n, 'q1', case when owed > 0 and n = 5 then 'pending' else 'delivered' end,
       case when owed > 0 and n = 5 then null else now() end
     from push_configs cross join generate_series(1, 5) n`,
    [],
  )
  await database.query('analyze', [])
})

const change = { endpoint: SOMEBODY, leaseSeconds: 300, claimant: 'x' }

test('a claim of one, and of a batch, probes the partial claim index', async () => {
  for (const [queues, limit] of [
    [['q1'], 1],
    [['q1', 'q2'], 1],
    [['q1'], 50],
  ] as const) {
    expectIndexed(
      await plansOf((session) => readClaimed(session, queues, limit, change)),
      'todos_claim',
    )
  }
})

test('the reaper probes the partial index of leases', async () => {
  expectIndexed(
    await plansOf((session) => transitionDue(session, 'reapLease', { limit: 200 })),
    'todos_lease',
  )
})

test('the sweep of interrupts probes the partial index of interrupts', async () => {
  const sweep = (session: Session) =>
    transitionDue(session, 'reapInterrupt', { limit: 200 }, { ttlSeconds: 86_400 })
  expectIndexed(await plansOf(sweep), 'todos_interrupt')
})

test('the sweeps of silent holders and of overdue joins probe a partial index each', async () => {
  const sweep = (verb: 'park' | 'joinTimeOut') =>
    plansOf((session) => transitionDue(session, verb, { limit: 200 }))
  expectIndexed(await sweep('park'), 'todos_wait')
  expectIndexed(await sweep('joinTimeOut'), 'todos_alarm')
})

test('the bell probes the partial index of what comes due', async () => {
  expectIndexed(
    await plansOf((session) => transitionDue(session, 'comeDue', { limit: 200 })),
    'todos_come_due',
  )
})

test('todos whose time has come to enter their line are found by the partial index of theirs', async () => {
  expectIndexed(
    await plansOf((session) => transitionDue(session, 'enterLine', { limit: 200 })),
    'todos_later',
  )
})

test('settling a revoked endpoint reads the held and the interrupted todos, and no others', async () => {
  const settle = (session: Session) =>
    transitionDue(session, 'revoke', { limit: 200 }, { endpoint: SOMEBODY, queues: ['q1'] })
  for (const use of [settle, (session: Session) => readDeadHolders(session, SOMEBODY)]) {
    const plans = await plansOf(use)
    expectIndexed(plans, 'todos_lease')
    expectIndexed(plans, 'todos_interrupt')
  }
})

const newTodo: NewTodo = {
  id: SOMEBODY,
  queue: 'q1',
  contextId: 'c',
  clientId: null,
  priority: 1,
  maxAttempts: 5,
  message: { messageId: 'm', role: 'ROLE_USER', parts: [{ text: 'x' }] },
  detail: {},
}

test('a keyed send probes the keys by their key, and the janitor by their end', async () => {
  const key = {
    endpointId: SOMEBODY,
    queue: 'q1',
    source: 'key',
    key: 'k1',
    digest: 'ab'.repeat(32),
    seconds: 60,
  } as const
  for (const use of [
    (session: Session) => readKey(session, key),
    (session: Session) => addTodoOnce(session, newTodo, key),
    (session: Session) => tryTransition(session, 'message', SOMEBODY, { key }),
  ]) {
    expectIndexed(await plansOf(use), 'idempotency_key_once')
  }
  const expire = (session: Session) => expireKeys(session, 500)
  expectIndexed(await plansOf(expire), 'idempotency_keys_expires')
})

test('a send without a key does not look at the keys', async () => {
  for (const plan of await plansOf((session) => addTodo(session, newTodo))) {
    expect(plan).not.toContain('idempotency')
  }
  // A message shares its statement with those under a key: what belongs to the key is never executed.
  const change = { message: { messageId: 'm-none', role: 'ROLE_USER' as const, parts: [] } }
  const message = (session: Session) => tryTransition(session, 'message', SOMEBODY, change)
  const [asked] = await askedBy(message)
  const plan = await withClient(store.url, async (client) => {
    await client.query('set plan_cache_mode = force_generic_plan')
    await client.query(`prepare no_key as ${asked!.text}`)
    const { rows } = await client.query(
      `explain (analyze, costs off, timing off, summary off)
      execute no_key(${asked!.values.map(literal).join(', ')})`,
    )
    return rows.map((row) => String(row['QUERY PLAN']))
  })
  const keys = plan.filter((node) => /idempotency_keys? |idempotency_key_once/.test(node))
  expect(keys.length).toBeGreaterThan(0)
  for (const node of keys) if (/Scan/.test(node)) expect(node).toContain('never executed')
  expect(plan.some((node) => /One-Time Filter: \(\$\d+ IS NOT NULL\)/.test(node))).toBe(true)
})

test('whoever joins a line, and whoever leaves its front, looks at that line only', async () => {
  const line = SOMEBODY
  const join = (session: Session) => addTodo(session, { ...newTodo, line })
  const leave = (session: Session) =>
    tryTransition(session, 'complete', SOMEBODY, { endpoint: SOMEBODY, fence: '1' })
  const follow = (session: Session) => transitionLine(session, line)
  for (const use of [join, leave, follow]) expectIndexed(await plansOf(use), 'todos_line')
})

test('children are found by their parent, and the live ones among the ended by an index of their own', async () => {
  const due = { limit: 10, except: [] }
  for (const use of [
    (session: Session) => readCutShort(session, due),
    (session: Session) => readLeftByJoins(session, due, null),
    (session: Session) => readLeftByJoins(session, due, [SOMEBODY]),
    (session: Session) => countLiveChildren(session, SOMEBODY),
    (session: Session) => transitionDue(session, 'cancel', due, { parents: [SOMEBODY] }),
    (session: Session) => readDue(session, 'cancel', due, { parents: [SOMEBODY] }),
  ]) {
    expectIndexed(await plansOf(use), 'todos_live_children')
  }
})

test('what is left of cascades and of joins is looked for from the live children, and not from all todos', async () => {
  const due = { limit: 10, except: [] }
  for (const use of [
    (session: Session) => readCutShort(session, due),
    (session: Session) => readLeftByJoins(session, due, null),
    (session: Session) => readLeftByJoins(session, due, [SOMEBODY]),
  ]) {
    for (const plan of await plansOf(use)) expect(plan).toMatch(/\(id = (c|l)\.parent_id\)/)
  }
})

test('what runs under a limit is counted among the claimed todos', async () => {
  for (const use of [
    (session: Session) => readQueueSlots(session, 'q1', 3),
    (session: Session) => readClaimers(session, 'q1'),
  ]) {
    expectIndexed(await plansOf(use), 'todos_lease')
  }
})

test("a client's list reads its index in order", async () => {
  const filter = { pageSize: 50, includeArtifacts: false }
  const scope = { kind: 'client', clientId: SOMEBODY, queue: 'q1' } as const
  const [page] = await plansOf((session) => listTodos(session, filter, scope))
  expect(page).toContain('todos_client')
  expect(page).not.toContain('Sort')
})

test('the total of a list is summed up from what is kept, and no list of todos is walked for it', async () => {
  const page = { pageSize: 50, includeArtifacts: false }
  const scopes = [
    { kind: 'client', clientId: SOMEBODY, queue: 'q1' },
    { kind: 'queues', queues: ['q1', 'q2'] },
    { kind: 'all' },
  ] as const
  const states = [
    {},
    { states: ['done'] },
    { states: ['failed'], retrying: 'never' },
    { states: ['pending', 'failed'], retrying: 'only', joining: 'never' },
    { states: ['claimed', 'pending'], joining: 'only' },
  ] satisfies Partial<TodoFilter>[]
  for (const scope of scopes) {
    for (const filter of states) {
      const plans = await plansOf((session) => listTodos(session, { ...page, ...filter }, scope))
      const totals = plans.filter((plan) => plan.includes('todo_counts'))
      expect(totals).toHaveLength(2)
      // The events since are few; history.test.ts sees which are read for it.
      expectIndexed(totals, 'Function Scan on events_uncounted')
      for (const total of totals) {
        const read = [...total.matchAll(/using (\w+) on todos/g)].map(([, index]) => index)
        const joiners = 'joining' in filter ? ['todos_joining'] : []
        expect(new Set(read)).toEqual(new Set(['todos_pkey', ...joiners]))
      }
    }
  }
})

test('what ended otherwise than done is listed by an index of its own, in order', async () => {
  const list = (filter: Partial<TodoFilter>) =>
    plansOf((session) =>
      listTodos(session, { pageSize: 50, includeArtifacts: false, countTo: 10_000, ...filter }),
    )
  for (const filter of [
    { states: ['failed'], retrying: 'never' },
    { states: ['canceled'] },
    { states: ['rejected'] },
  ] satisfies Partial<TodoFilter>[]) {
    const [page, total] = await list(filter)
    for (const plan of [page, total]) expect(plan).toContain('todos_not_done')
    expect(page).not.toMatch(/Sort Key: \w+\.status_at/)
  }
})

test('a todo, its events and the feed are read by their keys', async () => {
  expectIndexed(
    await plansOf((session) => readView(session, SOMEBODY, { kind: 'all' })),
    'todos_pkey',
  )
  const watched = [{ id: SOMEBODY, after: 3 }]
  expectIndexed(await plansOf((session) => readEvents(session, watched, 100)), 'events_pkey')
  expectIndexed(await plansOf((session) => readFeed(session, 10, 100)), 'events_position')
})

test('a courier probes the index of what is due, and each line for its first', async () => {
  const busy = new Map([['h1', 8]])
  const crowded = {
    endpoints: [SOMEBODY],
    pairs: [`h2 ${SOMEBODY}`],
    counts: new Map([[SOMEBODY, 8]]),
  }
  const plans = await plansOf((session) =>
    leaseDeliveries(session, {
      owner: SOMEBODY,
      limit: 32,
      perHost: 8,
      leaseSeconds: 30,
      busy,
      crowded,
      share: 32,
    }),
  )
  for (const plan of plans) {
    for (const index of ['push_configs_due', 'push_configs_pkey', 'deliveries_line']) {
      expect(plan).toContain(index)
    }
    // What is sorted is what the innermost limit let through.
    expect(plan).not.toMatch(/Seq Scan on (push_configs|deliveries)/)
  }
})

test('a move looks its webhooks up by its todo, where it has any', async () => {
  const complete = (session: Session) =>
    tryTransition(session, 'complete', SOMEBODY, { endpoint: SOMEBODY, fence: '1' })
  expectIndexed(await plansOf(complete), 'push_configs_pkey')
})

test('the log of deliveries reads an index in order', async () => {
  const page = { pageSize: 50 }
  const all = { kind: 'all' } as const
  const read = (filter: object) =>
    plansOf((session) => listDeliveries(session, { ...page, ...filter }, all))
  expectIndexed(await read({}), 'deliveries_log')
  expectIndexed(await read({ state: 'dead' }), 'deliveries_by_state')
  expectIndexed(await plansOf((session) => purgeDeliveries(session, 1000)), 'deliveries_settled')
})

test('the janitor walks the ended todos of a queue by their end, and finds what hangs on them by its keys', async () => {
  const place = { at: new Date(0), id: SOMEBODY }
  for (const from of [null, place]) {
    const plans = await plansOf((session) => forgetTodos(session, 'q1', from))
    expectIndexed(plans, 'todos_ended')
    for (const plan of plans) {
      for (const index of EACH_BY_ITS_TODO) expect(plan).toContain(index)
    }
  }
  const plans = await plansOf((session) => clearRemains(session))
  for (const index of BY_SEQ) expectIndexed(plans, index)
})

const BY_SEQ = [
  'events_pkey',
  'message',
  'artifacts_pkey',
  'delivery_once',
  'idempotency_keys_todo',
]
const EACH_BY_ITS_TODO = [...BY_SEQ, 'attempts_pkey', 'details_pkey', 'push_configs_pkey']

test('no statement is compiled: a plan that lacks an index looks far dearer than it is', async () => {
  const rows = await store.database.query(`select current_setting('jit') as jit`, [])
  expect(rows).toEqual([{ jit: 'off' }])
})

test('holders that may not work any more are looked for among the held and the interrupted todos', async () => {
  const plans = await plansOf((session) => readIdleHolders(session, null))
  expectIndexed(plans, 'todos_lease')
  expectIndexed(plans, 'todos_interrupt')
})

test('what an author has in a conversation is looked for in that conversation', async () => {
  const place = { contextId: 'line5', line: SOMEBODY, clientId: null, author: 'ann' }
  expectIndexed(await plansOf((session) => readConversation(session, place)), 'todos_context')
})

test('the gauges of queues that nobody serves read what is unfinished, and of those queues alone', async () => {
  await store.database.query(
    `insert into queues (name, card, policy) select 'q' || n, '{}', '{}' from generate_series(0, 9) n`,
    [],
  )
  await store.database.query(
    `insert into endpoints (name, token_sha256, queues, verbs)
    select 'e' || n, sha256(('e' || n)::bytea), array['q' || n % 9], array['work']
    from generate_series(0, 200) n`,
    [],
  )
  await store.database.query('analyze queues, endpoints', [])
  const plans = await plansOf(readUnservedQueues)
  expectIndexed(plans, 'todos_claim')
  for (const plan of plans) expect(plan.indexOf('endpoints')).toBeLessThan(plan.indexOf('todos'))
})
