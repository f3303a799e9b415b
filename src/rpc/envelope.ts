/**
 * The JSON-RPC 2.0 envelope: text into requests, and what a malformed one is answered with. Tells
 * apart what is no JSON (-32700) and what is no request (-32600). An id is echoed with its type or,
 * where it could not be echoed faithfully, not at all.
 */

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

/** A request, or why it is none and the id its answer carries. */
export type Envelope = { request: RpcRequest } | { refusal: WireRefusal; id: RpcId }

/** The JSON of a body. Refuses with kind `parse`; the parser's own words would quote the body. */
export const parseJson = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    throw new WireRefusal('parse')
  }
}

/** Every event of a stream repeats it. */
const MAX_ID = 256

/** An integer that lost digits on the way in would be echoed as another one. */
const isEchoable = (id: unknown): id is RpcId =>
  id === null ||
  (typeof id === 'string' && id.length <= MAX_ID) ||
  (typeof id === 'number' &&
    Number.isFinite(id) &&
    (!Number.isInteger(id) || Number.isSafeInteger(id)))

/** Reads one request. Members beside the four are ignored. */
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
