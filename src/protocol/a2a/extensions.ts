/**
 * Extensions of A2A, the same in every version: what a queue's card declares, what a client asked
 * for by header, and which of it is active for a call. Our own additions are declared on every
 * card; each has a document in docs/extensions/. Their keys work unasked, too: an extension that
 * is active here changes nothing but the answer's header.
 */
import type { AgentExtension, QueueCard } from '../../domain/queue.ts'
import { WireRefusal } from '../wire/errors.ts'
import type { QueueCall } from '../wire/method.ts'

const own = (name: string, description: string): AgentExtension => ({
  uri: `urn:switchboard:ext:${name}/v1`,
  description,
})

/** A change that breaks a client gets another number (spec 4.6.3). */
export const OWN_EXTENSIONS: readonly AgentExtension[] = [
  own('resumable-streams', 'Events of a stream have ids; Last-Event-ID resumes after one'),
  own('idempotent-send', 'A send that carries an idempotency key makes one task, however often'),
  own('deadlines', 'Limits of a task, and how long its send waits, chosen by the sender'),
  own('context-policy', 'What a new task does where its conversation is busy'),
  own('answers', 'Questions with a JSON Schema, and receipts of what became of a message'),
  own('effects', 'Names of what a task may do, among what its sender may'),
]

const OWN_PREFIX = 'urn:switchboard:'

/** False for a URI in our own name that is none of ours: a typing error, or of another release. */
export const isDeclarable = (uri: string): boolean =>
  !uri.startsWith(OWN_PREFIX) || OWN_EXTENSIONS.some((extension) => extension.uri === uri)

/** What a card declares. An operator who lists one of ours says how it is meant on that queue. */
export const declaredExtensions = ({ capabilities }: QueueCard): AgentExtension[] => {
  const byUri = new Map(OWN_EXTENSIONS.map((extension) => [extension.uri, extension]))
  for (const extension of capabilities?.extensions ?? []) {
    byUri.set(extension.uri, { ...byUri.get(extension.uri), ...extension })
  }
  return [...byUri.values()]
}

/** Both spellings are read in every version; the answer is in that of its own. */
export const EXTENSION_HEADERS = ['A2A-Extensions', 'X-A2A-Extensions'] as const

export const extensionHeader = (version: string): string =>
  version.startsWith('0.') ? 'X-A2A-Extensions' : 'A2A-Extensions'

const NONE: ReadonlySet<string> = new Set()

/**
 * The extensions that are active for a call: those asked for (raw values of the headers) that the
 * card declares, as exact strings. What it does not declare is ignored, never swapped for another
 * version of it (spec 4.6.3).
 */
export const negotiate = (
  card: QueueCard,
  headers: readonly (string | undefined)[],
): ReadonlySet<string> => {
  // Nearly every call asks for none.
  if (headers.every((value) => value === undefined)) return NONE
  const declared = new Set(declaredExtensions(card).map(({ uri }) => uri))
  const asked = headers.flatMap((value) => (value ?? '').split(',')).map((uri) => uri.trim())
  return new Set(asked.filter((uri) => declared.has(uri)))
}

/** Refuses: extension, where the card requires one that the client did not ask for (spec 3.3.4). */
export const requireExtensions = ({ queue, extensions }: QueueCall): void => {
  const missing = (queue.card.capabilities?.extensions ?? [])
    .filter(({ uri, required }) => required === true && !extensions.has(uri))
    .map(({ uri }) => uri)
  if (missing.length === 0) return
  const requiredExtensions = missing.join(',')
  throw new WireRefusal(
    'extension',
    `This agent requires extensions that were not asked for; send the header A2A-Extensions with: ${requiredExtensions}`,
    { requiredExtensions },
  )
}
