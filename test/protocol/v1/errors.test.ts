// Field cases: the words of the protocol in errors.
import { describe, expect, test } from 'vitest'
import { invalid, REFUSALS, Refusal, type RefusalKind } from '../../../src/domain/errors.ts'
import { STATE_NAMES } from '../../../src/domain/lifecycle.ts'
import { v03Error, v03RestError } from '../../../src/protocol/v03/errors.ts'
import {
  A2A_ERRORS,
  API_ERRORS,
  a2aError,
  apiError,
  type Problem,
  type ProblemKind,
  problemOf,
  WIRE_REFUSALS,
  type WireKind,
  WireRefusal,
} from '../../../src/protocol/wire/errors.ts'
import { restError } from '../../../src/protocol/wire/rest-errors.ts'

const KINDS = [...Object.keys(REFUSALS), ...Object.keys(WIRE_REFUSALS)] as ProblemKind[]

const thrown = (kind: ProblemKind): Error =>
  kind in REFUSALS ? new Refusal(kind as RefusalKind) : new WireRefusal(kind as WireKind)

const a2a = (error: unknown) => a2aError(problemOf(error, 'r-1'))
const api = (error: unknown) => apiError(problemOf(error, 'r-1'))

/** Code, HTTP status on JSON-RPC, reason (spec 5.4; docs/protocol.md, "Errors"). */
const A2A: Record<ProblemKind, [number, number, string]> = {
  invalid: [-32602, 200, 'INVALID_PARAMS'],
  not_found: [-32001, 200, 'TASK_NOT_FOUND'],
  not_cancelable: [-32002, 200, 'TASK_NOT_CANCELABLE'],
  push_unsupported: [-32003, 200, 'PUSH_NOTIFICATION_NOT_SUPPORTED'],
  unsupported: [-32004, 200, 'UNSUPPORTED_OPERATION'],
  finished: [-32004, 200, 'UNSUPPORTED_OPERATION'],
  wrong_state: [-32004, 200, 'UNSUPPORTED_OPERATION'],
  stale_fence: [-32004, 200, 'UNSUPPORTED_OPERATION'],
  unread_messages: [-32004, 200, 'UNSUPPORTED_OPERATION'],
  content_type: [-32005, 200, 'CONTENT_TYPE_NOT_SUPPORTED'],
  media_type: [-32005, 415, 'CONTENT_TYPE_NOT_SUPPORTED'],
  no_extended_card: [-32007, 200, 'EXTENDED_AGENT_CARD_NOT_CONFIGURED'],
  extension: [-32008, 200, 'EXTENSION_SUPPORT_REQUIRED'],
  version: [-32009, 200, 'VERSION_NOT_SUPPORTED'],
  forbidden: [-32000, 403, 'PERMISSION_DENIED'],
  unauthenticated: [-32000, 401, 'UNAUTHENTICATED'],
  rate_limited: [-32000, 429, 'RATE_LIMITED'],
  limit: [-32000, 200, 'LIMIT_REACHED'],
  budget_exhausted: [-32000, 200, 'BUDGET_EXHAUSTED'],
  duplicate: [-32000, 200, 'DUPLICATE'],
  idempotency_conflict: [-32000, 200, 'IDEMPOTENCY_CONFLICT'],
  unavailable: [-32603, 503, 'UNAVAILABLE'],
  fault: [-32603, 200, 'INTERNAL'],
  parse: [-32700, 200, 'PARSE_ERROR'],
  envelope: [-32600, 200, 'INVALID_REQUEST'],
  too_large: [-32600, 413, 'REQUEST_TOO_LARGE'],
  too_late: [-32600, 408, 'REQUEST_TIMEOUT'],
  method: [-32601, 200, 'METHOD_NOT_FOUND'],
  verb: [-32601, 200, 'METHOD_NOT_ALLOWED'],
}

