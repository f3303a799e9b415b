// A page token is good for the list that gave it out, its filter and its reader, and for nothing else.
// Field cases: sealed page tokens.
import { expect, test } from 'vitest'
import { ADMIN_TOKEN, startApp, startNode } from '../support/app.ts'
import { type Answer, a2aClient, agentClient, rpc } from '../support/clients/actors.ts'

const app = await startApp()
const COUNT = 5

const { client, agent } = await app.queue('desk', { contexts: 'parallel' })
const other = await app.queue('other', { contexts: 'parallel' })
const neighbour = await app.vend(['send'], ['desk'])
const watcher = await app.vend(['watch', 'work'], ['desk', 'other'])
const a2a = a2aClient(app.url, 'desk', client.token)

const tasks: Answer[] = []
for (let i = 0; i < COUNT; i += 1) tasks.push(await a2a.submit(`task ${i}`))
for (let i = 0; i < COUNT; i += 1) {
  await a2aClient(app.url, 'desk', neighbour.token).submit('theirs')
  await a2aClient(app.url, 'other', other.client.token).submit('elsewhere')
}
for (let i = 0; i < COUNT; i += 1) {
  await a2a.call('CreateTaskPushNotificationConfig', {
    taskId: tasks[0].id,
    id: `hook ${i}/é`,
    url: `https://hooks.example/${i}`,
  })
  await app.sql(
    `insert into deliveries (todo_id, config_id, seq, queue, state, settled_at)
     values ($1, 'hook 0/é', $2, 'desk', 'dead', now())`,
    [tasks[0].id, 100 + i],
  )
}
const worker = agentClient(app.url, agent.token)
for (let i = 0; i < COUNT; i += 1) await worker.claim()

type Read = (
  params: Record<string, unknown>,
) => Promise<{ ids: string[]; next: string; error?: Answer }>

const idsOf = (items: Answer[]): string[] => items.map(({ id }: { id: string }) => id)
const pageOf = (body: Answer, items: string) =>
  body.error
    ? { ids: [], next: '', error: body.error }
    : { ids: idsOf(body.result[items]), next: body.result.nextPageToken ?? '' }

const tasksOf =
  (token: string, queue = 'desk'): Read =>
  async (params) =>
    pageOf(await a2aClient(app.url, queue, token).call('ListTasks', params), 'tasks')

const operatorList =
  (method: string, items: string, token = ADMIN_TOKEN): Read =>
  async (params) =>
    pageOf(await rpc(`${app.url}/operator`, method, params, { token }), items)

const held: Read = async (params) =>
  pageOf(await rpc(`${app.url}/agent`, 'todos.list', params, { token: agent.token }), 'todos')

const overHttp: Read = async (params) => {
  const query = new URLSearchParams(params as Record<string, string>)
  const response = await fetch(`${app.url}/a2a/desk/tasks?${query}`, {
    headers: { Authorization: `Bearer ${client.token}`, 'A2A-Version': '1.0' },
  })
  const body = (await response.json()) as Answer
  return response.ok ? pageOf({ result: body }, 'tasks') : { ids: [], next: '', error: body.error }
}

const hooks: Read = async (params) =>
  pageOf(
    await a2a.call('ListTaskPushNotificationConfigs', { taskId: tasks[0].id, ...params }),
    'configs',
  )

const laneOf =
  (lane: string): Read =>
  async (params) => {
    const query = new URLSearchParams({ lane, ...(params as Record<string, string>) })
    const response = await fetch(`${app.url}/board/todos?${query}`, {
      headers: { Authorization: `Bearer ${ADMIN_TOKEN}` },
    })
    const body = (await response.json()) as Answer
    return response.ok
      ? pageOf({ result: body }, 'todos')
      : { ids: [], next: '', error: body.error }
  }

const LISTS: Record<string, { read: Read; filters: Record<string, unknown>[] }> = {
  'tasks of a client': {
    read: tasksOf(client.token),
    filters: [
      { status: 'TASK_STATE_WORKING' },
      { contextId: 'c' },
      { statusTimestampAfter: '2020-01-01T00:00:00Z' },
    ],
  },
  'tasks over HTTP+JSON': { read: overHttp, filters: [{ contextId: 'c' }] },
  'webhooks of a task': { read: hooks, filters: [{ taskId: tasks[1].id }] },
  'todos of an operator': {
    read: operatorList('todos.list', 'todos'),
    filters: [{ queue: 'desk' }, { state: 'pending' }, { contextId: 'c' }],
  },
  'todos of a watcher': {
    read: operatorList('todos.list', 'todos', watcher.token),
    filters: [{ queue: 'desk' }],
  },
  'todos an agent holds': { read: held, filters: [{ queue: 'desk' }] },
  deliveries: {
    read: operatorList('deliveries.list', 'deliveries'),
    filters: [{ state: 'dead' }, { todoId: tasks[0].id }],
  },
  'a lane of the board': {
    read: laneOf('waiting'),
    filters: [{ queue: 'desk' }, { context: 'c' }, { lane: 'held' }],
  },
}

