/** The rows against services that are tables: what is asked of them, and what is answered. */
import { describe, expect, test } from 'vitest'
import type { Caller, EndpointVerb } from '../../../src/domain/endpoint.ts'
import { Refusal } from '../../../src/domain/errors.ts'
import type { Event, TodoView } from '../../../src/domain/todo.ts'
import { createV1Methods } from '../../../src/protocol/v1/methods.ts'
import type { QueueCall, Row, Services, StreamItem } from '../../../src/protocol/wire/method.ts'
import { accessTo } from '../../../src/service/tasks/access.ts'
import type { ClientService } from '../../../src/service/tasks/client.ts'
import type { Watch } from '../../../src/service/watch/watch.ts'
import { event, queue, said, view } from './build.ts'

const table = createV1Methods({
  publicUrl: () => 'http://localhost:4100',
  maxWaitMs: 20,
})

const endpoint = (verbs: EndpointVerb[], queues = ['demo']): Caller => ({
  kind: 'endpoint',
  endpoint: {
    id: 'e-1',
    name: 'one',
    queues,
    verbs,
    defaultLeaseSeconds: 300,
    interruptTtlSeconds: null,
    effects: null,
    sendPerMinute: null,
    concurrency: null,
    highestPriority: null,
    lowestPriority: null,
    createdAt: new Date(),
    expiresAt: null,
    revokedAt: null,
  },
})

interface World {
  client?: Partial<ClientService>
  watch?: Partial<Watch>
  caller?: Caller
  lastEventId?: string
  extensions?: string[]
  signal?: AbortSignal
}

const call = ({
  client,
  watch,
  caller = endpoint(['send']),
  lastEventId,
  extensions = [],
  signal,
}: World = {}): QueueCall => ({
  services: { client, watch } as unknown as Services,
  caller,
  access: accessTo(caller, queue()),
  signal: signal ?? new AbortController().signal,
  lastEventId: lastEventId ?? null,
  idempotencyKey: null,
  isPeerThere: () => true,
  rest: (wait: Promise<void>) => wait,
  requestId: 'r-1',
  queue: queue(),
  extensions: new Set(extensions),
  dialect: '1.0',
  setHeader: () => {},
})

const run = async (method: keyof typeof table, params: unknown, ctx: QueueCall) => {
  const row: Row<QueueCall> = table[method]
  row.right(ctx)
  return row.call(ctx, row.params.parse(params))
}

const collect = async (items: unknown): Promise<StreamItem[]> => {
  const found: StreamItem[] = []
  for await (const item of items as AsyncIterable<StreamItem>) found.push(item)
  return found
}

const kind = (expected: string) => expect.objectContaining({ kind: expected })

const hello = { messageId: 'm-1', role: 'ROLE_USER', parts: [{ text: 'hi' }] }
const pending = view()
const done = view({ state: 'done', seq: 5, statusSeq: 5 })

const follows = (...events: Event[]): Watch['follow'] =>
  async function* () {
    yield* events
  }

describe('SendMessage', () => {
  const sends = (after: number, sent: TodoView = pending) => ({
    send: async () => ({ view: sent, after }),
    get: async () => pending,
  })

  test('waits for what is settled after its own event', async () => {
    const asked: unknown[] = []
    const settle: Watch['settle'] = async (id, after) => {
      asked.push(id, after)
      return done
    }
    const answer = await run(
      'SendMessage',
      { message: hello },
      call({ client: sends(3), watch: { settle } }),
    )
    expect(asked).toEqual(['t-7', 3])
    expect(answer).toMatchObject({ task: { status: { state: 'TASK_STATE_COMPLETED' } } })
  })

  test.each([
    ['asked not to', 3, { returnImmediately: true }],
    ['told that all is settled', 0, {}],
  ])('does not wait when %s', async (_, after, configuration) => {
    const answer = await run(
      'SendMessage',
      { message: hello, configuration },
      call({ client: sends(after) }),
    )
    expect(answer).toMatchObject({ task: { status: { state: 'TASK_STATE_SUBMITTED' } } })
  })

  const never: Watch['settle'] = (_id, _after, signal) =>
    new Promise((_, reject) => {
      signal.addEventListener('abort', () => reject(signal.reason), { once: true })
    })

  test('answers the task as it is when the wait is too long', async () => {
    const answer = await run(
      'SendMessage',
      { message: hello },
      call({ client: sends(1), watch: { settle: never } }),
    )
    expect(answer).toMatchObject({ task: { status: { state: 'TASK_STATE_SUBMITTED' } } })
  })

  test('answers the task as it is when the server stops', async () => {
    const signal = AbortSignal.abort('stopping')
    const settle: Watch['settle'] = async (_id, _after, given) => {
      given.throwIfAborted()
      return done
    }
    const answer = await run(
      'SendMessage',
      { message: hello },
      call({ client: sends(1), watch: { settle }, signal }),
    )
    expect(answer).toMatchObject({ task: { id: 't-7' } })
  })

  test('ends its wait when the client hangs up', async () => {
    const controller = new AbortController()
    const ctx = call({ client: sends(1), watch: { settle: never }, signal: controller.signal })
    const answer = run('SendMessage', { message: hello }, ctx)
    controller.abort('hung_up')
    await expect(answer).rejects.toBe('hung_up')
  })

  test('with a push config, where the card switches push off, sends nothing', async () => {
    const configuration = { taskPushNotificationConfig: { url: 'https://example.com' } }
    const ctx = { ...call(), queue: queue({ capabilities: { pushNotifications: false } }) }
    await expect(run('SendMessage', { message: hello, configuration }, ctx)).rejects.toThrow(
      kind('push_unsupported'),
    )
  })

  test('lets people who answer reply to a task and not begin one', async () => {
    const caller = endpoint(['answer'])
    const ctx = call({ client: sends(0), caller })
    await expect(run('SendMessage', { message: hello }, ctx)).rejects.toThrow(kind('forbidden'))
    const reply = { message: { ...hello, taskId: 't-7' } }
    expect(await run('SendMessage', reply, ctx)).toMatchObject({ task: { id: 't-7' } })
  })
})