const API: Record<ProblemKind, [number, number, string]> = {
  invalid: [-32602, 200, 'invalid'],
  not_found: [-32012, 200, 'not_found'],
  not_cancelable: [-32010, 200, 'wrong_state'],
  push_unsupported: [-32602, 200, 'push_unsupported'],
  unsupported: [-32602, 200, 'unsupported'],
  finished: [-32010, 200, 'wrong_state'],
  wrong_state: [-32010, 200, 'wrong_state'],
  stale_fence: [-32010, 200, 'stale_fence'],
  unread_messages: [-32010, 200, 'unread_messages'],
  content_type: [-32602, 200, 'content_type'],
  media_type: [-32600, 415, 'media_type'],
  no_extended_card: [-32602, 200, 'no_extended_card'],
  version: [-32600, 200, 'version'],
  extension: [-32600, 200, 'extension'],
  forbidden: [-32011, 200, 'forbidden'],
  unauthenticated: [-32000, 401, 'unauthenticated'],
  rate_limited: [-32013, 429, 'rate_limited'],
  limit: [-32010, 200, 'limit'],
  budget_exhausted: [-32010, 200, 'budget_exhausted'],
  duplicate: [-32010, 200, 'duplicate'],
  idempotency_conflict: [-32010, 200, 'idempotency_conflict'],
  unavailable: [-32014, 503, 'unavailable'],
  fault: [-32603, 200, 'internal'],
  parse: [-32700, 200, 'parse'],
  envelope: [-32600, 200, 'envelope'],
  too_large: [-32600, 413, 'too_large'],
  too_late: [-32600, 408, 'too_late'],
  method: [-32601, 200, 'method'],
  verb: [-32601, 200, 'verb'],
}

test.each(KINDS)('%s has its code, status and typed details in A2A 1.0', (kind) => {
  const { status, error } = a2a(thrown(kind))
  const [code, expected, reason] = A2A[kind]
  expect({ code: error.code, status }).toEqual({ code, status: expected })
  const domain = code <= -32001 && code >= -32009 ? 'a2a-protocol.org' : 'switchboard'
  const info = { '@type': 'type.googleapis.com/google.rpc.ErrorInfo', reason, domain }
  expect((error.data as object[])[0]).toEqual(info)
  expect(Object.keys(error).sort()).toEqual(['code', 'data', 'message'])
})

test.each(KINDS)('%s has its code, status and reason in the agent and operator APIs', (kind) => {
  const { status, error } = api(thrown(kind))
  const [code, expected, reason] = API[kind]
  expect({ code: error.code, status }).toEqual({ code, status: expected })
  expect(error.data).toMatchObject({ reason })
})

test('the two tables have the same kinds', () => {
  expect(Object.keys(A2A_ERRORS).sort()).toEqual(Object.keys(API_ERRORS).sort())
})

