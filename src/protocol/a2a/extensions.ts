/**
 * A2A extensions, the same in every version: what a queue's card declares, what a client requested
 * by header, and which of these are active for a call. Our own additions are declared on every
 * card; each has a document in docs/extensions/. Their keys work without a request, too: being
 * active changes a header of the answer and, where a stream is resumed, how it begins.
 */
import type { AgentExtension, QueueCard } from '../../domain/queue.ts'
import { WireRefusal } from '../wire/errors.ts'
import type { QueueCall } from '../wire/method.ts'

const own = (name: string, description: string): AgentExtension => ({
  uri: `urn:switchboard:ext:${name}/v1`,
  description,
})

const RESUMABLE_STREAMS = own(
  'resumable-streams',
  'Events of a stream have ids; Last-Event-ID resumes after one',
)

/** A change that would break a client gets a new number (spec 4.6.3). */
export const OWN_EXTENSIONS: readonly AgentExtension[] = [
  RESUMABLE_STREAMS,
  own('idempotent-send', 'A send that carries an idempotency key makes one task, however often'),
  own('deadlines', 'Limits of a task, and how long its send waits, chosen by the sender'),
  own('context-policy', 'What a new task does where its conversation is busy'),
  own('answers', 'Questions with a JSON Schema, and receipts of what became of a message'),
  own(
    'authors',
    'The person on whose behalf a message is sent, among all that its client stands for',
  ),
  own('send-options', 'Priority of a task, and when it may begin, chosen by the sender'),
  own('effects', 'Names of what a task may do, among what its sender may'),
  own('budgets', 'How much a task may spend, with all that it hands on'),
]

const OWN_PREFIX = 'urn:switchboard:'

/** False for a URI under our own prefix that we do not know: a typing error or another release's. */
export const isDeclarable = (uri: string): boolean =>
  !uri.startsWith(OWN_PREFIX) || OWN_EXTENSIONS.some((extension) => extension.uri === uri)

/** What a card declares. An operator may list one of ours to say what it means on that queue. */
export const declaredExtensions = ({ capabilities }: QueueCard): AgentExtension[] => {
  const byUri = new Map(OWN_EXTENSIONS.map((extension) => [extension.uri, extension]))
  for (const extension of capabilities?.extensions ?? []) {
    byUri.set(extension.uri, { ...byUri.get(extension.uri), ...extension })
  }
  return [...byUri.values()]
}

/** Every version reads both spellings and answers in its own. */
export const EXTENSION_HEADERS = ['A2A-Extensions', 'X-A2A-Extensions'] as const

export const extensionHeader = (version: string): string =>
  version.startsWith('0.') ? 'X-A2A-Extensions' : 'A2A-Extensions'

const NONE: ReadonlySet<string> = new Set()

/**
 * The extensions that are active for a call: those requested (raw values of the headers) that the
 * card declares, compared as exact strings. What it does not declare is ignored, never swapped for
 * another version (spec 4.6.3).
 */
export const negotiate = (
  card: QueueCard,
  headers: readonly (string | undefined)[],
): ReadonlySet<string> => {
  // Nearly every call requests none.
  if (headers.every((value) => value === undefined)) return NONE
  const declared = new Set(declaredExtensions(card).map(({ uri }) => uri))
  const requested = headers.flatMap((value) => (value ?? '').split(',')).map((uri) => uri.trim())
  return new Set(requested.filter((uri) => declared.has(uri)))
}

/**
 * Whether a stream that resumes begins with what was missed. In 1.0 a subscription begins with the
 * task (spec 3.1.6), unless its client asked for something else; 0.3 demands nothing of the kind.
 */
export const resumesBare = ({ dialect, extensions }: QueueCall): boolean =>
  dialect !== '1.0' || extensions.has(RESUMABLE_STREAMS.uri)

/** Refuses: extension, if the card requires one that the client did not request (spec 3.3.4). */
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