describe('SendStreamingMessage', () => {
  const client = { send: async () => ({ view: pending, after: 1 }) }

  test('shows the task, then what becomes of it, each under its task and seq', async () => {
    const follow = follows(
      event({ seq: 2 }),
      event({ seq: 3, verb: 'progress' }),
      event({ seq: 4, verb: 'complete', to: 'done', message: said('ROLE_AGENT', 'ok') }),
    )
    const items = await collect(
      await run('SendStreamingMessage', { message: hello }, call({ client, watch: { follow } })),
    )
    expect(items.map(({ id, result }) => [id, Object.keys(result as object)[0]])).toEqual([
      ['t-7:1', 'task'],
      ['t-7:2', 'statusUpdate'],
      ['t-7:4', 'statusUpdate'],
    ])
  })

  test('ends after the first frame when the task was refused at once', async () => {
    const rejected = { send: async () => ({ view: view({ state: 'rejected' }), after: 0 }) }
    const items = await run('SendStreamingMessage', { message: hello }, call({ client: rejected }))
    expect(await collect(items)).toHaveLength(1)
  })

  test('without streams in the card makes no task', async () => {
    const ctx = { ...call(), queue: queue({ capabilities: { streaming: false } }) }
    await expect(run('SendStreamingMessage', { message: hello }, ctx)).rejects.toThrow(
      kind('unsupported'),
    )
    await expect(run('SubscribeToTask', { id: 't-7' }, ctx)).rejects.toThrow(kind('unsupported'))
  })
})

describe('SubscribeToTask', () => {
  const following: number[] = []
  const watch: Partial<Watch> = {
    follow: (id, after, signal) => {
      following.push(after)
      return follows(event({ seq: after + 1 }))(id, after, signal)
    },
  }
  const over = (todo: TodoView, lastEventId?: string) =>
    call({
      client: { get: async () => todo },
      watch,
      extensions: ['urn:switchboard:ext:resumable-streams/v1'],
      ...(lastEventId !== undefined && { lastEventId }),
    })
  const subscribe = (ctx: QueueCall) => run('SubscribeToTask', { id: 't-7' }, ctx)

  test('opens with the task as it is now', async () => {
    const items = await collect(await subscribe(over(view({ state: 'claimed', seq: 6 }))))
    expect(items.map(({ id }) => id)).toEqual(['6', '7'])
    expect(items[0]?.result).toHaveProperty('task')
  })

  test('with a cursor shows exactly what was missed and no task', async () => {
    const items = await collect(await subscribe(over(view({ state: 'claimed', seq: 6 }), '3')))
    expect(items.map(({ id }) => id)).toEqual(['4'])
    expect(following.at(-1)).toBe(3)
  })

  test('with a cursor, where the client did not ask for the extension, opens with the task all the same', async () => {
    for (const todo of [view({ state: 'claimed', seq: 6 }), done]) {
      const bare = { ...over(todo, '3'), extensions: new Set<string>() }
      const [first, ...rest] = await collect(await subscribe(bare))
      expect(first?.result).toHaveProperty('task')
      expect(rest.map(({ id }) => id)).toEqual(todo === done ? [] : ['7'])
    }
  })

  test('of an ended task is refused, but for what a cursor has not seen', async () => {
    await expect(subscribe(over(done))).rejects.toThrow(kind('unsupported'))
    expect(await collect(await subscribe(over(done, '3')))).toHaveLength(1)
    expect(await collect(await subscribe(over(done, '5')))).toEqual([])
  })

  test.each(['', 'x', '-1', '1.5', '99999999999', '7'])('refuses the cursor %j', async (cursor) => {
    const answer = subscribe(over(view({ seq: 6 }), cursor))
    await expect(answer).rejects.toThrow(kind('invalid'))
  })
})

