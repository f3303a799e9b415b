/**
 * Which parts of A2A this server serves: every pair of protocol version and binding, and its
 * optional abilities. Cards are made from this, so a card declares exactly what is answered.
 */
import type { QueueCard } from '../../domain/queue.ts'

interface ServedInterface {
  /** `Major.Minor`. */
  version: string
  binding: 'JSONRPC' | 'HTTP+JSON'
}

/**
 * The preferred one comes first. Clients that take a binding's first entry, whatever its version,
 * find 1.0 there.
 */
export const SERVED_INTERFACES: readonly ServedInterface[] = [
  { version: '1.0', binding: 'JSONRPC' },
  { version: '1.0', binding: 'HTTP+JSON' },
  { version: '0.3', binding: 'JSONRPC' },
  { version: '0.3', binding: 'HTTP+JSON' },
]

/** A queue can switch off either of these two. */
export const offersPush = ({ capabilities }: QueueCard): boolean =>
  capabilities?.pushNotifications !== false

export const offersStreaming = ({ capabilities }: QueueCard): boolean =>
  capabilities?.streaming !== false

/** A URL under the public address, which may or may not end in a slash. */
export const under = (publicUrl: string, path: string): string =>
  `${publicUrl.replace(/\/+$/, '')}${path}`

/**
 * Where clients reach a queue over a binding. JSON-RPC's URL ends in a slash, since clients resolve
 * the card against it; the base of HTTP+JSON does not, since clients append paths. So the two differ,
 * as they must: one URL may not have two transports (0.3 spec 5.6.4).
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

/** `supportedInterfaces` of the queue with this name. */
export const interfacesOf = (publicUrl: string, queue: string): AgentInterface[] =>
  SERVED_INTERFACES.map(({ version, binding }) => ({
    url: urlOf(binding, publicUrl, queue),
    protocolBinding: binding,
    protocolVersion: version,
  }))
