/** Every kind of problem in the words of the HTTP+JSON binding of A2A 1.0. */
import { describe, expect, test } from 'vitest'
import { invalid, REFUSALS, Refusal, type RefusalKind } from '../../src/domain/errors.ts'
import {
  type ProblemKind,
  problemOf,
  WIRE_REFUSALS,
  type WireKind,
  WireRefusal,
} from '../../src/protocol/wire/errors.ts'
import { restError } from '../../src/protocol/wire/rest-errors.ts'

const KINDS = [...Object.keys(REFUSALS), ...Object.keys(WIRE_REFUSALS)] as ProblemKind[]

const thrown = (kind: ProblemKind): Error =>
  kind in REFUSALS ? new Refusal(kind as RefusalKind) : new WireRefusal(kind as WireKind)

interface Body {
  error: { code: number; status: string; message: string; details?: Record<string, unknown>[] }
}
const worded = (error: unknown) => {
  const { body, ...rest } = restError(problemOf(error, 'r-1'))
  return { ...rest, ...(body as Body) }
}

/** HTTP status and gRPC status name of each kind (spec 5.4, 11.6). */
const EXPECTED: Partial<Record<ProblemKind, [number, string]>> = {
  invalid: [400, 'INVALID_ARGUMENT'],
  parse: [400, 'INVALID_ARGUMENT'],
  envelope: [400, 'INVALID_ARGUMENT'],
  not_found: [404, 'NOT_FOUND'],
  not_cancelable: [400, 'FAILED_PRECONDITION'],
  push_unsupported: [400, 'FAILED_PRECONDITION'],
  unsupported: [400, 'FAILED_PRECONDITION'],
  finished: [400, 'FAILED_PRECONDITION'],
  content_type: [400, 'INVALID_ARGUMENT'],
  media_type: [415, 'INVALID_ARGUMENT'],
  no_extended_card: [400, 'FAILED_PRECONDITION'],
  version: [400, 'FAILED_PRECONDITION'],
  unauthenticated: [401, 'UNAUTHENTICATED'],
  forbidden: [403, 'PERMISSION_DENIED'],
  rate_limited: [429, 'RESOURCE_EXHAUSTED'],
  unavailable: [503, 'UNAVAILABLE'],
  fault: [500, 'INTERNAL'],
  method: [404, 'NOT_FOUND'],
  verb: [405, 'UNIMPLEMENTED'],
}

test.each(KINDS)('%s is an error of AIP-193 with typed details', (kind) => {
  const { status, error, code } = worded(thrown(kind))
  expect(error.code).toBe(status)
  expect(code).toBeLessThan(0)
  expect(error.status).not.toBe('UNKNOWN')
  expect(error.message).not.toBe('')
  if (EXPECTED[kind]) expect([status, error.status]).toEqual(EXPECTED[kind])
  if (kind === 'method' || kind === 'verb') expect(error.details).toBeUndefined()
  else expect(error.details?.[0]?.['@type']).toBe('type.googleapis.com/google.rpc.ErrorInfo')
})

describe('details', () => {
  test('name the error of A2A, and what it is about', () => {
    expect(worded(new Refusal('finished', { state: 'done' })).error.details).toEqual([
      {
        '@type': 'type.googleapis.com/google.rpc.ErrorInfo',
        reason: 'UNSUPPORTED_OPERATION',
        domain: 'a2a-protocol.org',
        metadata: { state: 'TASK_STATE_COMPLETED' },
      },
    ])
  })

  test('name the fields at fault', () => {
    expect(worded(invalid('pageSize', 'must be at most 100')).error.details?.[1]).toEqual({
      '@type': 'type.googleapis.com/google.rpc.BadRequest',
      fieldViolations: [{ field: 'pageSize', description: 'must be at most 100' }],
    })
  })

  test('say when to come again, and what to look for in the log', () => {
    const { retryAfterSeconds, error } = worded(new Refusal('unavailable'))
    expect(error.details?.slice(1)).toEqual([
      {
        '@type': 'type.googleapis.com/google.rpc.RetryInfo',
        retryDelay: `${retryAfterSeconds}s`,
      },
      { '@type': 'type.googleapis.com/google.rpc.RequestInfo', requestId: 'r-1' },
    ])
  })

  test('tell nothing of a fault', () => {
    const { error } = worded(new Error('select secret'))
    expect(JSON.stringify(error)).not.toContain('secret')
  })
})
