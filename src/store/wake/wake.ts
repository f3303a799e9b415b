/**
 * Wakes: hints that something may have changed, so that a waiter looks now and not at its next poll.
 * Losing one costs latency, never work. Inside the process a wake is heard at once. For other processes
 * wakes are gathered after the commit and sent over a bus (bus.ts): the first at once when the connection
 * was quiet, the rest together every few milliseconds. A process that hears of no other keeps its wakes to
 * itself, and only says now and then that it is there.
 */
import { randomUUID } from 'node:crypto'
import { EventEmitter } from 'node:events'
import type { Log } from '../../base/log.ts'
import type { Wake } from '../postgres/database.ts'
import type { WakeBus, WakeConnection } from './bus.ts'

const BATCH_MS = 5
/** The smallest bus carries a little less than 8000 bytes. */
const PAYLOAD_BYTES = 7000
/** More topics than this at once are sent as "look at everything". */
const TOPICS_AT_MOST = 2000
export const KEEP_ALIVE_MS = 10_000

/** Every listener hears it, since what was missed is unknown. */
const ALL = '*'
/** Asks who else is there. Any payload says that its sender is. */
const HELLO = '?'
/** How long others have to answer it, in ms. */
const HELLO_MS = 1000
/** How many signs of life in a row must be missing before the others count as gone. */
const SIGNS_MISSED = 4

export interface Wakes {
  /** Makes the first connection. Rejects where the database cannot be reached. */
  start(): Promise<void>
  /**
   * Listens until the signal fires. Rejects once the connection is lost or cannot be made anew, and its
   * supervisor then calls again. `onListening` is called when it listens.
   */
  run(signal: AbortSignal, onListening?: () => void): Promise<void>
  /** Sends what is left to send and closes the connection. */
  stop(): Promise<void>
  wake(wakes: readonly Wake[]): void
  /**
   * Calls back with the count whenever the topic is woken, here or elsewhere, and after a connection
   * was lost, since a wake may have been missed. Returns a function that ends it.
   */
  on(topic: string, listener: (count: number) => void): () => void
  /** Calls back for every topic that begins with `prefix`, with the rest of it. */
  onPrefix(prefix: string, listener: (rest: string, count: number) => void): () => void
  /** Calls back after a connection was lost and regained: wakes may have been missed. */
  onLost(listener: () => void): () => void
  connected(): boolean
}

export interface WakesOptions {
  bus: WakeBus
  log: Log
  onReconnect?: () => void
  /** How often, in ms, a silent connection is asked whether it is still there. */
  keepAliveMs?: number
}

/** Those who listen in this process, by topic. */
const createListeners = () => {
  const emitter = new EventEmitter()
  emitter.setMaxListeners(0)
  const prefixes = new Map<string, Set<(rest: string, count: number) => void>>()
  return {
    hear: (topic: string, count: number): void => {
      emitter.emit(topic, count)
      const colon = topic.indexOf(':')
      const listeners = colon > 0 ? prefixes.get(topic.slice(0, colon + 1)) : undefined
      for (const listener of listeners ?? []) listener(topic.slice(colon + 1), count)
    },
    hearLost: (): void => void emitter.emit(ALL),
    on: (topic: string, listener: (count: number) => void) => {
      const onAll = (): void => listener(1)
      emitter.on(topic, listener)
      emitter.on(ALL, onAll)
      return () => {
        emitter.off(topic, listener)
        emitter.off(ALL, onAll)
      }
    },
    onPrefix: (prefix: string, listener: (rest: string, count: number) => void) => {
      const listeners = prefixes.get(prefix) ?? new Set()
      prefixes.set(prefix, listeners.add(listener))
      return () => void listeners.delete(listener)
    },
    onLost: (listener: () => void) => {
      emitter.on(ALL, listener)
      return () => void emitter.off(ALL, listener)
    },
  }
}

