// Whatever is sent to a method before 1.0 is served or refused: no fault, no hang, nothing half done.
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { startApp } from '../../support/app.ts'
import { type Answer, post } from '../../support/clients/actors.ts'
import { textMessage03, v01Client, v03Client } from '../../support/clients/old-clients.ts'
import { rowCounts } from '../../support/steps.ts'
import { runs } from '../../support/tier.ts'

// A send that waits is answered soon, for nobody works here.
const app = await startApp({ maxWaitMs: 5 })
const { client } = await app.queue('desk', { contexts: 'parallel' })
const v03 = v03Client(app.url, 'desk', client.token)
const v01 = v01Client(app.url, 'desk', client.token)
const { id: live } = await v03.submit('to be named')

const config = { url: 'https://h.example', authentication: { schemes: ['Bearer'] } }
const sends = {
  message: textMessage03('x', {
    parts: [
      { kind: 'text', text: 'x' },
      { kind: 'file', file: { bytes: 'aGk=', name: 'a', mimeType: 'text/plain' } },
      { kind: 'data', data: { a: 1 }, metadata: { k: 1 } },
    ],
    contextId: 'c',
    extensions: ['urn:x'],
    referenceTaskIds: [live],
  }),
  configuration: { blocking: false, historyLength: 1, acceptedOutputModes: ['text/plain'] },
  metadata: { 'urn:switchboard:timeouts': { heartbeat: 600 } },
}
const GOOD: Record<string, Answer> = {
  'message/send': sends,
  'tasks/get': { id: live, historyLength: 1, metadata: {} },
  'tasks/cancel': { id: 'none', metadata: {} },
  'tasks/pushNotificationConfig/set': { taskId: live, pushNotificationConfig: config },
  'tasks/pushNotificationConfig/get': { id: live, pushNotificationConfigId: 'c' },
  'tasks/pushNotificationConfig/list': { id: live },
  'tasks/pushNotificationConfig/delete': { id: live, pushNotificationConfigId: 'c' },
  'agent/getAuthenticatedExtendedCard': {},
  'tasks/send': v01.params('mine', 'x', { sessionId: 's', historyLength: 1, metadata: { k: 1 } }),
  'tasks/pushNotification/set': { id: live, pushNotificationConfig: config },
  'tasks/pushNotification/get': { id: live },
}

const odd = fc.oneof(
  fc.jsonValue({ maxDepth: 2 }),
  fc.constantFrom('', '\u0000', '\ud800', 'x'.repeat(300), -1, 1e300, 2 ** 53, null, [], {}, [[]]),
  fc.constantFrom('user', 'agent', 'text', 'file', 'data', 'message', live),
)

const pathsIn = (value: Answer, path: string[] = []): string[][] =>
  typeof value === 'object' && value !== null
    ? [path, ...Object.entries(value).flatMap(([key, item]) => pathsIn(item, [...path, key]))]
    : [path]

const replaced = (value: Answer, [key, ...rest]: string[], by: unknown): Answer => {
  if (key === undefined) return by
  const copy = Array.isArray(value) ? [...value] : { ...value }
  copy[key as keyof typeof copy] = replaced(value[key], rest, by)
  return copy
}

/** Good params with one or two places taken by something else. */
const call = fc.constantFrom(...Object.keys(GOOD)).chain((method) =>
  fc
    .array(fc.tuple(fc.constantFrom(...pathsIn(GOOD[method])), odd), { minLength: 1, maxLength: 2 })
    .map((changes) => ({
      method,
      params: changes.reduce((params, [path, by]) => {
        try {
          return replaced(params, path, by)
        } catch {
          return by
        }
      }, GOOD[method]),
    })),
)

test('any params are served or refused by name, and a refused send leaves nothing behind', async () => {
  await fc.assert(
    fc.asyncProperty(call, async ({ method, params }) => {
      const before = await rowCounts(app)
      const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params })
      const answer = await post(v03.endpoint, body, { token: client.token })
      expect(answer.status).toBe(200)
      const { error } = answer.body
      if (!error) return
      expect([-32602, -32001, -32002, -32003, -32004, -32005, -32007]).toContain(error.code)
      expect(error.data[0]['@type']).toBe('type.googleapis.com/google.rpc.ErrorInfo')
      expect(await rowCounts(app)).toEqual(before)
    }),
    { numRuns: runs(30, 300) },
  )
})
