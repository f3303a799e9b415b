/** An Agent Card of 1.0 in the form of 0.3 (digest 2.3, 7.2). Pure. */
import type { Json, JsonObject } from '../../domain/todo.ts'

const VERSION = '0.3'
/** The card tells the whole version, patch number included. */
const FULL_VERSION = '0.3.0'

interface Interface {
  url: string
  protocolBinding: string
  protocolVersion: string
}

/** Of the kinds that 1.0 knows, the one that this server can ask for. */
const fromScheme = (scheme: JsonObject): JsonObject => {
  const { httpAuthSecurityScheme: http } = scheme
  return { type: 'http', ...(http as JsonObject) }
}

const mapMembers = (of: JsonObject, change: (value: Json) => Json): JsonObject =>
  Object.fromEntries(Object.entries(of).map(([name, value]) => [name, change(value)]))

/** `{schemes:{bearer:{list:[]}}}` as `{bearer:[]}`. */
const fromRequirement = ({ schemes }: JsonObject): JsonObject =>
  mapMembers(schemes as JsonObject, (scopes) => (scopes as JsonObject).list ?? [])

export const fromCard = (card: JsonObject): JsonObject => {
  const { supportedInterfaces, capabilities, securitySchemes, securityRequirements, ...rest } = card
  const { signatures: _, ...same } = rest
  const { extendedAgentCard, ...able } = capabilities as JsonObject
  const served = (supportedInterfaces as unknown as Interface[]).filter(
    ({ protocolVersion }) => protocolVersion === VERSION,
  )
  return {
    protocolVersion: FULL_VERSION,
    ...same,
    url: served[0]?.url ?? '',
    preferredTransport: served[0]?.protocolBinding ?? 'JSONRPC',
    additionalInterfaces: served.map(({ url, protocolBinding: transport }) => ({ url, transport })),
    capabilities: { ...able, stateTransitionHistory: false },
    securitySchemes: mapMembers(securitySchemes as JsonObject, (scheme) =>
      fromScheme(scheme as JsonObject),
    ),
    security: (securityRequirements as JsonObject[]).map(fromRequirement),
    supportsAuthenticatedExtendedCard: extendedAgentCard === true,
  }
}
