/**
 * The board's page: log in, take a snapshot, follow the feed, say truly whether it is live. A
 * snapshot is taken whenever the feed cannot say what was missed, and then now and again to put
 * right what only a snapshot knows. Snapshots and events are taken one after the other, so that
 * an event is never overtaken by an older snapshot.
 */
import { createLanes } from './lanes.js'
import { follow } from './stream.js'

/**
 * At most this often where a card is unknown or may have fallen silent, and this often where
 * anything has happened.
 */
const SOON_MS = 5000
const LATER_MS = 60_000

const at = (id) => document.getElementById(id)
const urlOf = (path, query = '') => new URL(path + query, import.meta.url)

let clockOffsetMs = 0
const lanes = createLanes(
  [...document.querySelectorAll('section[data-phase]')],
  () => Date.now() + clockOffsetMs,
)

const queue = () => new URLSearchParams(location.search).get('queue') ?? ''
const query = () => (queue() ? `?queue=${encodeURIComponent(queue())}` : '')

const LIGHT = {
  connecting: 'connecting',
  live: 'live',
  lost: 'not connected',
  out: 'not logged in',
}

const setLight = (state) => {
  at('light').dataset.state = state
  at('light').textContent = LIGHT[state]
  document.body.toggleAttribute('data-stale', state === 'lost')
}

const setTrouble = (text) => {
  at('trouble').textContent = text
  at('trouble').hidden = text === ''
}

const setTitle = () => {
  const asked = lanes.total('interrupted')
  document.title = asked > 0 ? `(${asked}) switchboard` : 'switchboard'
}

/* One thing at a time. */
let turn = Promise.resolve()
const inTurn = (work) => {
  const done = turn.then(work)
  turn = done.catch(() => undefined)
  return done
}

let takenAt = 0
let changed = false
let incomplete = false

const takeSnapshot = async (signal) => {
  try {
    const answer = await fetch(urlOf('./todos', query()), {
      cache: 'no-store',
      signal: AbortSignal.any([signal, AbortSignal.timeout(15_000)]),
    })
    if (!answer.ok) throw new Error(`the server answered ${answer.status}`)
    clockOffsetMs = Date.parse(answer.headers.get('date')) - Date.now() || 0
    const { lanes: snapshot, queues } = await answer.json()
    lanes.reset(snapshot)
    showQueues(queues)
    changed = incomplete = false
    setTrouble('')
    setTitle()
  } catch (error) {
    if (!signal.aborted) setTrouble(`The list of todos could not be read: ${error.message}.`)
    throw error
  } finally {
    takenAt = performance.now()
  }
}

const showQueues = (names) => {
  const options = [...new Set([...names, queue()].filter(Boolean))].sort()
  const select = at('queue')
  if (
    options.join() !==
    [...select.options]
      .slice(1)
      .map(({ value }) => value)
      .join()
  ) {
    const all = select.options[0]
    select.replaceChildren(all, ...options.map((name) => new Option(name, name)))
  }
  select.value = queue()
}

const showBoard = (shown) => {
  at('login').hidden = shown
  at('board').hidden = !shown
  at('logout').hidden = !shown
  at('queue').parentElement.hidden = !shown
}

let watching = new AbortController()

/** Begins anew: after a login, and when another queue is chosen. */
const watch = () => {
  watching.abort()
  watching = new AbortController()
  const { signal } = watching
  setLight('connecting')
  return follow(urlOf('./events', query()), signal, {
    open: async (resumed) => {
      // The feed began before its headers came, and so before this list is read.
      if (!resumed) await inTurn(() => takeSnapshot(signal))
      showBoard(true)
      setLight('live')
    },
    event: (kind, data) =>
      inTurn(async () => {
        if (signal.aborted) return
        if (kind === 'gap') await takeSnapshot(signal)
        if (kind !== 'transition') return
        changed = true
        if (!lanes.apply(data)) incomplete = true
        setTitle()
      }),
    lost: () => setLight('lost'),
    refused: (status) => {
      if (status === 403) {
        setLight('lost')
        showBoard(true)
        return setTrouble('You may not watch this.')
      }
      setLight('out')
      setTrouble('')
      showBoard(false)
      at('token').focus()
    },
  })
}

setInterval(() => {
  if (document.hidden) return
  lanes.tell()
  const age = performance.now() - takenAt
  if (at('light').dataset.state !== 'live') return
  const soon = (incomplete || lanes.unsure()) && age > SOON_MS
  if (soon || (changed && age > LATER_MS)) {
    takenAt = performance.now()
    inTurn(() => takeSnapshot(watching.signal)).catch(() => undefined)
  }
}, 1000)

at('queue').addEventListener('change', ({ target }) => {
  const here = new URL(location.href)
  if (target.value) here.searchParams.set('queue', target.value)
  else here.searchParams.delete('queue')
  history.replaceState(null, '', here)
  void watch()
})

at('login').addEventListener('submit', async (event) => {
  event.preventDefault()
  const token = at('token').value.trim()
  at('token').value = ''
  at('login-error').textContent = ''
  try {
    const answer = await fetch(urlOf('./login'), {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({ token }),
    })
    if (answer.ok) return void watch()
    const { error } = await answer.json()
    at('login-error').textContent = error.message
  } catch {
    at('login-error').textContent = 'The server cannot be reached.'
  }
})

at('logout').addEventListener('click', async () => {
  watching.abort()
  await fetch(urlOf('./logout'), { method: 'POST' }).catch(() => undefined)
  location.reload()
})

void watch()
