/**
 * The forms in which one card is published. Which version of A2A a client speaks is often not
 * known when it fetches the card, so who does not say gets the hybrid one: the 1.0 card with the
 * members beside it that a 0.3 client looks for. Pure translations of the 1.0 card.
 */
import type { AgentCard } from './card.ts'

export type CardForm = 'hybrid' | '1.0' | '0.3'

/** As 0.3's own schema writes it; in 1.0 a version has no patch number. */
const V03 = '0.3.0'

const v03Schemes = ({ securitySchemes }: AgentCard) =>
  Object.fromEntries(
    Object.entries(securitySchemes).map(([name, { httpAuthSecurityScheme }]) => [
      name,
      { type: 'http', scheme: httpAuthSecurityScheme.scheme.toLowerCase() },
    ]),
  )

/** Without lists: before OpenAPI 3.1 only scopes of OAuth stand in them. */
const v03Security = ({ securityRequirements }: AgentCard) =>
  securityRequirements.map(({ schemes }) =>
    Object.fromEntries(Object.keys(schemes).map((name) => [name, [] as string[]])),
  )

const v03Capabilities = ({ capabilities }: AgentCard) => ({
  streaming: capabilities.streaming,
  pushNotifications: capabilities.pushNotifications,
  stateTransitionHistory: false,
  extensions: capabilities.extensions,
})

/** A 1.0 card, public or extended, as 0.3 has it (0.3 spec 5.5). Of its interfaces only its own. */
export const toV03Card = (card: AgentCard) => {
  const interfaces = card.supportedInterfaces
    .filter(({ protocolVersion }) => protocolVersion === '0.3')
    .map(({ url, protocolBinding }) => ({ url, transport: protocolBinding }))
  const main = interfaces.find(({ transport }) => transport === 'JSONRPC') ?? interfaces[0]!
  const { provider, documentationUrl, iconUrl } = card
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
    capabilities: v03Capabilities(card),
    securitySchemes: v03Schemes(card),
    security: v03Security(card),
    defaultInputModes: card.defaultInputModes,
    defaultOutputModes: card.defaultOutputModes,
    skills: card.skills,
    supportsAuthenticatedExtendedCard: card.capabilities.extendedAgentCard,
  }
}

/**
 * Both at once. Where the two have a member of one name, what it holds is joined: a security
 * scheme has 0.3's `type` beside the member that names its kind in 1.0.
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
