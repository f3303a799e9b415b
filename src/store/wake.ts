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
import { withTimeout } from '../base/time.ts'
import type { Ring } from './database.ts'

const CHANNEL = 'switchboard'
const GATHER_MS = 5
/** PostgreSQL refuses payloads of 8000 bytes and more. */
const PAYLOAD_BYTES = 7000
/** More topics than this in one gathering are sent as "look at everything". */
const TOPICS_AT_MOST = 2000
const KEEP_ALIVE_MS = 10_000
const ANSWER_MS = 5000

/** Heard by every listener: what was missed is unknown. */
const ALL = '*'

export interface Wake {
  /** Makes the first connection. Rejects where the database cannot be reached. */
  start(): Promise<void>
  /**
   * Listens until the signal fires. Rejects once the connection is lost, or cannot be made anew:
   * whoever supervises it calls again. `onListening` is told when it listens.
   */
  run(signal: AbortSignal, onListening?: () => void): Promise<void>
  /** Sends what was rung and closes the connection. */
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
  /** How often a connection that says nothing is asked whether it is still there. */
  keepAliveMs?: number
  /** How long it may take to answer. */
  answerMs?: number
}

export const createWake = (options: WakeOptions): Wake => {
  const { connectionString, log, onReconnect } = options
  const { keepAliveMs = KEEP_ALIVE_MS, answerMs = ANSWER_MS } = options
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
  /** Told when the connection there is now is lost. */
  let onLose: () => void = () => {}

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

  const lose = (lost: pg.Client): void => {
    if (client !== lost) return
    client = null
    lost.end().catch(() => {})
    onLose()
  }

  const connect = async (): Promise<pg.Client> => {
    const fresh = new pg.Client({
      connectionString,
      application_name: 'switchboard wake',
      connectionTimeoutMillis: answerMs,
      query_timeout: answerMs,
      keepAlive: true,
    })
    fresh.on('error', () => lose(fresh))
    fresh.on('end', () => lose(fresh))
    fresh.on('notification', ({ payload }) => receive(payload ?? ''))
    try {
      await fresh.connect()
      await fresh.query(`listen ${CHANNEL}`)
    } catch (error) {
      fresh.end().catch(() => {})
      throw error
    }
    asked = Promise.resolve()
    client = fresh
    return fresh
  }

  /** What was rung here or elsewhere without a connection went nowhere: everybody looks at all. */
  const reconnect = async (signal: AbortSignal): Promise<void> => {
    const fresh = await connect()
    if (signal.aborted) return lose(fresh)
    onReconnect?.()
    log.info('the listening connection is back')
    hearLost()
    ring([{ topic: ALL, count: 1 }])
  }

  /** A connection can die without a word; asking is the only way to notice. */
  const check = (): void => {
    const checked = client
    if (!checked) return
    ask(checked, 'select 1').catch(() => {
      if (client !== checked) return
      log.warn('the listening connection stopped answering')
      lose(checked)
    })
  }

  /** Resolves when the signal fires, rejects when the connection is lost before. */
  const untilLost = (signal: AbortSignal): Promise<void> =>
    new Promise((resolve, reject) => {
      const keepAlive = setInterval(check, keepAliveMs)
      const end = (settle: () => void) => (): void => {
        clearInterval(keepAlive)
        signal.removeEventListener('abort', stop)
        onLose = () => {}
        settle()
      }
      const stop = end(resolve)
      onLose = end(() => reject(new Error('the listening connection was lost: polling meanwhile')))
      signal.addEventListener('abort', stop, { once: true })
      if (signal.aborted) stop()
      else if (!client) onLose()
    })

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
    },
    run: async (signal, onListening) => {
      if (!client) await reconnect(signal)
      if (client) onListening?.()
      await untilLost(signal)
    },
    stop: async () => {
      stopping = true
      if (timer) clearTimeout(timer)
      await send()
      const last = client
      client = null
      // A peer that is gone does not answer the farewell.
      if (last) await withTimeout(answerMs, 'closing', () => last.end()).catch(() => {})
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
