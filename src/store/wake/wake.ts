/**
 * Wakes: hints that something may have changed, so that a waiter looks now and not at its next
 * poll. Losing one costs latency, never work. Inside the process a ring is heard at once. For the
 * other processes rings are gathered and sent after the commit, over a bus (bus.ts): the first
 * at once when the line was quiet, then together each few milliseconds. A process that hears of no
 * other keeps its rings to itself, and says only now and then that it is there.
 */
import { randomUUID } from 'node:crypto'
import { EventEmitter } from 'node:events'
import type { Log } from '../../base/log.ts'
import type { Wake } from '../postgres/database.ts'
import type { WakeBus, WakeConnection } from './bus.ts'

const BATCH_MS = 5
/** The smallest bus takes 8000 bytes less a few. */
const PAYLOAD_BYTES = 7000
/** More topics than this in one gathering are sent as "look at everything". */
const TOPICS_AT_MOST = 2000
const KEEP_ALIVE_MS = 10_000

/** Heard by every listener: what was missed is unknown. */
const ALL = '*'
/** Asks who else is there. Any payload tells that its sender is. */
const HELLO = '?'
/** How long others have to answer it, in ms. */
const HELLO_MS = 1000
/** Of so many signs of life in a row all have to be missing before nobody is there. */
const SIGNS_MISSED = 4

export interface Wakes {
  /** Makes the first connection. Rejects where the database cannot be reached. */
  start(): Promise<void>
  /**
   * Listens until the signal fires. Rejects once the connection is lost, or cannot be made anew:
   * whoever supervises it calls again. `onListening` is told when it listens.
   */
  run(signal: AbortSignal, onListening?: () => void): Promise<void>
  /** Sends what was rung and closes the connection. */
  stop(): Promise<void>
  wake(wakes: readonly Wake[]): void
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

export interface WakesOptions {
  bus: WakeBus
  log: Log
  onReconnect?: () => void
  /** How often a connection that says nothing is asked whether it is still there. */
  keepAliveMs?: number
}

export const createWakes = (options: WakesOptions): Wakes => {
  const { bus, log, onReconnect, keepAliveMs = KEEP_ALIVE_MS } = options
  const self = randomUUID().slice(0, 8)
  const emitter = new EventEmitter()
  emitter.setMaxListeners(0)
  const prefixes = new Map<string, Set<(rest: string, count: number) => void>>()
  let connection: WakeConnection | null = null
  let stopping = false
  let batched = new Map<string, number>()
  let timer: NodeJS.Timeout | null = null
  let sentAt = 0
  let sending = false
  /** Told when the connection there is now is lost. */
  let onLose: () => void = () => {}
  /** Until when somebody else is taken to be there. */
  let othersUntil = 0

  const isAlone = (): boolean => performance.now() > othersUntil

  const hear = (topic: string, count: number): void => {
    emitter.emit(topic, count)
    const colon = topic.indexOf(':')
    const listeners = colon > 0 ? prefixes.get(topic.slice(0, colon + 1)) : undefined
    for (const listener of listeners ?? []) listener(topic.slice(colon + 1), count)
  }

  const hearLost = (): void => void emitter.emit(ALL)

  const receive = (payload: string): void => {
    const [from, ...entries] = payload.split('\n')
    if (from === self) return
    // It has not heard what was kept from it.
    const missed = isAlone()
    othersUntil = performance.now() + SIGNS_MISSED * keepAliveMs
    if (missed) wake([{ topic: ALL, count: 1 }])
    for (const entry of entries) {
      if (entry === ALL) hearLost()
      else if (entry === HELLO) void say()
      else {
        const space = entry.lastIndexOf(' ')
        hear(entry.slice(0, space), Number(entry.slice(space + 1)))
      }
    }
  }

  const payloads = (topics: ReadonlyMap<string, number>): string[] => {
    if (topics.has(ALL) || topics.size > TOPICS_AT_MOST) return [`${self}\n${ALL}`]
    const lines: string[] = []
    let text = self
    for (const [topic, count] of topics) {
      const entry = `\n${topic} ${count}`
      if (text.length + entry.length > PAYLOAD_BYTES) {
        lines.push(text)
        text = self
      }
      text += entry
    }
    lines.push(text)
    return lines
  }

  const send = async (): Promise<void> => {
    timer = null
    if (!connection || batched.size === 0) return
    const topics = batched
    batched = new Map()
    sentAt = performance.now()
    sending = true
    // The connection's own error handling follows; the polls make up for it.
    await connection.send(payloads(topics)).catch(() => {})
    sending = false
    schedule()
  }

  /** Sends what is gathered, soon. While something is on its way more is gathered. */
  const schedule = (): void => {
    if (timer || sending || stopping || !connection || batched.size === 0) return
    const quiet = performance.now() - sentAt
    timer = setTimeout(() => void send(), quiet >= BATCH_MS ? 0 : BATCH_MS - quiet)
  }

  /** That we are there, and perhaps something with it. */
  const say = async (what?: string): Promise<void> => {
    await connection?.send([what === undefined ? self : `${self}\n${what}`]).catch(() => {})
  }

  const lose = (lost: WakeConnection): void => {
    if (connection !== lost) return
    connection = null
    lost.close().catch(() => {})
    onLose()
  }

  const connect = async (): Promise<WakeConnection> => {
    let gone = false
    let fresh: WakeConnection | null = null
    // It may break before we have it in hand.
    const opened = await bus.connect(receive, () => {
      gone = true
      if (fresh) lose(fresh)
    })
    fresh = opened
    connection = opened
    othersUntil = performance.now() + HELLO_MS
    if (gone) lose(opened)
    else void say(HELLO)
    return opened
  }

  /** What was rung here or elsewhere without a connection went nowhere: everybody looks at all. */
  const reconnect = async (signal: AbortSignal): Promise<void> => {
    const fresh = await connect()
    if (signal.aborted) return lose(fresh)
    onReconnect?.()
    log.info('the listening connection is back')
    hearLost()
    wake([{ topic: ALL, count: 1 }])
  }

  /** A connection can die without a word; asking is the only way to notice. */
  const check = (): void => {
    const checked = connection
    if (!checked) return
    checked.check().catch(() => {
      if (connection !== checked) return
      log.warn('the listening connection stopped answering')
      lose(checked)
    })
    void say()
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
      else if (!connection) onLose()
    })

  const wake = (wakes: readonly Wake[]): void => {
    const sends = connection !== null && !isAlone()
    for (const { topic, count, only } of wakes) {
      if (sends && only !== 'here') batched.set(topic, (batched.get(topic) ?? 0) + count)
      if (topic !== ALL && only !== 'elsewhere') hear(topic, count)
    }
    schedule()
  }

  return {
    start: async () => {
      await connect()
    },
    run: async (signal, onListening) => {
      if (!connection) await reconnect(signal)
      if (connection) onListening?.()
      await untilLost(signal)
    },
    stop: async () => {
      stopping = true
      if (timer) clearTimeout(timer)
      await send()
      const last = connection
      connection = null
      await last?.close().catch(() => {})
    },
    wake,
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
    connected: () => connection !== null,
  }
}
