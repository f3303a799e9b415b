/**
 * The JSON-RPC 2.0 envelope: how text becomes requests, and how a malformed one is answered. What is
 * not JSON (-32700) differs from what is not a request (-32600). An id is echoed with its type, or
 * not at all if it could not be echoed faithfully.
 */

import { parseExact } from '../base/exact-json.ts'
import { isObject } from '../protocol/json/object.ts'
import { WireRefusal } from '../protocol/wire/errors.ts'

export type RpcId = string | number | null

export interface RpcRequest {
  jsonrpc: '2.0'
  method: string
  params?: unknown
  /** Absent: a notification. */
  id?: RpcId
}

/** A request, or why it is none and which id the answer carries. */
export type Envelope = { request: RpcRequest } | { refusal: WireRefusal; id: RpcId }

/** The JSON of a body. Refuses with kind `parse`; the parser's own message would quote the body. */
export const parseJson = (text: string): unknown => {
  try {
    return parseExact(text)
  } catch {
    throw new WireRefusal('parse')
  }
}

/** Every event of a stream repeats the id. */
const MAX_ID = 256

/** An integer that lost digits when it was parsed would be echoed as another one. */
const isEchoable = (id: unknown): id is RpcId =>
  id === null ||
  (typeof id === 'string' && id.length <= MAX_ID) ||
  (typeof id === 'number' &&
    Number.isFinite(id) &&
    (!Number.isInteger(id) || Number.isSafeInteger(id)))

/** Reads one request. Members other than the four are ignored. */
export const readEnvelope = (value: unknown): Envelope => {
  const refuse = (why: string, id: RpcId = null): Envelope => ({
    refusal: new WireRefusal('envelope', `Request payload validation error: ${why}`),
    id,
  })
  if (!isObject(value)) return refuse('a request must be an object')
  const { jsonrpc, id, method, params } = value
  if (id !== undefined && !isEchoable(id)) {
    return refuse(
      `id must be a string of at most ${MAX_ID} characters, null or a number that a double can hold`,
    )
  }
  if (jsonrpc !== '2.0') return refuse('jsonrpc must be "2.0"', id)
  if (typeof method !== 'string' || method === '') {
    return refuse('method must be a non-empty string', id)
  }
  return {
    request: {
      jsonrpc,
      method,
      ...(params !== undefined && { params }),
      ...(id !== undefined && { id }),
    },
  }
}
