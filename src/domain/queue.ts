/** A queue: a named line of work, the public face of one agent, and the policy of its todos. */
import type { QueuePolicy } from './policy.ts'
import type { JsonObject } from './todo.ts'

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
  /** `streaming` and `pushNotifications` are on, `extendedAgentCard` off, unless said otherwise. */
  capabilities?: { streaming?: boolean; pushNotifications?: boolean; extendedAgentCard?: boolean }
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
