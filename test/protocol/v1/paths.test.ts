/** The paths of A2A 1.0 against the proto's annotations, and how params are read from a request. */
import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { Refusal } from '../../../src/domain/errors.ts'
import { createV1Methods } from '../../../src/protocol/v1/methods.ts'
import { V1_PATHS } from '../../../src/protocol/v1/paths.ts'
import { WireRefusal } from '../../../src/protocol/wire/errors.ts'
import { compilePaths, nothingAt, paramsOf, type Query } from '../../../src/protocol/wire/path.ts'

const paths = compilePaths(V1_PATHS)
const table = createV1Methods({ publicUrl: () => 'http://x' })

const query = (text: string): Query => {
  const found = new Map<string, string[]>()
  for (const [name, value] of new URLSearchParams(text)) {
    found.set(name, [...(found.get(name) ?? []), value])
  }
  return found
}

/** `GET tasks/7` → the row's method and its params. */
const read = (verb: string, path: string, search = '', body?: unknown) => {
  const found = paths.at(path).find(({ row }) => row.verb === verb)
  return found ? [found.row.method, paramsOf(found, query(search), body)] : null
}
const violationsOf = (run: () => unknown) => {
  try {
    run()
  } catch (error) {
    expect(error).toBeInstanceOf(Refusal)
    return (error as Refusal).detail.violations
  }
  throw new Error('not refused')
}

const C = 'tasks/t-1/pushNotificationConfigs'

test.each([
  ['POST', 'message:send', 'SendMessage', {}],
  ['POST', 'message:stream', 'SendStreamingMessage', {}],
  ['GET', 'tasks', 'ListTasks', {}],
  ['GET', 'tasks/t-1', 'GetTask', { id: 't-1' }],
  ['POST', 'tasks/t-1:cancel', 'CancelTask', { id: 't-1' }],
  ['POST', 'tasks/t-1:subscribe', 'SubscribeToTask', { id: 't-1' }],
  ['GET', 'tasks/t-1:subscribe', 'SubscribeToTask', { id: 't-1' }],
  ['POST', C, 'CreateTaskPushNotificationConfig', { taskId: 't-1' }],
  ['GET', C, 'ListTaskPushNotificationConfigs', { taskId: 't-1' }],
  ['GET', `${C}/c-1`, 'GetTaskPushNotificationConfig', { taskId: 't-1', id: 'c-1' }],
  ['DELETE', `${C}/c-1`, 'DeleteTaskPushNotificationConfig', { taskId: 't-1', id: 'c-1' }],
  ['GET', 'extendedAgentCard', 'GetExtendedAgentCard', {}],
])('%s /%s is %s', (verb, path, method, params) => {
  for (const spelled of [path, `/${path}`, `${path}/`, `//${path}//`]) {
    expect(read(verb, spelled)).toEqual([method, params])
  }
})

test('every method of the table has a path, and every path a method', () => {
  const methods = new Set(V1_PATHS.map(({ method }) => method))
  expect([...methods].sort()).toEqual(Object.keys(table).sort())
})

test.runIf(process.env.A2A_PROTO)('the proto has the same bindings, but for the tenants', () => {
  const proto = readFileSync(process.env.A2A_PROTO ?? '', 'utf8')
  const bindings = [...proto.matchAll(/^\s+(get|post|delete): "([^"]+)"/gm)]
    .map(([, verb, template]) => `${verb!.toUpperCase()} ${template}`)
    .filter((each) => !each.includes('{tenant}'))
  expect(bindings).toHaveLength(11)
  const plain = (each: string) => each.replaceAll('=*', '').replaceAll('task_id', 'taskId')
  const ours = V1_PATHS.map(({ verb, template }) => plain(`${verb} ${template}`))
  expect(ours).toEqual(expect.arrayContaining(bindings.map(plain)))
})

describe('a segment', () => {
  test('is parted from its verb at the last colon', () => {
    expect(read('POST', 'tasks/a:b:cancel')).toEqual(['CancelTask', { id: 'a:b' }])
    expect(read('POST', 'tasks/cancel:cancel:cancel')).toEqual([
      'CancelTask',
      { id: 'cancel:cancel' },
    ])
    for (const path of [
      'tasks/a:b',
      'tasks/a:',
      'tasks/a:Cancel',
      'tasks/a:cancel:x',
      'tasks/:cancel',
    ]) {
      expect(paths.at(path)).toEqual([])
    }
  })

  test('is decoded after it was parted, so an escaped colon or slash belongs to the id', () => {
    expect(read('GET', 'tasks/a%3Acancel')).toEqual(['GetTask', { id: 'a:cancel' }])
    expect(read('POST', 'tasks/a%2Fb%3Ac:cancel')).toEqual(['CancelTask', { id: 'a/b:c' }])
    expect(read('GET', 'tasks/%E6%BC%A2%20+')).toEqual(['GetTask', { id: '漢 +' }])
  })

  test('that names a config may hold colons', () => {
    expect(read('DELETE', `${C}/urn:c:1`)).toEqual([
      'DeleteTaskPushNotificationConfig',
      { taskId: 't-1', id: 'urn:c:1' },
    ])
  })

  test('that cannot be decoded is a fault of the path, also where the path leads nowhere', () => {
    for (const path of ['tasks/%zz', 'tasks/%', '%E6/%BC%A2', `${C}/%ff`, 'nowhere/%f']) {
      expect(paths.at(path)).toEqual([])
      expect(nothingAt(path)).toMatchObject({ kind: 'invalid' })
    }
    expect(nothingAt('nowhere')).toBeInstanceOf(WireRefusal)
  })
})

