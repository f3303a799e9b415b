/**
 * The Agent Card of a queue in A2A 1.0 (spec 4.4.1 and 8): what the operator wrote, and what only
 * the server knows (URLs, capabilities, how to authenticate). Only members of the protocol leave,
 * and none that is empty: implementations disagree on whether empty ones are signed (spec 8.4.1),
 * and so cannot over a card that has none. The other forms of it are made in card-forms.ts.
 */

import { defined } from '../../base/defined.ts'
import { Refusal } from '../../domain/errors.ts'
import type { AgentExtension, Queue, QueueCard } from '../../domain/queue.ts'
import type { Json, JsonObject } from '../../domain/todo.ts'
import { isObject } from '../json/object.ts'
import { declaredExtensions } from './extensions.ts'
import { type AgentInterface, interfacesOf, offersPush, offersStreaming } from './interfaces.ts'

type AgentSkill = {
  id: string
  name: string
  description: string
  tags: string[]
  examples?: string[]
  inputModes?: string[]
  outputModes?: string[]
}

/** A type, not an interface: as such it is JSON, too. */
export type AgentCard = {
  name: string
  description: string
  version: string
  supportedInterfaces: AgentInterface[]
  provider?: { organization: string; url: string }
  documentationUrl?: string
  iconUrl?: string
  capabilities: {
    streaming: boolean
    pushNotifications: boolean
    extendedAgentCard: boolean
    extensions: AgentExtension[]
  }
  securitySchemes: Record<string, { httpAuthSecurityScheme: { scheme: string } }>
  securityRequirements: { schemes: Record<string, { list: string[] }> }[]
  defaultInputModes: string[]
  defaultOutputModes: string[]
  skills: AgentSkill[]
  signatures?: { protected: string; signature: string }[]
}

/** What a card says where the operator said nothing. */
const DEFAULT_MODES = ['text/plain', 'application/json']
const DEFAULT_VERSION = '1.0.0'

/** The list names the verb that an endpoint needs, as roles are named (OpenAPI 3.2, 4.8.30). */
const SECURITY = {
  securitySchemes: { bearer: { httpAuthSecurityScheme: { scheme: 'Bearer' } } },
  securityRequirements: [{ schemes: { bearer: { list: ['send'] } } }],
}

const word = (value: Json | undefined): string | undefined =>
  typeof value === 'string' && value !== '' ? value : undefined

const words = (value: Json | undefined): string[] | undefined => {
  const found = Array.isArray(value) ? value.filter((item) => word(item) !== undefined) : []
  return found.length > 0 ? (found as string[]) : undefined
}

/** Whole, whatever was left out, or stored before the operator API looked this closely. */
const fromSkill = (skill: JsonObject, index: number): AgentSkill => {
  const id = word(skill.id) ?? `skill-${index + 1}`
  const name = word(skill.name) ?? id
  return defined<AgentSkill>({
    id,
    name,
    description: word(skill.description) ?? name,
    tags: words(skill.tags) ?? [id],
    examples: words(skill.examples),
    inputModes: words(skill.inputModes),
    outputModes: words(skill.outputModes),
  })
}

const fromSkills = (skills: Json | undefined): AgentSkill[] | undefined => {
  const found = Array.isArray(skills) ? skills.filter(isObject).map(fromSkill) : []
  return found.length > 0 ? found : undefined
}

const fromProvider = (provider: Json | undefined): AgentCard['provider'] => {
  if (!isObject(provider)) return undefined
  const organization = word(provider.organization)
  const url = word(provider.url)
  return organization && url ? { organization, url } : undefined
}

/** What an operator may say about an agent, and nothing about how to reach it. */
const saidIn = (document: JsonObject) =>
  defined<Partial<Omit<AgentCard, 'capabilities' | keyof typeof SECURITY>>>({
    name: word(document.name),
    description: word(document.description),
    version: word(document.version),
    provider: fromProvider(document.provider),
    documentationUrl: word(document.documentationUrl),
    iconUrl: word(document.iconUrl),
    defaultInputModes: words(document.defaultInputModes),
    defaultOutputModes: words(document.defaultOutputModes),
    skills: fromSkills(document.skills),
  })

/** Proto's defaults are left out: not required, no params. */
const fromExtension = ({ uri, description, required, params }: AgentExtension): AgentExtension =>
  defined<AgentExtension>({
    uri,
    description: word(description),
    required: required === true || undefined,
    params: params && Object.keys(params).length > 0 ? params : undefined,
  })

/** Media types that some skill of the agent takes; null where the card declares none. */
export const inputModesOf = (card: QueueCard): readonly string[] | null => {
  if (!card.defaultInputModes?.length) return null
  const ofSkills = card.skills.flatMap(({ inputModes }) => words(inputModes) ?? [])
  return [...card.defaultInputModes, ...ofSkills]
}

/** The public card. */
export const agentCard = (queue: Queue, publicUrl: string): AgentCard => {
  const { card } = queue
  const said = saidIn(card as unknown as JsonObject)
  const { name = queue.name, description = name, version = DEFAULT_VERSION, ...rest } = said
  return {
    name,
    description,
    version,
    supportedInterfaces: interfacesOf(publicUrl, queue.name),
    capabilities: {
      streaming: offersStreaming(card),
      pushNotifications: offersPush(card),
      extendedAgentCard: card.capabilities?.extendedAgentCard === true,
      extensions: declaredExtensions(card).map(fromExtension),
    },
    ...SECURITY,
    defaultInputModes: DEFAULT_MODES,
    defaultOutputModes: DEFAULT_MODES,
    // A card must show a skill (spec 5.7): one that lists none says what the agent is for.
    skills: [{ id: queue.name, name, description, tags: [queue.name] }],
    ...rest,
  }
}

/**
 * What an authenticated caller sees: the public card with the members of `extended` in place of
 * its own. Refuses: unsupported where the card does not declare one, no_extended_card where it
 * declares one that is not there (spec 3.3.4).
 */
export const extendedCard = (queue: Queue, card: AgentCard): AgentCard => {
  const { capabilities, extended } = queue.card
  if (capabilities?.extendedAgentCard !== true) throw new Refusal('unsupported')
  if (!extended) throw new Refusal('no_extended_card')
  return { ...card, ...saidIn(extended) }
}
