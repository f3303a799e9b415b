/**
 * Tells webhooks what they are owed. Woken by commits that owe something, else at each interval, it
 * takes what is due and sends many at once, few to one host, so that a receiver which is slow or
 * silent stands in nobody's way. A drain lets those under way finish; what is cut short is sent
 * again by another node, under the same id.
 */
import { randomUUID } from 'node:crypto'
import { setMaxListeners } from 'node:events'
import type { Log } from '../base/log.ts'
import { sleep } from '../base/time.ts'
import { Refusal } from '../domain/errors.ts'
import type { Dialect, Tried } from '../domain/push.ts'
import type { Outbox, Owed } from '../service/push/outbox.ts'
import type { Health } from './supervisor.ts'

interface Payload {
  contentType: string
  body: string
}

export interface CourierParts {
  outbox: Outbox
  /** How each protocol version tells of an event. */
  payloads: Readonly<Record<Dialect, (owed: Owed) => Payload>>
  post: (
    url: string,
    headers: Record<string, string>,
    body: string,
    wait: { timeoutMs: number; signal: AbortSignal },
  ) => Promise<Tried>
  sign: (secrets: readonly string[], id: string, timestamp: number, body: string) => string
  /** Calls back when something has been committed that is owed. Returns an off. */
  onOwed: (listener: () => void) => () => void
  /** Fires when the node stops: nothing more is taken. */
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
  /** Waits so long for what is under way, then cuts it short. Nothing more is taken. */
  drain(ms: number): Promise<void>
}

const TAKE_AT_MOST = 32
/** Beyond the try itself: to have it written, also where the database is slow. */
const LEASE_MARGIN_MS = 15_000
const PURGE_MS = 600_000
/** After the database failed. */
const AGAIN_MS = 1000

const headersOf = (owed: Owed, { contentType, body }: Payload, sign: CourierParts['sign']) => {
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
  const { outbox, payloads, post, sign, stopping, log } = parts
  const { concurrency, perHost, pollMs } = parts
  /** Of this courier and no other: a lease says who may settle. */
  const owner = randomUUID()
  const busy = new Map<string, number>()
  const underWay = new Set<Promise<void>>()
  const cut = new AbortController()
  // Each try under way listens: many at once are no leak.
  setMaxListeners(0, cut.signal)
  let look: () => void = () => {}
  let looked = true

  const nudge = (): void => {
    looked = false
    look()
  }

  const send = async (owed: Owed, timeoutMs: number): Promise<void> => {
    const started = performance.now()
    const payload = payloads[owed.dialect](owed)
    const headers = headersOf(owed, payload, sign)
    let tried: Tried
    try {
      tried = await post(owed.url, headers, payload.body, { timeoutMs, signal: cut.signal })
    } catch (error) {
      if (!cut.signal.aborted) throw error
      await outbox.handBack(owed)
      return
    }
    const again = await outbox.settle(owed, tried, (performance.now() - started) / 1000)
    // What is due before the next look would otherwise wait for it.
    if (again !== null && again * 1000 < pollMs) setTimeout(nudge, again * 1000).unref()
  }

  /** What cannot be written down is sent again when its lease has lapsed. */
  const start = (owed: Owed, timeoutMs: number): void => {
    const { host } = owed
    busy.set(host, (busy.get(host) ?? 0) + 1)
    const sent = send(owed, timeoutMs)
      .catch((err: unknown) => log.error({ delivery: owed.id, err }, 'a delivery came to nothing'))
      .finally(() => {
        const left = (busy.get(host) ?? 1) - 1
        if (left > 0) busy.set(host, left)
        else busy.delete(host)
        underWay.delete(sent)
        nudge()
      })
    underWay.add(sent)
  }

  /** Takes what is due until nothing is, or there is no room. */
  const takeAll = async (signal: AbortSignal): Promise<void> => {
    for (;;) {
      looked = true
      const limit = Math.min(concurrency - underWay.size, TAKE_AT_MOST)
      // Whatever ends makes room, and nudges.
      if (limit <= 0 || signal.aborted || stopping.aborted) return
      const { timeoutMs } = await outbox.limits()
      const leaseSeconds = (timeoutMs + LEASE_MARGIN_MS) / 1000
      const { owed, more } = await outbox.lease({ owner, limit, perHost, leaseSeconds, busy })
      for (const one of owed) start(one, timeoutMs)
      if (!more) return
    }
  }

  const idle = (ms: number, signal: AbortSignal): Promise<void> => {
    const waiting = new AbortController()
    const end = (): void => waiting.abort()
    look = end
    signal.addEventListener('abort', end, { once: true })
    if (!looked || signal.aborted) end()
    return sleep(ms, waiting.signal)
      .catch(() => {})
      .finally(() => signal.removeEventListener('abort', end))
  }

  const purge = async (): Promise<void> => {
    while ((await outbox.purge()) > 0 && !stopping.aborted);
  }

  /** True where the database was there. */
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
    const limit = new AbortController()
    const over = sleep(ms, limit.signal).catch(() => {})
    await Promise.race([Promise.all(underWay), over])
    limit.abort()
    cut.abort()
    await Promise.all(underWay)
  }

  return {
    drain,
    run: async (signal, health) => {
      const off = parts.onOwed(nudge)
      let cleanAt = 0
      try {
        while (!signal.aborted) {
          const clean = performance.now() >= cleanAt
          const fine = await tick(signal, health, clean)
          if (fine && clean) cleanAt = performance.now() + PURGE_MS
          if (fine) await idle(pollMs, signal)
          else await sleep(AGAIN_MS, signal).catch(() => {})
        }
      } finally {
        off()
        await Promise.all(underWay)
      }
    },
  }
}
