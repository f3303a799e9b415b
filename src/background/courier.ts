/**
 * Delivers to webhooks. Woken by commits that owe a delivery, and at every interval, it takes what
 * is due and sends many at once but few to one host, and shares its slots fairly over endpoints
 * (courier-load.ts), so a slow or silent receiver stands in nobody's way. A drain lets the deliveries under way finish; another node sends what was cut short
 * again, under the same id.
 */
import { randomUUID } from 'node:crypto'
import { setMaxListeners } from 'node:events'
import type { Log } from '../base/log.ts'
import { sleep, withTimeout } from '../base/time.ts'
import { Waiter } from '../base/wait/waiter.ts'
import { Refusal } from '../domain/errors.ts'
import type { Tried } from '../domain/push.ts'
import type { Outbox, Owed } from '../service/push/outbox.ts'
import { createLoad } from './courier-load.ts'
import type { Health } from './supervisor.ts'

export interface CourierParts {
  outbox: Outbox
  post: (
    url: string,
    headers: Record<string, string>,
    body: string,
    wait: { timeoutMs: number; signal: AbortSignal },
  ) => Promise<Tried>
  sign: (secrets: readonly string[], id: string, timestamp: number, body: string) => string
  /** Calls back when a commit owes a delivery. Returns an off. */
  onOwed: (listener: () => void) => () => void
  /** Fires when the node stops; nothing more is taken then. */
  stopping: AbortSignal
  log: Pick<Log, 'error'>
  concurrency: number
  perHost: number
  /** How long a lost wake may delay a delivery. */
  pollMs: number
}

export interface Courier {
  /** Sends until the signal fires. */
  run(signal: AbortSignal, health: Health): Promise<void>
  /** Waits up to `ms` for what is under way, then cuts it short. Nothing more is taken. */
  drain(ms: number): Promise<void>
}

const TAKE_AT_MOST = 32
/** How many characters of payloads may be under way. */
const LENGTH_AT_MOST = 64_000_000
/** Time beyond the attempt itself to write down its result, even where the database is slow. */
const LEASE_MARGIN_MS = 15_000
const PURGE_MS = 600_000
/** The pause after the database failed. */
const AGAIN_MS = 1000

const headersOf = (owed: Owed, sign: CourierParts['sign']) => {
  const { contentType, body } = owed.payload
  const timestamp = Math.floor(owed.at.getTime() / 1000)
  return {
    'Content-Type': contentType,
    'User-Agent': 'switchboard',
    'A2A-Version': owed.dialect,
    ...(owed.token !== null && { 'X-A2A-Notification-Token': owed.token }),
    ...(owed.scheme !== null &&
      owed.credentials !== null && { Authorization: `${owed.scheme} ${owed.credentials}` }),
    'webhook-id': owed.id,
    'webhook-timestamp': String(timestamp),
    'webhook-signature': sign(owed.secrets, owed.id, timestamp, body),
  }
}

export const createCourier = (parts: CourierParts): Courier => {
  const { outbox, post, sign, stopping, log } = parts
  const { concurrency, perHost, pollMs } = parts
  /** Belongs to this courier alone, since a lease says who may settle. */
  const owner = randomUUID()
  const load = createLoad({ concurrency, perHost })
  let length = 0
  const underWay = new Set<Promise<void>>()
  const cut = new AbortController()
  // Each attempt under way listens, so many listeners are no leak.
  setMaxListeners(0, cut.signal)
  const due = new Waiter()
  const wake = (): void => due.wake()

  const send = async (owed: Owed, timeoutMs: number): Promise<void> => {
    const started = performance.now()
    const headers = headersOf(owed, sign)
    let tried: Tried
    try {
      tried = await post(owed.url, headers, owed.payload.body, { timeoutMs, signal: cut.signal })
    } catch (error) {
      if (!cut.signal.aborted) throw error
      await outbox.handBack(owed)
      return
    }
    const again = await outbox.settle(owed, tried, (performance.now() - started) / 1000)
    // Otherwise a retry that is due before the next poll would wait for it.
    if (again !== null && again * 1000 < pollMs) setTimeout(wake, again * 1000).unref()
  }

  /** A delivery whose result cannot be written is sent again once its lease has lapsed. */
  const start = (owed: Owed, timeoutMs: number): void => {
    load.begin(owed)
    length += owed.payload.body.length
    const sent = send(owed, timeoutMs)
      .catch((err: unknown) => log.error({ delivery: owed.id, err }, 'a delivery came to nothing'))
      .finally(() => {
        load.end(owed)
        length -= owed.payload.body.length
        underWay.delete(sent)
        due.wake()
      })
    underWay.add(sent)
  }

  /** Takes what is due until nothing is left, or there is no room. */
  const takeAll = async (signal: AbortSignal): Promise<void> => {
    let fair = true
    for (;;) {
      due.clear()
      const limit = Math.min(concurrency - underWay.size, TAKE_AT_MOST)
      const room = LENGTH_AT_MOST - length
      // A delivery that ends makes room, and nudges.
      if (limit <= 0 || room <= 0 || signal.aborted || stopping.aborted) return
      const { timeoutMs } = await outbox.limits()
      const leaseSeconds = (timeoutMs + LEASE_MARGIN_MS) / 1000
      const asked = load.asked(fair)
      const request = { owner, limit, perHost, leaseSeconds, ...asked }
      const { owed, more } = await outbox.lease(request, room)
      for (const one of owed) start(one, timeoutMs)
      if (more) continue
      const { endpoints, pairs } = asked.crowded
      // Nobody else wants what is left.
      if (fair && endpoints.length + pairs.length > 0) fair = false
      else return
    }
  }

  const purge = async (): Promise<void> => {
    while ((await outbox.purge()) > 0 && !stopping.aborted);
  }

  /** Whether the database was there. */
  const tick = async (signal: AbortSignal, health: Health, clean: boolean): Promise<boolean> => {
    try {
      await takeAll(signal)
      if (clean) await purge()
      health.ok()
      return true
    } catch (error) {
      health.failed()
      const away = error instanceof Refusal && error.kind === 'unavailable'
      if (!away) log.error({ err: error }, 'deliveries could not be taken')
      return false
    }
  }

  const drain = async (ms: number): Promise<void> => {
    await withTimeout(ms, 'deliveries', () => Promise.all(underWay)).catch(() => {})
    cut.abort()
    await Promise.all(underWay)
  }

  return {
    drain,
    run: async (signal, health) => {
      const off = parts.onOwed(wake)
      let cleanAt = 0
      try {
        while (!signal.aborted) {
          const clean = performance.now() >= cleanAt
          const fine = await tick(signal, health, clean)
          if (fine && clean) cleanAt = performance.now() + PURGE_MS
          if (fine) await due.sleep(pollMs, signal)
          else await sleep(AGAIN_MS, signal).catch(() => {})
        }
      } finally {
        off()
        await Promise.all(underWay)
      }
    },
  }
}