/** What is sent of these topics, in as few payloads as the bus can carry. */
const payloadsOf = (self: string, topics: ReadonlyMap<string, number>): string[] => {
  if (topics.has(ALL) || topics.size > TOPICS_AT_MOST) return [`${self}\n${ALL}`]
  const full: string[] = []
  let text = self
  for (const [topic, count] of topics) {
    const entry = `\n${topic} ${count}`
    if (text.length + entry.length > PAYLOAD_BYTES) {
      full.push(text)
      text = self
    }
    text += entry
  }
  return [...full, text]
}

/**
 * Gathers what goes to the other processes, and sends it together. A connection that does not take it
 * is given up: the next one tells everybody to look at everything.
 */
const createOutgoing = (
  self: string,
  connection: () => WakeConnection | null,
  giveUp: (connection: WakeConnection) => void,
) => {
  let batched = new Map<string, number>()
  let timer: NodeJS.Timeout | null = null
  let sentAt = 0
  let sending = false
  let stopping = false

  const send = async (): Promise<void> => {
    timer = null
    const current = connection()
    if (!current || batched.size === 0) return
    const topics = batched
    batched = new Map()
    sentAt = performance.now()
    sending = true
    await current.send(payloadsOf(self, topics)).catch(() => giveUp(current))
    sending = false
    schedule()
  }

  /** Sends soon. While something is on its way, more is gathered. */
  const schedule = (): void => {
    if (timer || sending || stopping || !connection() || batched.size === 0) return
    const quiet = performance.now() - sentAt
    timer = setTimeout(() => void send(), quiet >= BATCH_MS ? 0 : BATCH_MS - quiet)
  }

  return {
    add: (topic: string, count: number): void => {
      batched.set(topic, (batched.get(topic) ?? 0) + count)
    },
    schedule,
    stop: (): Promise<void> => {
      stopping = true
      if (timer) clearTimeout(timer)
      return send()
    },
  }
}

export const createWakes = (options: WakesOptions): Wakes => {
  const { bus, log, onReconnect, keepAliveMs = KEEP_ALIVE_MS } = options
  const self = randomUUID().slice(0, 8)
  const listeners = createListeners()
  let connection: WakeConnection | null = null
  const outgoing = createOutgoing(
    self,
    () => connection,
    (failed) => lose(failed),
  )
  /** Called when the current connection is lost. */
  let onLose: () => void = () => {}
  /** Until when other processes count as being there. */
  let othersUntil = 0

  const isAlone = (): boolean => performance.now() > othersUntil

  const receive = (payload: string): void => {
    const [from, ...entries] = payload.split('\n')
    if (from === self) return
    // The sender has not heard what we kept to ourselves.
    const missed = isAlone()
    othersUntil = performance.now() + SIGNS_MISSED * keepAliveMs
    if (missed) wake([{ topic: ALL, count: 1 }])
    for (const entry of entries) {
      if (entry === ALL) listeners.hearLost()
      else if (entry === HELLO) void say()
      else {
        const space = entry.lastIndexOf(' ')
        listeners.hear(entry.slice(0, space), Number(entry.slice(space + 1)))
      }
    }
  }

  /** Says that we are there, and perhaps something with it. */
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
    // It may break before `connect` resolves.
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

  /** Wakes went nowhere while there was no connection, so everybody looks at everything. */
  const reconnect = async (signal: AbortSignal): Promise<void> => {
    const fresh = await connect()
    if (signal.aborted) return lose(fresh)
    onReconnect?.()
    log.info('the listening connection is back')
    listeners.hearLost()
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
      if (sends && only !== 'here') outgoing.add(topic, count)
      if (topic !== ALL && only !== 'elsewhere') listeners.hear(topic, count)
    }
    outgoing.schedule()
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
      await outgoing.stop()
      const last = connection
      connection = null
      await last?.close().catch(() => {})
    },
    wake,
    on: listeners.on,
    onPrefix: listeners.onPrefix,
    onLost: listeners.onLost,
    connected: () => connection !== null,
  }
}