describe('details', () => {
  test('name the fields at fault', () => {
    const fault = invalid('message.parts[0].text', 'must be text')
    const violation = { field: 'message.parts[0].text', description: 'must be text' }
    expect(a2a(fault).error).toEqual({
      code: -32602,
      message: 'Invalid parameters',
      data: [
        {
          '@type': 'type.googleapis.com/google.rpc.ErrorInfo',
          reason: 'INVALID_PARAMS',
          domain: 'switchboard',
        },
        {
          '@type': 'type.googleapis.com/google.rpc.BadRequest',
          fieldViolations: [violation],
        },
      ],
    })
    expect(api(fault).error.data).toEqual({ reason: 'invalid', violations: [violation] })
  })

  test('are objects that each say their type, of every kind and in every dialect', () => {
    for (const kind of KINDS) {
      const problem: Problem = {
        kind,
        violations: [{ field: 'f', description: 'd' }],
        state: 'done',
        error: 'e',
        limit: 5,
        refused: ['a', 'b'],
        retryAfterSeconds: 2,
        metadata: { k: 'v' },
        requestId: 'r-1',
      }
      const { details } = (restError(problem).body as { error: { details?: object[] } }).error
      const lists = [a2aError(problem).error.data, v03Error(problem).error.data, details ?? []]
      for (const each of lists.flat()) {
        expect(each).toMatchObject({
          '@type': expect.stringMatching(/^type\.googleapis\.com\/google\.rpc\.[A-Z][A-Za-z]+$/),
        })
      }
    }
  })

  test('speak of tasks and of their states by the names that the version has for them', () => {
    for (const kind of KINDS) {
      for (const state of STATE_NAMES) {
        const problem = problemOf(
          kind in REFUSALS
            ? new Refusal(kind as RefusalKind, { state })
            : new WireRefusal(kind as WireKind),
          'r-1',
        )
        const [v1, v03] = [a2aError(problem).error, v03Error(problem).error]
        const [rest, rest03] = [restError(problem).body, v03RestError(problem).body]
        const text = JSON.stringify([v1, v03, rest, rest03])
        expect(text).not.toMatch(/todo|"done"|"pending"|"claimed"/i)
        if (!(kind in REFUSALS) || kind === 'not_found') continue
        const name = JSON.stringify(v1).match(/"state":"(\w+)"/)?.[1]
        expect(name).toMatch(/^TASK_STATE_[A-Z_]+$/)
        expect(JSON.stringify(rest)).toContain(`"state":"${name}"`)
        const old = name!.slice('TASK_STATE_'.length).toLowerCase().replace('_', '-')
        expect(JSON.stringify(v03)).toContain(`"state":"${old}"`)
        const proto = name!.replace('CANCELED', 'CANCELLED')
        expect(JSON.stringify(rest03)).toContain(`"state":"${proto}"`)
      }
    }
  })

  test('hold only strings as metadata', () => {
    const { error } = a2a(new Refusal('limit', { limit: 3, state: 'done' }))
    expect(error.data).toMatchObject([{ metadata: { state: 'TASK_STATE_COMPLETED', limit: '3' } }])
  })

  test('say when to try again, in whole seconds', () => {
    const busy = new Refusal('rate_limited', { retryAfterSeconds: 1.2 })
    expect(a2a(busy)).toMatchObject({ status: 429, retryAfterSeconds: 2 })
    expect(JSON.stringify(a2a(busy).error.data)).toContain('"retryDelay":"2s"')
    expect(api(busy).error.data).toMatchObject({ retryAfterSeconds: 2 })
  })

  test('are the same bytes for what is not there and what is not yours', () => {
    const one = new Refusal('not_found', { id: 'a', state: 'done' }, 'Todo a is of another tenant')
    for (const worded of [a2a, api]) {
      expect(JSON.stringify(worded(one))).toBe(JSON.stringify(worded(new Refusal('not_found'))))
    }
  })

  test('hold the unread messages of a refused completion', () => {
    const message = { messageId: 'm', role: 'ROLE_USER' as const, parts: [{ text: 'wait' }] }
    const at = '2026-01-02T03:04:05.006Z'
    const owed = {
      seq: 4,
      message,
      receivedAt: new Date(at),
      answers: null,
      secret: false,
      sender: null,
      request: null,
    }
    expect(api(new Refusal('unread_messages', { unread: [owed] })).error.data).toEqual({
      reason: 'unread_messages',
      unread: [{ seq: 4, message, receivedAt: at }],
    })
  })
})

test.each([['a2a', a2a] as const, ['api', api] as const])(
  'a fault shows its request id and nothing of itself (%s)',
  (_, worded) => {
    const fault = Object.assign(new Error('select * from todo'), { host: 'db.internal' })
    for (const error of [fault, 'select', null, { code: -1, message: 'select' }]) {
      const answer = worded(error)
      expect(answer.error).toMatchObject({ code: -32603, message: 'Internal error' })
      expect(JSON.stringify(answer)).not.toMatch(/select|db\.internal/)
      expect(JSON.stringify(answer.error.data)).toContain('"requestId":"r-1"')
    }
  },
)
