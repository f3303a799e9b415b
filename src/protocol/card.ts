/**
 * The Agent Card of a queue (A2A 1.0 spec 4.4.1 and 8): what the operator wrote, and what only the
 * server knows (URLs, capabilities, how to authenticate). Only members of the protocol leave.
 */
import { createHash } from 'node:crypto'
import { Refusal } from '../domain/errors.ts'
import type { JsonObject } from '../domain/todo.ts'
import type { Queue, QueueCard } from '../service/contract.ts'

/** What a card says where the operator said nothing. */
const DEFAULT_MODES = ['text/plain', 'application/json']

const SECURITY = {
  securitySchemes: { bearer: { httpAuthSecurityScheme: { scheme: 'Bearer' } } },
  securityRequirements: [{ schemes: { bearer: { list: [] } } }],
}

const SKILL_MEMBERS = [
  'id',
  'name',
  'description',
  'tags',
  'examples',
  'inputModes',
  'outputModes',
] as const

/** What the extended card may say otherwise; how the agent is reached is not among it. */
const EXTENDABLE = [
  'name',
  'description',
  'version',
  'provider',
  'documentationUrl',
  'iconUrl',
  'skills',
  'defaultInputModes',
  'defaultOutputModes',
] as const

const pick = (from: object, members: readonly string[]): JsonObject =>
  Object.fromEntries(
    Object.entries(from).filter(
      ([name, value]) => members.includes(name) && value !== undefined && value !== null,
    ),
  )

const fromSkill = (skill: JsonObject): JsonObject => ({ tags: [], ...pick(skill, SKILL_MEMBERS) })

/** The URL of a queue's JSON-RPC interface. With its slash: clients resolve the card against it. */
const interfaceUrl = (publicUrl: string, queue: string): string =>
  `${publicUrl.replace(/\/+$/, '')}/a2a/${encodeURIComponent(queue)}/`

/** Media types that some skill of the agent takes; null where the card declares none. */
export const inputModesOf = (card: QueueCard): readonly string[] | null => {
  if (!card.defaultInputModes) return null
  const ofSkills = card.skills.flatMap(({ inputModes }) =>
    Array.isArray(inputModes) ? inputModes.filter((mode) => typeof mode === 'string') : [],
  )
  return [...card.defaultInputModes, ...ofSkills]
}

/** The public card. `versions` are the served ones (`Major.Minor`), the preferred first. */
export const agentCard = (
  { name, card }: Queue,
  { publicUrl, versions }: { publicUrl: string; versions: readonly string[] },
): JsonObject => {
  const url = interfaceUrl(publicUrl, name)
  return {
    ...(pick(card, ['name', 'description', 'version']) as JsonObject),
    supportedInterfaces: versions.map((protocolVersion) => ({
      url,
      protocolBinding: 'JSONRPC',
      protocolVersion,
    })),
    ...pick(card, ['provider', 'documentationUrl', 'iconUrl']),
    capabilities: {
      streaming: card.capabilities?.streaming !== false,
      pushNotifications: card.capabilities?.pushNotifications !== false,
      extendedAgentCard: card.capabilities?.extendedAgentCard === true,
    },
    ...SECURITY,
    defaultInputModes: card.defaultInputModes ?? DEFAULT_MODES,
    defaultOutputModes: card.defaultOutputModes ?? DEFAULT_MODES,
    skills: card.skills.map(fromSkill),
  }
}

/**
 * What an authenticated caller sees: the public card with the members of `extended` in place of
 * its own. Refuses: unsupported where the card does not declare one, no_extended_card where it
 * declares one that is not there (spec 3.3.4).
 */
export const extendedCard = (queue: Queue, card: JsonObject): JsonObject => {
  const { capabilities, extended } = queue.card
  if (capabilities?.extendedAgentCard !== true) throw new Refusal('unsupported')
  if (!extended) throw new Refusal('no_extended_card')
  const { skills, ...rest } = pick(extended, EXTENDABLE)
  const isSkill = (skill: unknown): skill is JsonObject =>
    typeof skill === 'object' && skill !== null && !Array.isArray(skill)
  return {
    ...card,
    ...rest,
    ...(Array.isArray(skills) && { skills: skills.filter(isSkill).map(fromSkill) }),
  }
}

/** A strong entity tag of these bytes. */
export const etagOf = (body: string): string =>
  `"${createHash('sha256').update(body).digest('base64url').slice(0, 27)}"`

/** Whether `If-None-Match` (its raw value) names this tag (RFC 9110 13.1.2, weak comparison). */
export const isKnown = (ifNoneMatch: string | undefined, etag: string): boolean =>
  (ifNoneMatch ?? '')
    .split(',')
    .map((tag) => tag.trim().replace(/^W\//, ''))
    .some((tag) => tag === '*' || tag === etag)
