/**
 * The topics that wakes are sent by, each spelled here only. The texts go over the bus between nodes of
 * different versions, so they stay as they are even where the word in the code has changed.
 */
import type { Wake } from '../postgres/database.ts'

type Family = ((name: string) => string) & { readonly prefix: string }

/** Topics with a name or an id behind the colon. */
const family = (prefix: string): Family =>
  Object.assign((name: string) => `${prefix}${name}`, { prefix })

export const topics = {
  /** Something happened to this todo. */
  todo: family('todo:'),
  /** This todo has ended or asks. */
  settled: family('settled:'),
  /** A child of this todo has ended. */
  parent: family('parent:'),
  /** This conversation's line may be able to go on. */
  line: family('line:'),
  /** Something became claimable in this queue. */
  queue: family('queue:'),
  /** A slot became free under the limit of this queue or endpoint. */
  slots: family('room:'),
  /** The doctor asks who is there; behind the colon stands the channel on which to answer it. */
  doctor: family('doctor:'),
  /** Events were committed, and have no position in the feed yet. */
  feed: 'feed',
  /** Events were given their positions. */
  sequenced: 'placed',
  /** A webhook is owed a delivery. */
  deliveries: 'deliveries',
  /** Of these, a row was changed. */
  settings: 'settings',
  queues: 'queues',
  endpoints: 'endpoints',
} as const

export const wakeOf = (topic: string): Wake => ({ topic, count: 1 })
