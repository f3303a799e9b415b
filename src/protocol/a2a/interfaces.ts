/**
 * What this server serves of A2A: every pair of protocol version and binding, and what it can do
 * at all. Cards are made from it, so a card declares what is answered and nothing else.
 */
import type { QueueCard } from '../../domain/queue.ts'

interface ServedInterface {
  /** `Major.Minor`. */
  version: string
  binding: 'JSONRPC' | 'HTTP+JSON'
}

/**
 * The preferred first. Readers that take the first entry of a binding, whatever its version, find
 * 1.0 there.
 */
export const SERVED_INTERFACES: readonly ServedInterface[] = [
  { version: '1.0', binding: 'JSONRPC' },
  { version: '1.0', binding: 'HTTP+JSON' },
  { version: '0.3', binding: 'JSONRPC' },
  { version: '0.3', binding: 'HTTP+JSON' },
]

/** A queue can switch either off. */
export const offersPush = ({ capabilities }: QueueCard): boolean =>
  capabilities?.pushNotifications !== false

export const offersStreaming = ({ capabilities }: QueueCard): boolean =>
  capabilities?.streaming !== false

/** A place under the public address, which may end in a slash or not. */
export const under = (publicUrl: string, path: string): string =>
  `${publicUrl.replace(/\/+$/, '')}${path}`

/**
 * Where a queue is reached over a binding. JSON-RPC has a slash at its end, since clients resolve
 * the card against it; the base of HTTP+JSON has none, since clients append paths. That also tells
 * the two apart where one URL may not have two transports (0.3 spec 5.6.4).
 */
const urlOf = (binding: ServedInterface['binding'], publicUrl: string, queue: string): string => {
  const base = under(publicUrl, `/a2a/${encodeURIComponent(queue)}`)
  return binding === 'JSONRPC' ? `${base}/` : base
}

export type AgentInterface = {
  url: string
  protocolBinding: string
  protocolVersion: string
}

/** `supportedInterfaces` of a queue, by its name. */
export const interfacesOf = (publicUrl: string, queue: string): AgentInterface[] =>
  SERVED_INTERFACES.map(({ version, binding }) => ({
    url: urlOf(binding, publicUrl, queue),
    protocolBinding: binding,
    protocolVersion: version,
  }))
