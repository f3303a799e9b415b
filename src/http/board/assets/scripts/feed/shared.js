/**
 * The feed as a tab sees it. All tabs of the board share one stream, which a SharedWorker reads
 * (worker.js). A browser that has none, or cannot start ours, reads a stream for each tab, and only
 * while that tab is looked at, so that the connections suffice for what people do.
 */
import { parseJson, urlOf } from '../api.js'
import { follow } from './follow.js'

const HELLO_WITHIN_MS = 10_000
/** How many events are read before the worker hears of it. */
const TELL_EACH = 200

const policy = globalThis.trustedTypes?.createPolicy('switchboard', {
  createScriptURL: (url) => url,
})

const open = () => {
  const script = new URL('./worker.js', import.meta.url).href
  return new SharedWorker(policy ? policy.createScriptURL(script) : script, {
    type: 'module',
    name: 'switchboard feed 1',
  })
}

/** A stream of this tab's own. */
const readAlone = (query, signal, handlers) => {
  let reading = null
  const look = () => {
    if (signal.aborted || document.hidden) {
      reading?.abort()
      reading = null
    } else if (!reading) {
      reading = new AbortController()
      void follow(urlOf('events', { ...query, snapshot: 'none' }), reading.signal, {
        ...handlers,
        event: (name, data) => handlers.event(name, parseJson(data)),
      })
    }
  }
  document.addEventListener('visibilitychange', look)
  signal.addEventListener('abort', () => {
    document.removeEventListener('visibilitychange', look)
    look()
  })
  look()
}

export const createFeed = () => {
  let port = null
  let alone = typeof SharedWorker === 'undefined'
  /** What the tab watches now. */
  let current = null
  let count = 0
  /** Tells what this subscription is told from what one before it was. */
  let key = 0

  const send = (message) => port?.postMessage(message)

  const goAlone = () => {
    if (alone) return
    alone = true
    send({ kind: 'leave' })
    port = null
    if (current) readAlone(current.query, current.signal, current.handlers)
  }

  const hear = ({ kind, resumed, name, data, since, status, ...told }) => {
    if (!current || told.key !== key) return
    const { handlers } = current
    if (kind === 'open') handlers.open(resumed)
    if (kind === 'lost') handlers.lost(since)
    if (kind === 'refused') handlers.refused(status)
    if (kind !== 'event') return
    handlers.event(name, parseJson(data))
    count += 1
    if (count % TELL_EACH === 0) send({ kind: 'took', count: TELL_EACH, key })
  }

  const connect = () => {
    if (alone || port) return
    try {
      const worker = open()
      port = worker.port
      const late = setTimeout(goAlone, HELLO_WITHIN_MS)
      worker.onerror = () => {
        clearTimeout(late)
        goAlone()
      }
      port.onmessage = ({ data }) => {
        if (data.kind === 'hello') clearTimeout(late)
        else hear(data)
      }
    } catch {
      goAlone()
    }
  }

  const watch = () => {
    if (alone) return readAlone(current.query, current.signal, current.handlers)
    connect()
    count = 0
    key += 1
    send({ kind: 'network', online: navigator.onLine })
    send({ kind: 'watch', query: current.query, key })
  }

  for (const event of ['online', 'offline']) {
    addEventListener(event, () => send({ kind: 'network', online: navigator.onLine }))
  }
  addEventListener('pagehide', () => send({ kind: 'leave' }))
  addEventListener('pageshow', ({ persisted }) => persisted && !alone && current && watch())

  return {
    /** Until `signal` fires. The handlers are those of follow(); what an event passes is `query`. */
    watch: (query, signal, handlers) => {
      const mine = { query, signal, handlers }
      current = mine
      signal.addEventListener('abort', () => {
        if (current !== mine) return
        current = null
        send({ kind: 'stop' })
      })
      watch()
    },
    renew: () => send({ kind: 'renew' }),
  }
}
