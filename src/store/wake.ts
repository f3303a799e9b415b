/**
 * Wakes: hints that something may have changed, so that a waiter looks now and not at its next
 * poll. Losing one costs latency, never work. Inside the process a ring is heard at once. For the
 * other processes rings are gathered and sent after the commit, by a connection of their own: the
 * first at once when the line was quiet, then one NOTIFY each few milliseconds (a NOTIFY inside
 * the hot transactions would make their commits queue behind one another).
 */
import { randomUUID } from 'node:crypto'
import { EventEmitter } from 'node:events'
import pg from 'pg'
import type { Log } from '../base/log.ts'
import type { Ring } from './database.ts'

const CHANNEL = 'switchboard'
const GATHER_MS = 5
/** PostgreSQL refuses payloads of 8000 bytes and more. */
const PAYLOAD_BYTES = 7000
/** More topics than this in one gathering are sent as "look at everything". */
const TOPICS_AT_MOST = 2000
const KEEP_ALIVE_MS = 10_000
const ANSWER_MS = 5000
const RECONNECT_MS = 250

/** Heard by every listener: what was missed is unknown. */
const ALL = '*'

export interface Wake {
  start(): Promise<void>
  stop(): Promise<void>
  ring(rings: readonly Ring[]): void
  /**
   * Calls back with the count whenever the topic is rung, here or elsewhere, and after a
   * connection was lost, since a ring may have been missed. Returns an off.
   */
  on(topic: string, listener: (count: number) => void): () => void
  /** Calls back for every topic that begins so, with the rest of it. */
  onPrefix(prefix: string, listener: (rest: string, count: number) => void): () => void
  /** Calls back after a connection was lost and regained: wakes may have been missed. */
  onLost(listener: () => void): () => void
  connected(): boolean
}

export interface WakeOptions {
  connectionString: string
  log: Log
  onReconnect?: () => void
}

export const createWake = ({ connectionString, log, onReconnect }: WakeOptions): Wake => {
  const self = randomUUID().slice(0, 8)
  const emitter = new EventEmitter()
  emitter.setMaxListeners(0)
  const prefixes = new Map<string, Set<(rest: string, count: number) => void>>()
  let client: pg.Client | null = null
  let stopping = false
  let gathered = new Map<string, number>()
  let timer: NodeJS.Timeout | null = null
  let sentAt = 0
  let sending = false
  let asked: Promise<unknown> = Promise.resolve()
  let keepAlive: NodeJS.Timeout | null = null
  let reconnecting: Promise<void> | null = null

  const hear = (topic: string, count: number): void => {
    emitter.emit(topic, count)
    const colon = topic.indexOf(':')
    const listeners = colon > 0 ? prefixes.get(topic.slice(0, colon + 1)) : undefined
    for (const listener of listeners ?? []) listener(topic.slice(colon + 1), count)
  }

  const hearLost = (): void => void emitter.emit(ALL)

  const receive = (payload: string): void => {
    const [from, ...rings] = payload.split('\n')
    if (from === self) return
    for (const ring of rings) {
      if (ring === ALL) hearLost()
      else {
        const space = ring.lastIndexOf(' ')
        hear(ring.slice(0, space), Number(ring.slice(space + 1)))
      }
    }
  }

  const payloads = (topics: ReadonlyMap<string, number>): string[] => {
    if (topics.has(ALL) || topics.size > TOPICS_AT_MOST) return [`${self}\n${ALL}`]
    const lines: string[] = []
    let line = self
    for (const [topic, count] of topics) {
      const ring = `\n${topic} ${count}`
      if (line.length + ring.length > PAYLOAD_BYTES) {
        lines.push(line)
        line = self
      }
      line += ring
    }
    lines.push(line)
    return lines
  }

  /** One query at a time, after whatever the connection is busy with. */
  const ask = (of: pg.Client, text: string, values: unknown[] = []): Promise<unknown> => {
    const answer = asked.then(() => of.query(text, values))
    asked = answer.catch(() => {})
    return answer
  }

  const send = async (): Promise<void> => {
    timer = null
    if (!client || gathered.size === 0) return
    const topics = gathered
    gathered = new Map()
    sentAt = performance.now()
    sending = true
    const text = `select pg_notify('${CHANNEL}', line) from unnest($1::text[]) as line`
    // The connection's own error handling follows; the polls make up for it.
    await ask(client, text, [payloads(topics)]).catch(() => {})
    sending = false
    schedule()
  }

  /** Sends what is gathered, soon. While a NOTIFY is on its way more is gathered. */
  const schedule = (): void => {
    if (timer || sending || stopping || !client || gathered.size === 0) return
    const quiet = performance.now() - sentAt
    timer = setTimeout(() => void send(), quiet >= GATHER_MS ? 0 : GATHER_MS - quiet)
  }

  const connect = async (): Promise<void> => {
    const fresh = new pg.Client({
      connectionString,
      application_name: 'switchboard wake',
      connectionTimeoutMillis: ANSWER_MS,
      query_timeout: ANSWER_MS,
      keepAlive: true,
    })
    const lose = (): void => {
      if (client !== fresh) return
      client = null
      fresh.end().catch(() => {})
      if (!stopping) reconnect()
    }
    fresh.on('error', lose)
    fresh.on('end', lose)
    fresh.on('notification', ({ payload }) => receive(payload ?? ''))
    await fresh.connect()
    await fresh.query(`listen ${CHANNEL}`)
    asked = Promise.resolve()
    client = fresh
  }

  /** A connection can die without a word; asking is the only way to notice. */
  const check = (): void => {
    const checked = client
    if (!checked) return
    ask(checked, 'select 1').catch(() => {
      if (client !== checked) return
      log.warn('the listening connection stopped answering')
      client = null
      checked.end().catch(() => {})
      if (!stopping) reconnect()
    })
  }

  const reconnect = (): void => {
    reconnecting ??= (async () => {
      log.warn('the listening connection was lost: polling until it is back')
      while (!stopping) {
        try {
          await connect()
          onReconnect?.()
          log.info('the listening connection is back')
          hearLost()
          // What was rung here meanwhile went nowhere: the others look at everything, too.
          ring([{ topic: ALL, count: 1 }])
          break
        } catch {
          await new Promise((resolve) => setTimeout(resolve, RECONNECT_MS * (1 + Math.random())))
        }
      }
      reconnecting = null
    })()
  }

  const ring = (rings: readonly Ring[]): void => {
    for (const { topic, count } of rings) {
      if (client) gathered.set(topic, (gathered.get(topic) ?? 0) + count)
      if (topic !== ALL) hear(topic, count)
    }
    schedule()
  }

  return {
    start: async () => {
      await connect()
      keepAlive = setInterval(check, KEEP_ALIVE_MS)
      keepAlive.unref()
    },
    stop: async () => {
      stopping = true
      if (keepAlive) clearInterval(keepAlive)
      if (timer) clearTimeout(timer)
      await send()
      const last = client
      client = null
      await last?.end().catch(() => {})
      await reconnecting
    },
    ring,
    on: (topic, listener) => {
      const onAll = (): void => listener(1)
      emitter.on(topic, listener)
      emitter.on(ALL, onAll)
      return () => {
        emitter.off(topic, listener)
        emitter.off(ALL, onAll)
      }
    },
    onPrefix: (prefix, listener) => {
      const listeners = prefixes.get(prefix) ?? new Set()
      prefixes.set(prefix, listeners.add(listener))
      return () => void listeners.delete(listener)
    },
    onLost: (listener) => {
      emitter.on(ALL, listener)
      return () => void emitter.off(ALL, listener)
    },
    connected: () => client !== null,
  }
}