test.each(Object.entries(LISTS))(
  'pages of %s follow one another, of whatever size, on any node',
  async (_name, { read }) => {
    const all = (await read({ pageSize: 100 })).ids
    const seen: string[] = []
    let next: string | undefined
    for (let size = 1; next !== ''; size += 1) {
      const page = await read({ pageSize: size, ...(next !== undefined && { pageToken: next }) })
      expect(page.error).toBeUndefined()
      seen.push(...page.ids)
      next = page.next
    }
    expect(seen).toEqual(all)
    expect(all.length).toBeGreaterThan(3)
  },
)

const isRefused = ({ error }: { error?: Answer }): boolean =>
  error?.code === -32602 || (error?.code === 400 && error.status === 'INVALID_ARGUMENT')

test.each(Object.entries(LISTS))('a token of %s is good for nothing else', async (name, list) => {
  const { next } = await list.read({ pageSize: 2 })
  expect(next.length).toBeGreaterThan(22)
  const asks: [string, ReturnType<Read>][] = [
    ...list.filters.map((filter): [string, ReturnType<Read>] => [
      JSON.stringify(filter),
      list.read({ pageToken: next, ...filter }),
    ]),
    ...Object.entries(LISTS)
      .filter(
        ([other]) => other !== name && !(name.startsWith('tasks') && other.startsWith('tasks')),
      )
      .map(([other, { read }]): [string, ReturnType<Read>] => [other, read({ pageToken: next })]),
  ]
  // One of each place: the seal, where it meets the position, the position, its last letter.
  for (const at of [0, 10, 21, 22, 30, next.length - 1]) {
    const letter = next[at] === 'A' ? 'B' : 'A'
    const changed = `${next.slice(0, at)}${letter}${next.slice(at + 1)}`
    asks.push([`letter ${at}`, list.read({ pageToken: changed })])
  }
  for (const forged of [next.slice(22), next.slice(0, 22), `${next}A`, ` ${next}`, `${next}=`]) {
    asks.push([forged, list.read({ pageToken: forged })])
  }
  for (const [what, ask] of asks) expect([what, isRefused(await ask)]).toEqual([what, true])
  // The other filters give out tokens, too, which are no good without them.
  for (const filter of list.filters) {
    const narrow = await list.read({ pageSize: 1, ...filter })
    if (narrow.next === '') continue
    expect([filter, isRefused(await list.read({ pageToken: narrow.next }))]).toEqual([filter, true])
  }
})

test('a token of one reader is none of another, in the same queue or by the same method', async () => {
  const mine = await tasksOf(client.token)({ pageSize: 2 })
  for (const read of [
    tasksOf(neighbour.token),
    tasksOf(other.client.token, 'other'),
    operatorList('todos.list', 'todos'),
  ]) {
    expect(isRefused(await read({ pageToken: mine.next }))).toBe(true)
  }
  const all = await operatorList('todos.list', 'todos')({ pageSize: 2 })
  const theirs = operatorList('todos.list', 'todos', watcher.token)
  expect(isRefused(await theirs({ pageToken: all.next }))).toBe(true)
})

test('the error names the field and says what is wrong', async () => {
  const { error } = await a2a.call('ListTasks', { pageToken: 'forged' })
  expect(error.code).toBe(-32602)
  expect(JSON.stringify(error.data)).toContain('pageToken')
  expect(JSON.stringify(error.data)).toContain('not a token that this server gave out')
})

test('all nodes have one key, also where several make it at once, and it outlives them', async () => {
  await app.sql('delete from installation_keys')
  const nodes = await Promise.all([0, 1, 2].map(() => startNode(app.databaseUrl)))
  const list = (url: string, pageToken?: string) =>
    a2aClient(url, 'desk', client.token).call('ListTasks', {
      pageSize: 1,
      ...(pageToken !== undefined && { pageToken }),
    })
  try {
    const pages = await Promise.all(nodes.map(({ url }) => list(url)))
    expect(new Set(pages.map(({ result }) => result.nextPageToken)).size).toBe(1)
    const [later] = [await startNode(app.databaseUrl)]
    nodes.push(later)
    const next = await list(later.url, pages[0].result.nextPageToken)
    expect(next.error).toBeUndefined()
    expect((await app.sql('select from installation_keys')).length).toBe(1)
  } finally {
    await Promise.all(nodes.map((node) => node.stop()))
  }
})
