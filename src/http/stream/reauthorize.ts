/**
 * The rights of all who wait: blocking sends, waiting claims and open streams. A right is checked
 * again as soon as a wake says that one may have changed, when its token expires, and at intervals
 * in case a wake was lost. Whoever lost it waits no longer.
 */
import { type Caller, Withdrawn } from '../../domain/endpoint.ts'
import { Refusal } from '../../domain/errors.ts'
import { WireRefusal } from '../../protocol/wire/errors.ts'

/** With the registry's copy, which may be 2 s old, and a tick, less than 30 s. */
const RECHECK_MS = 25_000
const TICK_MS = 1000
/** When an error said nothing about the right, it is checked again this soon. */
const RETRY_MS = 5000
/** Checks may each need a connection of the pool, so thousands do not run side by side. */
const CHECKS_AT_ONCE = 8

/** Somebody who waits for what a right allows. */
interface Waiting {
  /** Whose right it was when the wait began. */
  caller: Caller
  /** Who the caller is now. Throws a refusal where the credential is no longer good. */
  authenticate(): Promise<Caller>
  /** Whether that caller may still have what is waited for; a refusal means no. */
  isAllowed(now: Caller): boolean
  revoke(reason: Withdrawn): void
}

export interface Reauthorizer {
  /** Checks until the function it returns is called. */
  watch(waiting: Waiting): () => void
}

export interface ReauthorizerOptions {
  /** Calls back when the rights of this endpoint, or of whomever, may have changed. */
  onChange?(listener: (endpointId?: string) => void): void
  /** Gets errors that say nothing about the right, such as a database that is away. */
  onError?(error: unknown): void
  everyMs?: number
}

const isRefused = (error: unknown): boolean =>
  error instanceof WireRefusal || (error instanceof Refusal && error.kind === 'forbidden')

/** Why the caller may not wait on; null where it may. Throws what says nothing about the right. */
const withdrawalOf = async (waiting: Waiting): Promise<Withdrawn | null> => {
  let now: Caller | null = null
  try {
    now = await waiting.authenticate()
    return waiting.isAllowed(now) ? null : new Withdrawn(new Refusal('forbidden'), now)
  } catch (error) {
    if (isRefused(error)) return new Withdrawn(error as Error, now)
    throw error
  }
}

const isOf =
  (endpointId: string) =>
  ({ waiting: { caller } }: Entry): boolean =>
    caller.kind === 'endpoint' && caller.endpoint.id === endpointId

interface Entry {
  waiting: Waiting
  dueAt: number
}

export const createReauthorizer = (options: ReauthorizerOptions = {}): Reauthorizer => {
  const everyMs = options.everyMs ?? RECHECK_MS
  const tickMs = Math.min(TICK_MS, everyMs)
  const ticksOf = (ms: number): number => Math.ceil(Math.min(ms, everyMs) / tickMs)
  const everyTicks = ticksOf(everyMs)
  const retryTicks = ticksOf(RETRY_MS)

  const entries = new Set<Entry>()
  /** Runs only while somebody waits. Times are counted in ticks, so that a call reads no clock. */
  let timer: NodeJS.Timeout | null = null
  let tick = 0
  let checking = false

  const check = async (entry: Entry): Promise<void> => {
    if (!entries.has(entry)) return
    entry.dueAt = tick + everyTicks
    try {
      const withdrawn = await withdrawalOf(entry.waiting)
      if (withdrawn && entries.delete(entry)) entry.waiting.revoke(withdrawn)
    } catch (error) {
      // A change that came meanwhile has made it due already.
      entry.dueAt = Math.min(entry.dueAt, tick + retryTicks)
      options.onError?.(error)
    }
  }

  const checkAll = async (due: Iterable<Entry>): Promise<void> => {
    const rest = due[Symbol.iterator]()
    const worker = async (): Promise<void> => {
      for (let next = rest.next(); !next.done; next = rest.next()) await check(next.value)
    }
    await Promise.all(Array.from({ length: CHECKS_AT_ONCE }, worker))
  }

  const checkDue = async (): Promise<void> => {
    if (checking) return
    checking = true
    for (;;) {
      const due = [...entries].filter(({ dueAt }) => dueAt <= tick)
      if (due.length === 0) break
      await checkAll(due)
    }
    checking = false
  }

  const onTick = (): void => {
    tick += 1
    if (entries.size > 0) return void checkDue()
    if (timer) clearInterval(timer)
    timer = null
  }

  options.onChange?.((endpointId) => {
    const changed = endpointId === undefined ? entries : [...entries].filter(isOf(endpointId))
    for (const entry of changed) entry.dueAt = tick
    void checkDue()
  })

  return {
    watch: (waiting) => {
      const entry = { waiting, dueAt: tick + everyTicks }
      entries.add(entry)
      timer ??= setInterval(onTick, tickMs).unref()
      return () => void entries.delete(entry)
    },
  }
}
