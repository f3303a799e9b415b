/**
 * The members of agent cards in use: those of every version of the specification, which of them
 * are published as written, and why the others are not. A card is read as ProtoJSON readers would
 * (both spellings, null for absence), and what is not read is named, so that nothing is lost in
 * silence; where it looks like a typing error, the warning says what was probably meant.
 */
import type { Json, JsonObject } from '../../domain/todo.ts'
import { isObject, snake } from '../json/object.ts'

/** Why a member that some version knows is not published as written. */
const ADDRESS = 'is not published: the server says itself where and how it is reached'
const SECURITY = 'is not published: the server says itself how clients authenticate'

interface Shape {
  /** Members that are read; those that hold objects, or lists of them, with their own shape. */
  read: Readonly<Record<string, Shape | null>>
  /** Members of some version that are not, and why. */
  other: Readonly<Record<string, string>>
}

const shape = (names: string, other: Shape['other'] = {}, nested: Shape['read'] = {}): Shape => ({
  read: { ...Object.fromEntries(names.split(' ').map((name) => [name, null])), ...nested },
  other,
})

const EXTENSION = shape('uri description required params')
const PROVIDER = shape('organization url')
const CAPABILITIES = shape(
  'streaming pushNotifications extendedAgentCard',
  { stateTransitionHistory: 'is not published: only 0.x had it, and the history is always there' },
  { extensions: EXTENSION },
)
const SKILL = shape('id name description tags examples inputModes outputModes', {
  security: SECURITY,
  securityRequirements: SECURITY,
})

const SERVED = {
  url: ADDRESS,
  preferredTransport: ADDRESS,
  additionalInterfaces: ADDRESS,
  supportedInterfaces: ADDRESS,
  protocolVersion: ADDRESS,
  protocolVersions: ADDRESS,
  authentication: SECURITY,
  security: SECURITY,
  securitySchemes: SECURITY,
  securityRequirements: SECURITY,
  signatures: 'is not published: the server signs what it publishes, with keys of its own',
}
const PROSE = 'name description version defaultInputModes defaultOutputModes documentationUrl'
const NESTED = { provider: PROVIDER, skills: SKILL }

const EXTENDED = shape(
  `${PROSE} iconUrl`,
  {
    ...SERVED,
    capabilities: 'is not read here: capabilities are those of the card itself',
    supportsAuthenticatedExtendedCard: 'is not read here',
    extended: 'is not read here',
  },
  NESTED,
)
const CARD = shape(
  `${PROSE} iconUrl`,
  {
    ...SERVED,
    supportsAuthenticatedExtendedCard: 'is 0.x: read as capabilities.extendedAgentCard',
  },
  { ...NESTED, capabilities: CAPABILITIES, extended: EXTENDED },
)

const each = (value: Json, read: (item: Json) => Json): Json =>
  Array.isArray(value) ? value.map(read) : read(value)

/** Known members under their camelCase names, without those that are null. */
const tidied = (value: Json, { read, other }: Shape): Json => {
  if (!isObject(value)) return value
  const names = new Map([...Object.keys(read), ...Object.keys(other)].map((n) => [snake(n), n]))
  const entries = Object.entries(value).flatMap(([given, member]): [string, Json][] => {
    const name = names.get(given) ?? given
    // Where both spellings are there, camelCase counts.
    if (name !== given && Object.hasOwn(value, name)) return []
    const nested = read[name]
    if (member === null) return names.has(snake(name)) ? [] : [[name, member]]
    return [[name, nested ? each(member, (item) => tidied(item, nested)) : member]]
  })
  return Object.fromEntries(entries)
}

/** In 0.x the extended card was switched on beside the capabilities. */
const mapped = (card: JsonObject): JsonObject => {
  const { supportsAuthenticatedExtendedCard: supports, capabilities = {} } = card
  if (typeof supports !== 'boolean' || !isObject(capabilities)) return card
  return { ...card, capabilities: { extendedAgentCard: supports, ...capabilities } }
}

/** A card of any version with the members of this one; what is no object stays as it is. */
export const tidyCard = (card: unknown): unknown => {
  if (!isObject(card)) return card
  const tidy = tidied(card, CARD)
  return isObject(tidy) ? mapped(tidy) : tidy
}

/** Something about a member: where it is, and what is to be said of it. */
export interface Remark {
  path: (string | number)[]
  description: string
}

/** How many characters must be added, left out, changed or swapped to get from one to the other. */
const distance = (one: string, other: string): number => {
  const rows = [Array.from({ length: other.length + 1 }, (_, index) => index)]
  for (let i = 1; i <= one.length; i += 1) {
    const row = [i]
    for (let j = 1; j <= other.length; j += 1) {
      const same = one[i - 1] === other[j - 1]
      const swapped = i > 1 && j > 1 && one[i - 1] === other[j - 2] && one[i - 2] === other[j - 1]
      row[j] = Math.min(
        rows[i - 1]![j]! + 1,
        row[j - 1]! + 1,
        rows[i - 1]![j - 1]! + (same ? 0 : 1),
        swapped ? rows[i - 2]![j - 2]! + 1 : Number.POSITIVE_INFINITY,
      )
    }
    rows.push(row)
  }
  return rows[one.length]![other.length]!
}

const plain = (name: string): string => name.replace(/[_-]/g, '').toLowerCase()

/** The longest name that is compared, so that an endless one costs nothing. */
const LONGEST = 40

/** Short names are near to many words, so they may differ in less. */
const allowedIn = (name: string): number => {
  if (name.length < 4) return 0
  return name.length < 8 ? 1 : 2
}

/** The known member that an unknown one was probably meant to be. */
const meantBy = (given: string, names: readonly string[]): string | undefined => {
  if (given.length > LONGEST) return undefined
  const word = plain(given)
  return names.find((name) => distance(word, plain(name)) <= allowedIn(name))
}

const look = (value: Json, { read, other }: Shape, path: Remark['path'], found: Remark[]): void => {
  if (!isObject(value)) return
  const names = [...Object.keys(read), ...Object.keys(other)]
  for (const [name, member] of Object.entries(value)) {
    const at = [...path, name]
    const nested = Object.hasOwn(read, name) ? read[name] : undefined
    if (nested && Array.isArray(member)) {
      for (const [index, item] of member.entries()) look(item, nested, [...at, index], found)
    } else if (nested) look(member, nested, at, found)
    else if (Object.hasOwn(other, name)) found.push({ path: at, description: other[name]! })
    else if (nested === undefined) {
      const meant = meantBy(name, names)
      const hint = meant === undefined ? '' : `; probably ${meant} was meant`
      found.push({ path: at, description: `is not known here: kept, but not published${hint}` })
    }
  }
}

/** What is to be said of a tidy card's members that are not read. */
export const membersNotRead = (card: JsonObject): Remark[] => {
  const found: Remark[] = []
  look(card, CARD, [], found)
  return found
}
