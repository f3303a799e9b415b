/**
 * The one event stream of all tabs of the board in a browser. Over HTTP/1.1 a browser has six
 * connections to a server, so a stream for each tab would leave none for what people do in them. The
 * stream is of everything that whoever is logged in may watch; each tab is told what passes its
 * filter, and reads its snapshot itself.
 */
import { follow } from './follow.js'

/** How many events a tab may leave unread. A tab that sleeps starts over when it wakes up. */
const UNREAD_AT_MOST = 5000

/** By port: its filter while it watches, what it has not read, and whether it has a network. */
const tabs = new Map()
const newTab = () => ({ query: null, key: 0, unread: 0, missed: false, online: true })
let reading = null
/** What was said last of the connection, for tabs that come later. */
let last = null

const url = new URL('../events?snapshot=none', import.meta.url)

const watching = () => [...tabs].filter(([, tab]) => tab.query !== null)

const tell = (port, { key }, message) => port.postMessage({ ...message, key })

const say = (message) => {
  last = message
  for (const [port, tab] of watching()) tell(port, tab, message)
}

const passes = ({ queue, context }, event) =>
  (!queue || queue.split(',').includes(event.queue)) && (!context || context === event.contextId)

/** Each tab parses it anew: numbers that keep their digits do not pass from one thread to another. */
const hand = (name, data) => {
  const content = JSON.parse(data)
  for (const [port, tab] of watching()) {
    if (name === 'transition' && !passes(tab.query, content)) continue
    if (tab.unread >= UNREAD_AT_MOST) {
      tab.missed = true
      continue
    }
    tab.unread += 1
    tell(port, tab, { kind: 'event', name, data })
  }
}

/** A tab that missed something hears of it once it has read most of what it was sent. */
const took = (port, tab, { count, key }) => {
  if (key !== tab.key) return
  tab.unread -= count
  if (!tab.missed || tab.unread > UNREAD_AT_MOST / 2) return
  tab.missed = false
  tell(port, tab, { kind: 'event', name: 'gap', data: '{}' })
}

const isOnline = () =>
  globalThis.navigator.onLine !== false && watching().every(([, { online }]) => online)

const start = () => {
  const attempt = new AbortController()
  const { signal } = attempt
  reading = attempt
  last = null
  void follow(url, signal, {
    isOnline,
    open: (resumed) => signal.aborted || say({ kind: 'open', resumed }),
    event: (kind, data) => {
      if (!signal.aborted && (kind === 'transition' || kind === 'gap')) hand(kind, data)
    },
    lost: (since) => signal.aborted || say({ kind: 'lost', since }),
    refused: (status) => {
      reading = null
      say({ kind: 'refused', status })
    },
  })
}

const stop = () => {
  reading?.abort()
  reading = null
}

const HEAR = {
  watch: (port, tab, { query, key }) => {
    Object.assign(tab, { query, key, unread: 0, missed: false })
    if (!reading) start()
    // Who comes later has missed everything before.
    else if (last) tell(port, tab, last.kind === 'open' ? { kind: 'open', resumed: false } : last)
  },
  stop: (_port, tab) => {
    tab.query = null
    if (watching().length === 0) stop()
  },
  leave: (port) => {
    tabs.delete(port)
    if (watching().length === 0) stop()
  },
  /** Somebody else may be logged in now. */
  renew: () => {
    stop()
    if (watching().length > 0) start()
  },
  took,
  network: (_port, tab, { online }) => {
    tab.online = online
    globalThis.dispatchEvent(new Event(isOnline() ? 'online' : 'offline'))
  },
}

globalThis.addEventListener('connect', ({ ports: [port] }) => {
  port.onmessage = ({ data }) => {
    // A page that comes back from the browser's cache had left.
    const tab = tabs.get(port) ?? newTab()
    tabs.set(port, tab)
    HEAR[data.kind](port, tab, data)
  }
  port.postMessage({ kind: 'hello' })
})
