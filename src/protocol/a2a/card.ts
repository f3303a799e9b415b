/**
 * A queue's Agent Card in A2A 1.0 (spec 4.4.1 and 8): what the operator wrote, and what only the
 * server knows (URLs, capabilities, how to authenticate). It contains only members of the protocol,
 * and no empty ones: implementations disagree on whether empty members are signed (spec 8.4.1), and
 * cannot disagree about a card that has none. card-forms.ts makes its other forms.
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

/** A type and not an interface, because only a type is assignable to JSON. */
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

/** What a card says if the operator said nothing. */
const DEFAULT_MODES = ['text/plain', 'application/json']
const DEFAULT_VERSION = '1.0.0'

/** The list names the verb that an endpoint needs, as it would name a role (OpenAPI 3.2, 4.8.30). */
const SECURITY = {
  securitySchemes: { bearer: { httpAuthSecurityScheme: { scheme: 'Bearer' } } },
  securityRequirements: [{ schemes: { bearer: { list: ['send'] } } }],
}

const textIn = (value: Json | undefined): string | undefined =>
  typeof value === 'string' && value !== '' ? value : undefined

const textsIn = (value: Json | undefined): string[] | undefined => {
  const found = Array.isArray(value) ? value.filter((item) => textIn(item) !== undefined) : []
  return found.length > 0 ? (found as string[]) : undefined
}

/** A complete skill, even if parts were left out or stored before the operator API checked them. */
const fromSkill = (skill: JsonObject, index: number): AgentSkill => {
  const id = textIn(skill.id) ?? `skill-${index + 1}`
  const name = textIn(skill.name) ?? id
  return defined<AgentSkill>({
    id,
    name,
    description: textIn(skill.description) ?? name,
    tags: textsIn(skill.tags) ?? [id],
    examples: textsIn(skill.examples),
    inputModes: textsIn(skill.inputModes),
    outputModes: textsIn(skill.outputModes),
  })
}

const fromSkills = (skills: Json | undefined): AgentSkill[] | undefined => {
  const found = Array.isArray(skills) ? skills.filter(isObject).map(fromSkill) : []
  return found.length > 0 ? found : undefined
}

const fromProvider = (provider: Json | undefined): AgentCard['provider'] => {
  if (!isObject(provider)) return undefined
  const organization = textIn(provider.organization)
  const url = textIn(provider.url)
  return organization && url ? { organization, url } : undefined
}

/** What an operator may say about an agent, and nothing about how to reach it. */
const declaredIn = (document: JsonObject) =>
  defined<Partial<Omit<AgentCard, 'capabilities' | keyof typeof SECURITY>>>({
    name: textIn(document.name),
    description: textIn(document.description),
    version: textIn(document.version),
    provider: fromProvider(document.provider),
    documentationUrl: textIn(document.documentationUrl),
    iconUrl: textIn(document.iconUrl),
    defaultInputModes: textsIn(document.defaultInputModes),
    defaultOutputModes: textsIn(document.defaultOutputModes),
    skills: fromSkills(document.skills),
  })

/** The proto's defaults are left out: not required, no params. */
const fromExtension = ({ uri, description, required, params }: AgentExtension): AgentExtension =>
  defined<AgentExtension>({
    uri,
    description: textIn(description),
    required: required === true || undefined,
    params: params && Object.keys(params).length > 0 ? params : undefined,
  })

/** The media types that some skill of the agent accepts; null if the card declares none. */
export const inputModesOf = (card: QueueCard): readonly string[] | null => {
  if (!card.defaultInputModes?.length) return null
  const ofSkills = card.skills.flatMap(({ inputModes }) => textsIn(inputModes) ?? [])
  return [...card.defaultInputModes, ...ofSkills]
}

/** The public card. */
export const agentCard = (queue: Queue, publicUrl: string): AgentCard => {
  const { card } = queue
  const declared = declaredIn(card as unknown as JsonObject)
  const { name = queue.name, description = name, version = DEFAULT_VERSION, ...rest } = declared
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
    // A card must list a skill (spec 5.7), so an agent without any gets one that names its purpose.
    skills: [{ id: queue.name, name, description, tags: [queue.name] }],
    ...rest,
  }
}

/**
 * What an authenticated caller sees: the public card with the members of `extended` in place of its
 * own. Refuses: unsupported if the card does not declare an extended one, no_extended_card if it
 * does and there is none (spec 3.3.4).
 */
export const extendedCard = (queue: Queue, card: AgentCard): AgentCard => {
  const { capabilities, extended } = queue.card
  if (capabilities?.extendedAgentCard !== true) throw new Refusal('unsupported')
  if (!extended) throw new Refusal('no_extended_card')
  return { ...card, ...declaredIn(extended) }
}
