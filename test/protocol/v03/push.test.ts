/** Push configs of 0.3 and 0.1 over rows of 1.0 that keep them in a table. */
import { describe, expect, test } from 'vitest'
import { Refusal } from '../../../src/domain/errors.ts'
import { createV1Methods } from '../../../src/protocol/v1/methods.ts'
import type { PushConfig } from '../../../src/protocol/v1/wire.ts'
import { createV01Methods } from '../../../src/protocol/v01/methods.ts'
import { createV03Methods } from '../../../src/protocol/v03/methods.ts'
import type { QueueCall } from '../../../src/protocol/wire/method.ts'
import { queue } from '../v1/build.ts'

const TASK = '11111111-1111-4111-8111-111111111111'

/** The four rows of 1.0 with one task, two configs a page. */
const withConfigs = (...given: PushConfig[]) => {
  const kept = new Map(given.map((config) => [config.id ?? '', { ...config, taskId: TASK }]))
  const of = ({ taskId }: { taskId?: string | undefined }): void => {
    if (taskId !== TASK) throw new Refusal('not_found')
  }
  const v1 = createV1Methods({ publicUrl: () => 'http://x' })
  const rows = {
    ...v1,
    CreateTaskPushNotificationConfig: {
      ...v1.CreateTaskPushNotificationConfig,
      call: async (_: QueueCall, config: PushConfig) => {
        of(config)
        kept.set(config.id ?? '', { ...config, taskId: TASK })
        return config
      },
    },
    GetTaskPushNotificationConfig: {
      ...v1.GetTaskPushNotificationConfig,
      call: async (_: QueueCall, asked: { taskId: string; id: string }) => {
        of(asked)
        const found = kept.get(asked.id)
        if (!found) throw new Refusal('not_found')
        return found
      },
    },
    ListTaskPushNotificationConfigs: {
      ...v1.ListTaskPushNotificationConfigs,
      call: async (_: QueueCall, asked: { taskId: string; pageToken?: string | undefined }) => {
        of(asked)
        const from = Number(asked.pageToken ?? 0)
        const configs = [...kept.values()].slice(from, from + 2)
        return { configs, nextPageToken: from + 2 < kept.size ? String(from + 2) : '' }
      },
    },
    DeleteTaskPushNotificationConfig: {
      ...v1.DeleteTaskPushNotificationConfig,
      call: async (_: QueueCall, asked: { taskId: string; id: string }) => {
        of(asked)
        kept.delete(asked.id)
        return {}
      },
    },
  } as unknown as ReturnType<typeof createV1Methods>
  const v03 = createV03Methods(rows)
  const table = { ...v03, ...createV01Methods(rows, v03) }
  const ctx = {
    caller: { kind: 'endpoint', endpoint: { id: 'e-1', queues: ['demo'], verbs: ['send'] } },
    queue: queue(),
  } as unknown as QueueCall
  const call = async (method: keyof typeof table, params: object): Promise<unknown> =>
    (table[method].call as (ctx: QueueCall, params: unknown) => Promise<unknown>)(
      ctx,
      table[method].params.parse(params),
    )
  return { call, kept }
}

const P = 'tasks/pushNotificationConfig'
const url = 'https://h'
const notFound = expect.objectContaining({ kind: 'not_found' })

describe('a config', () => {
  test('is set, flat and with one scheme, and comes back nested', async () => {
    const { call, kept } = withConfigs()
    const config = {
      id: 'c',
      url,
      token: 't',
      authentication: { schemes: ['Bearer', 'Basic'], credentials: 'x' },
    }
    const set = await call(`${P}/set`, { taskId: TASK, pushNotificationConfig: config })
    expect(kept.get('c')).toEqual({
      taskId: TASK,
      id: 'c',
      url,
      token: 't',
      authentication: { scheme: 'Bearer', credentials: 'x' },
    })
    const used = { ...config, authentication: { schemes: ['Bearer'], credentials: 'x' } }
    expect(set).toEqual({ taskId: TASK, pushNotificationConfig: used })
    expect(await call(`${P}/get`, { id: TASK, pushNotificationConfigId: 'c' })).toEqual(set)
    expect(await call(`${P}/list`, { id: TASK })).toEqual([set])
    expect(await call(`${P}/delete`, { id: TASK, pushNotificationConfigId: 'c' })).toBeNull()
    expect(await call(`${P}/list`, { id: TASK })).toEqual([])
  })

  test('that is set without an id is the default one', async () => {
    const { call } = withConfigs({ id: 'other', url })
    const set = await call(`${P}/set`, { taskId: TASK, pushNotificationConfig: { url } })
    expect(set).toEqual({ taskId: TASK, pushNotificationConfig: { id: 'default', url } })
    expect(await call(`${P}/get`, { id: TASK })).toEqual(set)
    expect(await call(`${P}/get`, { id: TASK, pushNotificationConfigId: 'default' })).toEqual(set)
  })

  test('that is asked for without an id is the default, else the only one, else none', async () => {
    const [none, one, two] = [
      withConfigs(),
      withConfigs({ id: 'a', url }),
      withConfigs({ id: 'a', url }, { id: 'b', url }),
    ]
    await expect(none.call(`${P}/get`, { id: TASK })).rejects.toEqual(notFound)
    expect(await one.call(`${P}/get`, { id: TASK })).toMatchObject({
      pushNotificationConfig: { id: 'a' },
    })
    await expect(two.call(`${P}/get`, { id: TASK })).rejects.toEqual(notFound)
  })

  test('list is all of them, however many pages of 1.0 that is', async () => {
    const ids = ['a', 'b', 'c', 'd', 'e']
    const { call } = withConfigs(...ids.map((id) => ({ id, url })))
    const list = (await call(`${P}/list`, { id: TASK })) as {
      pushNotificationConfig: { id: string }
    }[]
    expect(list.map(({ pushNotificationConfig: { id } }) => id)).toEqual(ids)
  })

  test('of a task that is not there is not found', async () => {
    const { call } = withConfigs()
    const params: [string, object][] = [
      ['set', { taskId: 'x', pushNotificationConfig: { url } }],
      ['get', { id: 'x' }],
      ['list', { id: 'x' }],
      ['delete', { id: 'x', pushNotificationConfigId: 'c' }],
    ]
    for (const [verb, of] of params) {
      await expect(call(`${P}/${verb}` as `${typeof P}/get`, of)).rejects.toEqual(notFound)
    }
  })
})

test('0.1 sets and gets the one config of a task', async () => {
  const { call } = withConfigs()
  const config = { url, token: 't' }
  const set = await call('tasks/pushNotification/set', { id: TASK, pushNotificationConfig: config })
  expect(set).toEqual({ id: TASK, pushNotificationConfig: { ...config, id: 'default' } })
  expect(await call('tasks/pushNotification/get', { id: TASK })).toEqual(set)
  await expect(call('tasks/pushNotification/get', { id: 'x' })).rejects.toEqual(notFound)
})
