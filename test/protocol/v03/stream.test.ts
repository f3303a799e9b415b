/** Where a stream of 0.3 ends, and what it says is final. */
import { describe, expect, test } from 'vitest'
import type { StreamResponse, Task } from '../../../src/protocol/v1/wire.ts'
import { toStream } from '../../../src/protocol/v03/stream.ts'
import type { StreamItem } from '../../../src/protocol/wire/method.ts'

type State = Task['status']['state']

const ids = { taskId: 't', contextId: 'c' }
const at = (second: number) => `2026-03-01T08:00:0${second}.000Z`
const update = (id: number, state: State): StreamItem<StreamResponse> => ({
  id: String(id),
  result: { statusUpdate: { ...ids, status: { state, timestamp: at(id) } } },
})
const task = (state: State, metadata?: Task['metadata']): StreamItem<StreamResponse> => ({
  id: '1',
  result: {
    task: {
      id: 't',
      contextId: 'c',
      status: { state, timestamp: at(1) },
      ...(metadata && { metadata }),
    },
  },
})
const chunk: StreamItem<StreamResponse> = {
  id: '2',
  result: { artifactUpdate: { ...ids, artifact: { artifactId: 'a', parts: [] } } },
}

/** Each event as its id, what it is, and whether it is the last one. */
const told = async (items: StreamItem<StreamResponse>[], now?: number): Promise<string[]> => {
  let open = true
  async function* source() {
    try {
      yield* items
    } finally {
      open = false
    }
  }
  const shown: string[] = []
  const status = now === undefined ? undefined : ({ state: 'working', timestamp: at(now) } as const)
  for await (const { id, result } of toStream(source(), status)) {
    const state = 'status' in result ? ` ${result.status.state}` : ''
    const final = result.kind === 'status-update' && result.final ? ' final' : ''
    shown.push(`${id} ${result.kind}${state}${final}`)
  }
  expect(open).toBe(false)
  return shown
}

const WORKING = 'TASK_STATE_WORKING'
const ASKS = 'TASK_STATE_INPUT_REQUIRED'

describe('a stream', () => {
  test.each([
    [ASKS, 'input-required'],
    ['TASK_STATE_AUTH_REQUIRED', 'auth-required'],
    ['TASK_STATE_COMPLETED', 'completed'],
    ['TASK_STATE_FAILED', 'failed'],
    ['TASK_STATE_CANCELED', 'canceled'],
    ['TASK_STATE_REJECTED', 'rejected'],
  ] as const)('ends with %s, and with nothing else', async (state, name) => {
    const items = [task('TASK_STATE_SUBMITTED'), update(2, WORKING), chunk, update(4, state)]
    expect(await told([...items, update(5, WORKING)])).toEqual([
      '1 task submitted',
      '2 status-update working',
      '2 artifact-update',
      `4 status-update ${name} final`,
    ])
  })

  test.each([ASKS, 'TASK_STATE_REJECTED'] as const)(
    'that begins with a task at rest (%s) says so and ends',
    async (state) => {
      const [first, last, ...more] = await told([task(state), update(2, WORKING)])
      expect([first, last, more]).toEqual([
        expect.stringMatching(/^1 task /),
        expect.stringMatching(/^1 status-update .* final$/),
        [],
      ])
    },
  )

  test('goes on where its message has answered the question that the task still shows', async () => {
    const deferred = { 'urn:switchboard:receipt': { outcome: 'deferred' } }
    expect(await told([task(ASKS, deferred), update(2, WORKING), update(3, ASKS)])).toEqual([
      '1 task input-required',
      '2 status-update working',
      '3 status-update input-required final',
    ])
  })

  test('that is resumed passes over questions that were answered meanwhile', async () => {
    const missed = [update(2, ASKS), update(3, WORKING), update(4, ASKS), update(5, WORKING)]
    expect(await told(missed, 3)).toEqual([
      '2 status-update input-required',
      '3 status-update working',
      '4 status-update input-required final',
    ])
  })
})
