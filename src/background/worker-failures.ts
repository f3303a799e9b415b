/**
 * What a worker's failure leads to, decided here and nowhere else. A worker reports how it fares,
 * and the two tables say what follows. Nothing a worker does ends the process: at worst, the node
 * says that it is not ready until the worker is well again.
 */

/** Everything that can go wrong with a worker. */
export type Failure = 'crashed' | 'returned' | 'failed'

/** `restart`: it is over and is started again. `counts`: it may open the circuit of its worker. */
export const FAILURES: Readonly<
  Record<Failure, { restart: boolean; counts: boolean; message: string }>
> = {
  crashed: { restart: true, counts: true, message: 'a worker crashed' },
  // The loop should never end, and ending without an error is no excuse.
  returned: { restart: true, counts: true, message: 'a worker ended that should not' },
  // It goes on by itself, and has logged why.
  failed: { restart: false, counts: true, message: 'a worker reported a failure' },
}

export interface FailurePolicy {
  /** The node is not ready while it is failing. */
  required: boolean
  /** This many failures within the window mean that it is failing, … */
  failures: number
  /** … until it reports that it is well, or the failures are older than this. */
  windowMs: number
  /** The longest pause before it is started again. */
  maxBackoffMs: number
}

/** A sweep that is off silently parks todos, so a node without one is not ready. */
const SWEEP: FailurePolicy = {
  required: true,
  failures: 3,
  windowMs: 120_000,
  maxBackoffMs: 30_000,
}
const OPTIONAL: FailurePolicy = { ...SWEEP, required: false }

export type WorkerName =
  | 'hooks'
  | 'activity'
  | 'waiters'
  | 'watch'
  | 'conversations'
  | 'children'
  | 'listener'
  | 'reaper'
  | 'dueAnnouncer'
  | 'timeouts'
  | 'scheduler'
  | 'sequencer'
  | 'courier'
  | 'counter'
  | 'janitor'

/**
 * The workers: what each does, the label it has in `switchboard_worker_up{worker}` and in the log,
 * and what its failures lead to.
 */
export const WORKERS: Readonly<Record<WorkerName, { label: string; policy: FailurePolicy }>> = {
  // Calls the handlers of events that were added in this process.
  hooks: { label: 'hooks', policy: OPTIONAL },
  // Counts the last hour for the board, while somebody looks.
  activity: { label: 'activity', policy: OPTIONAL },
  // Find what a lost wake has not told of: todos for waiting claims, and events for all else who
  // waits. Without them the wakes go on.
  waiters: { label: 'waiters', policy: OPTIONAL },
  watch: { label: 'watch', policy: OPTIONAL },
  // Let a line go on, or a parent, soon after what they wait for. The reaper finds what they miss.
  conversations: { label: 'conversations', policy: OPTIONAL },
  children: { label: 'children', policy: OPTIONAL },
  // Hears of commits on other nodes. Without it the polls go on, only slower, and it must be back
  // within seconds of its database.
  listener: {
    label: 'listener',
    policy: { required: true, failures: 3, windowMs: 60_000, maxBackoffMs: 1000 },
  },
  // Takes back todos whose lease has lapsed.
  reaper: { label: 'reaper', policy: SWEEP },
  // Announces todos whose time to be claimed has come.
  dueAnnouncer: { label: 'bell', policy: SWEEP },
  // Ends what has passed a limit on its time.
  timeouts: { label: 'alarm', policy: SWEEP },
  // Makes the todos of schedules.
  scheduler: { label: 'scheduler', policy: SWEEP },
  // Gives committed events their positions in the feed.
  sequencer: { label: 'placer', policy: SWEEP },
  // Delivers to webhooks. While it is off, another node tells them, later.
  courier: { label: 'courier', policy: OPTIONAL },
  // Folds recent events into the totals of lists, which are exact without it but slowly get slower.
  counter: { label: 'counter', policy: OPTIONAL },
  // Deletes what counts as gone already, so nobody waits for it.
  janitor: { label: 'janitor', policy: OPTIONAL },
}
