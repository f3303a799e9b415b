/** A queue: todos under one name, the public face of one agent, and the policy for its todos. */
import type { QueuePolicy } from './policy.ts'
import type { JsonObject } from './todo.ts'

/** An extension of A2A, as an agent's card declares it. */
export type AgentExtension = {
  uri: string
  description?: string
  /** Sends from a client that does not ask for it are refused. */
  required?: boolean
  params?: JsonObject
}

/** The public face of a queue as an A2A agent. Other members are kept as they came. */
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
  /** By default `extendedAgentCard` is off and the others are on. */
  capabilities?: {
    streaming?: boolean
    pushNotifications?: boolean
    extendedAgentCard?: boolean
    /** These come beside the server's own. */
    extensions?: AgentExtension[]
  }
  /** Members that an authenticated caller sees in place of the public ones. */
  extended?: JsonObject
}

export interface Queue {
  name: string
  card: QueueCard
  policy: QueuePolicy
  createdAt: Date
  updatedAt: Date
}
