/**
 * The forms in which one card is published. A client that fetches the card often does not say
 * which version of A2A it speaks; it gets the hybrid form, the 1.0 card together with the members
 * that a 0.3 client looks for. All forms are pure translations of the 1.0 card.
 */
import type { AgentCard } from './card.ts'

export type CardForm = 'hybrid' | '1.0' | '0.3'

/** With a patch number, as 0.3's own schema writes it; in 1.0 a version has none. */
const V03 = '0.3.0'

const v03Schemes = ({ securitySchemes }: AgentCard) =>
  Object.fromEntries(
    Object.entries(securitySchemes).map(([name, { httpAuthSecurityScheme }]) => [
      name,
      { type: 'http', scheme: httpAuthSecurityScheme.scheme.toLowerCase() },
    ]),
  )

/** The lists stay empty: before OpenAPI 3.1 they may hold OAuth scopes and nothing else. */
const v03Security = ({ securityRequirements }: AgentCard) =>
  securityRequirements.map(({ schemes }) =>
    Object.fromEntries(Object.keys(schemes).map((name) => [name, [] as string[]])),
  )

/** A 1.0 card, public or extended, in 0.3's form (0.3 spec 5.5), with 0.3's interfaces only. */
export const toV03Card = (card: AgentCard) => {
  const interfaces = card.supportedInterfaces
    .filter(({ protocolVersion }) => protocolVersion === '0.3')
    .map(({ url, protocolBinding }) => ({ url, transport: protocolBinding }))
  const main = interfaces.find(({ transport }) => transport === 'JSONRPC') ?? interfaces[0]!
  const { provider, documentationUrl, iconUrl } = card
  const { streaming, pushNotifications, extensions } = card.capabilities
  return {
    protocolVersion: V03,
    name: card.name,
    description: card.description,
    version: card.version,
    url: main.url,
    preferredTransport: main.transport,
    additionalInterfaces: interfaces,
    ...(provider && { provider }),
    ...(documentationUrl !== undefined && { documentationUrl }),
    ...(iconUrl !== undefined && { iconUrl }),
    capabilities: { streaming, pushNotifications, stateTransitionHistory: false, extensions },
    securitySchemes: v03Schemes(card),
    security: v03Security(card),
    defaultInputModes: card.defaultInputModes,
    defaultOutputModes: card.defaultOutputModes,
    skills: card.skills,
    supportsAuthenticatedExtendedCard: card.capabilities.extendedAgentCard,
  }
}

/**
 * Both at once. If both have a member of one name, its contents are merged: a security scheme has
 * 0.3's `type` beside the member that names its kind in 1.0.
 */
export const hybridCard = (card: AgentCard) => {
  const old = toV03Card(card)
  return {
    ...old,
    ...card,
    capabilities: { ...old.capabilities, ...card.capabilities },
    securitySchemes: Object.fromEntries(
      Object.entries(card.securitySchemes).map(([name, scheme]) => [
        name,
        { ...old.securitySchemes[name], ...scheme },
      ]),
    ),
  }
}

export const FORMS: Record<CardForm, (card: AgentCard) => object> = {
  hybrid: hybridCard,
  '1.0': (card) => card,
  '0.3': toV03Card,
}
