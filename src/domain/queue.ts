/** A queue: a named line of work, the public face of one agent, and the policy of its todos. */
import type { QueuePolicy } from './policy.ts'
import type { JsonObject } from './todo.ts'

/** An extension of A2A, as an agent's card declares it. */
export type AgentExtension = {
  uri: string
  description?: string
  /** Sends of a client that does not ask for it are refused. */
  required?: boolean
  params?: JsonObject
}

/** The public face of a queue as an A2A agent. Members beyond these are kept as they came. */
export interface QueueCard {
  name: string
  description: string
  version: string
  skills: JsonObject[]
  defaultInputModes?: string[]
  defaultOutputModes?: string[]
  provider?: { organization: string; url: string }
  documentationUrl?: string
  iconUrl?: string
  /** `extendedAgentCard` is off, the others on, unless said otherwise. */
  capabilities?: {
    streaming?: boolean
    pushNotifications?: boolean
    extendedAgentCard?: boolean
    /** Beside the server's own. */
    extensions?: AgentExtension[]
  }
  /** What an authenticated caller sees instead, member by member. */
  extended?: JsonObject
}

export interface Queue {
  name: string
  card: QueueCard
  policy: QueuePolicy
  createdAt: Date
  updatedAt: Date
}
