/**
 * The JSON-RPC 2.0 envelope: text into requests, and what a malformed one is answered with. Tells
 * apart what is no JSON (-32700), no request (-32600) and no params (-32602). An id is echoed with
 * its type or, where it could not be echoed faithfully, not at all.
 */
import type { z } from 'zod'
import type { Violation } from '../domain/errors.ts'
import { type RpcError, WireRefusal } from '../protocol/errors.ts'

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

/** Deeper than any honest document; far below what overflows a stack anywhere on the way. */
export const MAX_DEPTH = 100
/** An answer names this many faults and no more. */
const MAX_VIOLATIONS = 20

/** The JSON of a body. Refuses with kind `parse`; the parser's own words would quote the body. */
export const parseJson = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    throw new WireRefusal('parse')
  }
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** An integer that lost digits on the way in would be echoed as another one. */
const isEchoable = (id: unknown): id is RpcId =>
  id === null ||
  typeof id === 'string' ||
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
    return refuse('id must be a string, null or a number that a double can hold')
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

/** A place in a document, kept as links so that only a fault pays for its path. */
interface Place {
  value: object
  key: string | number
  parent: Place | null
  depth: number
}

const NUL = String.fromCharCode(0)
const isKeepable = (text: string): boolean => !text.includes(NUL) && text.isWellFormed()

const keysTo = (place: Place | null): (string | number)[] =>
  place === null || place.parent === null ? [] : [...keysTo(place.parent), place.key]

/**
 * The first thing in `params` that no store or answer could carry unchanged: nesting without
 * bound, half a surrogate pair, a NUL, a number beyond a double. Null when there is none. Runs
 * before any schema and is iterative, so that depth cannot hurt it.
 */
export const unkeepable = (params: unknown): Violation | null => {
  if (typeof params !== 'object' || params === null) return null
  const open: Place[] = [{ value: params, key: '', parent: null, depth: 1 }]
  for (let place = open.pop(); place; place = open.pop()) {
    if (place.depth > MAX_DEPTH) {
      // The path of a bomb would be as long as the bomb is deep.
      return { field: 'params', description: `is nested deeper than ${MAX_DEPTH} levels` }
    }
    const fault = unkeepableMember(place, open)
    if (fault) return fault
  }
  return null
}

const unkeepableMember = (place: Place, open: Place[]): Violation | null => {
  const isArray = Array.isArray(place.value)
  for (const [key, member] of Object.entries(place.value)) {
    const at = (description: string): Violation => ({
      field: pathText([...keysTo(place), isArray ? Number(key) : key]),
      description,
    })
    if (!isArray && !isKeepable(key)) {
      return {
        field: pathText(keysTo(place)),
        description: 'has a member name that is no well-formed text without NUL',
      }
    }
    if (typeof member === 'string' && !isKeepable(member)) {
      return at('must be well-formed text without NUL')
    }
    if (typeof member === 'number' && !Number.isFinite(member)) {
      return at('must be a number that a double can hold')
    }
    if (typeof member === 'object' && member !== null) {
      open.push({
        value: member,
        key: isArray ? Number(key) : key,
        parent: place,
        depth: place.depth + 1,
      })
    }
  }
  return null
}

/** `['message', 'parts', 0, 'text']` as `message.parts[0].text`; the root is `params`. */
export const pathText = (path: readonly PropertyKey[]): string => {
  if (path.length === 0) return 'params'
  return path.reduce<string>((text, key) => {
    if (typeof key === 'number') return `${text}[${key}]`
    return text === '' ? String(key) : `${text}.${String(key)}`
  }, '')
}

/** A schema's issues as fields at fault, at most 20. Members it does not know are named each. */
export const violationsOf = (issues: readonly z.core.$ZodIssue[]): Violation[] =>
  issues
    .flatMap((issue): Violation[] =>
      issue.code === 'unrecognized_keys'
        ? issue.keys.map((key) => ({
            field: pathText([...issue.path, key]),
            description: 'is not known here',
          }))
        : [{ field: pathText(issue.path), description: issue.message }],
    )
    .slice(0, MAX_VIOLATIONS)

export const resultBody = (id: RpcId, result: unknown) => ({ jsonrpc: '2.0' as const, id, result })
export const errorBody = (id: RpcId, error: RpcError) => ({ jsonrpc: '2.0' as const, id, error })
