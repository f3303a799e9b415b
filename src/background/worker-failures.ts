/**
 * What is fatal, decided here and nowhere else. A worker reports how it fares; the two tables say
 * what follows from it. Nothing a worker does ends the process: the gravest consequence is a node
 * that says it is not ready, until the worker is well again.
 */

/** All that can go wrong with a worker. */
export type Failure = 'crashed' | 'returned' | 'failed'

/** `restart`: it is over and is started again. `counts`: it may open the circuit of its worker. */
export const FAILURES: Readonly<
  Record<Failure, { restart: boolean; counts: boolean; told: string }>
> = {
  crashed: { restart: true, counts: true, told: 'a worker crashed' },
  // A loop that should have no end; that it came without an error is no excuse.
  returned: { restart: true, counts: true, told: 'a worker ended that should not' },
  // It goes on by itself, and has logged why.
  failed: { restart: false, counts: true, told: 'a worker reported a failure' },
}

export interface Regime {
  /** The node is not ready while it is failing. */
  required: boolean
  /** Failing from so many failures within the window on, … */
  failures: number
  /** … until it reports that it is well, or the failures are older than this. */
  windowMs: number
  /** The longest pause before it is started again. */
  maxBackoffMs: number
}

const SWEEP: Regime = { required: true, failures: 3, windowMs: 120_000, maxBackoffMs: 30_000 }

export type WorkerName =
  | 'listener'
  | 'reaper'
  | 'bell'
  | 'alarm'
  | 'placer'
  | 'courier'
  | 'counter'
  | 'janitor'

/** Each worker's regime. A sweep that is off silently parks todos, so each of those is required. */
export const REGIMES: Readonly<Record<WorkerName, Regime>> = {
  // Without it the polls go on, slower; it must be back within seconds of its database.
  listener: { required: true, failures: 3, windowMs: 60_000, maxBackoffMs: 1000 },
  reaper: SWEEP,
  bell: SWEEP,
  alarm: SWEEP,
  placer: SWEEP,
  // Webhooks are late then, and told by another node; everything else is as it was.
  courier: { ...SWEEP, required: false },
  // Lists are as exact without it, and slower by and by.
  counter: { ...SWEEP, required: false },
  // What it leaves lying counts as gone already: nobody waits for it.
  janitor: { ...SWEEP, required: false },
}