test.each([
  '',
  '/',
  'task',
  'TASKS',
  'tasks//pushNotificationConfigs',
  'tasks/t-1/pushNotificationConfigs/c/d',
  'tasks/t-1/history',
  'message',
  'message:other',
  'message/send',
  'acme/tasks',
  'acme/message:send',
  'v1/tasks',
  'v1/message:send',
  'constructor',
  '__proto__',
])('there is nothing at %j', (path) => {
  expect(paths.at(path)).toEqual([])
})

describe('the query', () => {
  test('gives the filters of a list as its schema reads them', () => {
    const found = paths.at('tasks')[0]!
    const text =
      'contextId=c%201&status=TASK_STATE_WORKING&pageSize=7&pageToken=p&historyLength=0' +
      '&statusTimestampAfter=2026-01-02T03:04:05.678Z&includeArtifacts=true&unknown=x&tenant=t'
    expect(table.ListTasks.params.parse(paramsOf(found, query(text), undefined))).toEqual({
      contextId: 'c 1',
      status: 'TASK_STATE_WORKING',
      pageSize: 7,
      pageToken: 'p',
      historyLength: 0,
      statusTimestampAfter: new Date('2026-01-02T03:04:05.678Z'),
      includeArtifacts: true,
    })
  })

  test('is read in the other spelling of ProtoJSON as well', () => {
    expect(read('GET', 'tasks', 'page_size=3&include_artifacts=false')).toEqual([
      'ListTasks',
      { pageSize: '3', includeArtifacts: false },
    ])
  })

  test.each([
    ['pageSize=abc', 'pageSize'],
    ['pageSize=', 'pageSize'],
    ['pageSize=1.5', 'pageSize'],
    ['pageSize=0', 'pageSize'],
    ['pageSize=101', 'pageSize'],
    ['historyLength=-1', 'historyLength'],
    ['includeArtifacts=1', 'includeArtifacts'],
    ['includeArtifacts=True', 'includeArtifacts'],
    ['includeArtifacts=constructor', 'includeArtifacts'],
    ['status=working', 'status'],
    ['statusTimestampAfter=1700000000', 'statusTimestampAfter'],
  ])('%s is refused by the name of the field', (text, field) => {
    const read = table.ListTasks.params.safeParse(
      paramsOf(paths.at('tasks')[0]!, query(text), undefined),
    )
    expect(read.error?.issues.map(({ path }) => path.join('.'))).toEqual([field])
  })

  test('gives a field once', () => {
    expect(violationsOf(() => read('GET', 'tasks', 'pageSize=1&pageSize=2'))).toEqual([
      { field: 'pageSize', description: 'must be given once' },
    ])
  })

  test('is not asked for what stands in the path or comes in a body', () => {
    expect(read('GET', 'tasks/t-1', 'id=t-2')).toEqual(['GetTask', { id: 't-1' }])
    expect(read('POST', 'tasks/t-1:cancel', 'metadata=x')).toEqual(['CancelTask', { id: 't-1' }])
  })
})

describe('the body', () => {
  test('may be left out or null', () => {
    for (const body of [undefined, null, {}]) {
      expect(read('POST', 'tasks/t-1:cancel', '', body)).toEqual(['CancelTask', { id: 't-1' }])
    }
  })

  test('is not read by GET and DELETE', () => {
    expect(read('GET', 'tasks/t-1', '', { historyLength: 1 })).toEqual(['GetTask', { id: 't-1' }])
    expect(read('DELETE', `${C}/c-1`, '', { id: 'x' })).toEqual([
      'DeleteTaskPushNotificationConfig',
      { taskId: 't-1', id: 'c-1' },
    ])
  })

  test.each([[[]], ['text'], [1], [true]])('%j is no object', (body) => {
    expect(violationsOf(() => read('POST', 'message:send', '', body))).toEqual([
      { field: 'body', description: 'must be an object' },
    ])
  })

  test('may repeat what the path says, and say nothing else', () => {
    const url = 'https://example.com/'
    const expected = ['CreateTaskPushNotificationConfig', { taskId: 't-1', url }]
    for (const taskId of ['t-1', '', null]) {
      expect(read('POST', C, '', { taskId, url })).toEqual(expected)
    }
    const snake = read('POST', C, '', { task_id: 't-1', url })
    expect(table.CreateTaskPushNotificationConfig.params.parse(snake![1])).toEqual(expected[1])
    for (const body of [{ taskId: 't-2' }, { task_id: 't-2' }, { taskId: 7 }, { taskId: {} }]) {
      expect(violationsOf(() => read('POST', C, '', body))).toEqual([
        { field: 'taskId', description: 'must be the one in the path' },
      ])
    }
    expect(violationsOf(() => read('POST', 'tasks/t-1:cancel', '', { id: 't-2' }))).toEqual([
      { field: 'id', description: 'must be the one in the path' },
    ])
  })
})
