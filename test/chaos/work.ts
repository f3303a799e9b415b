/** What a task of the chaos run asks of its agent, by its text. */
export type Work =
  | 'work'
  | 'linger'
  | 'ask'
  | 'authorize'
  | 'park'
  | 'fail'
  | 'die'
  | 'decline'
  | 'hand back'
  | 'fork'

/** What a task is drawn from. */
export const WORKS: readonly Work[] = [
  'work',
  'work',
  'work',
  'work',
  'linger',
  'linger',
  'ask',
  'ask',
  'ask',
  'authorize',
  'park',
  'park',
  'fail',
  'die',
  'decline',
  'hand back',
  'fork',
]

/** Chunks of the artifact that each attempt writes. */
export const CHUNKS = 5

/** Short, so that a frozen holder comes back too late. */
export const LEASE_SECONDS = 4

export const QUEUES = {
  /** Conversations, one task at a time each; no todo may run out of attempts. */
  desk: { contexts: 'serial', maxAttempts: 100 },
  /** Side by side, at most so many at once; the id of a message is its key. */
  bulk: { contexts: 'parallel', maxAttempts: 100, concurrency: 12, dedupe: 'messageId' },
  /** What agents fork. */
  kids: { contexts: 'parallel', maxAttempts: 100 },
} as const