test('GetTask, CancelTask and ListTasks ask within what the caller may see', async () => {
  const scopes: unknown[] = []
  const seen = <T>(scope: unknown, answer: T): T => {
    scopes.push(scope)
    return answer
  }
  const page = { todos: [], nextPageToken: '', pageSize: 50, totalSize: 0 }
  const client: Partial<ClientService> = {
    get: async (_id, scope) => seen(scope, pending),
    cancel: async (_id, scope) => seen(scope, pending),
    list: async (_filter, scope) => seen(scope, page),
  }
  const ctx = call({ client })
  expect(await run('GetTask', { id: 't-7' }, ctx)).toHaveProperty('status')
  expect(await run('CancelTask', { id: 't-7' }, ctx)).toHaveProperty('status')
  expect(await run('ListTasks', {}, ctx)).toHaveProperty('tasks')
  expect(scopes).toEqual(Array(3).fill({ kind: 'client', clientId: 'e-1', queue: 'demo' }))
  await run('GetTask', { id: 't-7' }, call({ client, caller: endpoint(['answer']) }))
  expect(scopes.at(-1)).toEqual({ kind: 'queues', queues: ['demo'] })
})

test('what answered a request for authorisation is read by the client of the task and no other', async () => {
  const credential = { ...said('ROLE_USER', 'x'), parts: [{ text: 'p4ssw0rd' }] }
  const plain = view({ state: 'claimed', seq: 3, statusSeq: 3 }, [credential])
  const messages = plain.messages.map((stored) => ({ ...stored, secret: true }))
  const client = {
    get: async () => ({ ...plain, messages }),
    send: async () => ({ view: { ...plain, messages }, after: 0 }),
  }
  const reply = { message: { ...hello, taskId: 't-7' } }
  const texts = async (ctx: QueueCall) => [
    JSON.stringify(await run('GetTask', { id: 't-7' }, ctx)),
    JSON.stringify(await run('SendMessage', reply, ctx)),
  ]
  for (const text of await texts(call({ client }))) expect(text).toContain('p4ssw0rd')
  const person = endpoint(['answer'])
  if (person.kind === 'endpoint') person.endpoint.id = 'e-9'
  for (const text of await texts(call({ client, caller: person }))) {
    expect(text).not.toContain('p4ssw0rd')
    expect(text).toContain('"m-x"')
  }
})

test('where the card switches push off, its methods are refused before any task is looked for', async () => {
  const ctx = { ...call(), queue: queue({ capabilities: { pushNotifications: false } }) }
  const calls = {
    CreateTaskPushNotificationConfig: { taskId: 't', url: 'https://example.com' },
    GetTaskPushNotificationConfig: { taskId: 't', id: 'c' },
    ListTaskPushNotificationConfigs: { taskId: 't' },
    DeleteTaskPushNotificationConfig: { taskId: 't', id: 'c' },
  } as const
  for (const [name, params] of Object.entries(calls)) {
    await expect(run(name as keyof typeof calls, params, ctx)).rejects.toThrow(
      kind('push_unsupported'),
    )
  }
})

describe('who may come in', () => {
  const refused = (caller: Caller, found: ReturnType<typeof queue> | null): unknown => {
    try {
      accessTo(caller, found)
      return null
    } catch (error) {
      return error instanceof Refusal ? [error.kind, error.message, error.detail] : error
    }
  }

  test('a queue that is not there and one without a right are one refusal', () => {
    const stranger = endpoint(['send'], ['other'])
    expect(refused(stranger, queue())).toEqual(refused(stranger, null))
    expect(refused(endpoint(['work']), queue())).toEqual(refused(stranger, null))
    expect(refused(endpoint(['send']), null)).toEqual(refused(stranger, null))
    expect(refused(endpoint(['send']), queue())).toBeNull()
  })

  test('the admin token is told to use another one', () => {
    expect(refused({ kind: 'operator' }, queue())).toEqual(refused({ kind: 'operator' }, null))
    expect(String(refused({ kind: 'operator' }, queue()))).toContain('admin token')
  })

  test('the rights of an endpoint are looked up once a call', async () => {
    let lookUps = 0
    const caller = endpoint(['send', 'answer'])
    if (caller.kind !== 'endpoint') throw new Error('no endpoint')
    const { verbs } = caller.endpoint
    Object.defineProperty(caller.endpoint, 'verbs', {
      get: () => {
        lookUps += 1
        return verbs
      },
    })
    const client = { send: async () => ({ view: pending, after: 3 }), get: async () => pending }
    const settle: Watch['settle'] = async () => done
    const ctx = call({ caller, client, watch: { settle } })
    // One for each of the two verbs.
    expect(lookUps).toBe(2)
    await run('SendMessage', { message: hello }, ctx)
    await run('GetTask', { id: 't-7' }, ctx)
    expect(lookUps).toBe(2)
  })

  test.each(['ListTasks', 'CancelTask', 'SubscribeToTask', 'SendStreamingMessage'] as const)(
    'people who answer may not %s',
    (method) => {
      const ctx = call({ caller: endpoint(['answer']) })
      expect(() => table[method].right(ctx)).toThrow(kind('forbidden'))
    },
  )
})
