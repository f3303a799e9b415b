/**
 * Keeps the state true. It reads a snapshot, applies the feed's events as they come, reads whole cards
 * where an event holds only a part, and now and then reads the totals again. Where the feed cannot
 * say what was missed, it starts over.
 */
import { read, serverNow } from './api.js'
import { createFeed } from './feed/shared.js'
import { idleOf } from './words.js'

const CARDS_AT_ONCE = 100
const CARDS_WAITING = 2000
const SOON_MS = 120
const HELD_AGAIN_MS = 10_000
const TOTALS_AGAIN_MS = 30_000
const PAGE = 200
/** Questions are ordered by the time they have left, so all of them must be here. */
const QUESTIONS = 1000
/** How many events may come while a snapshot is read, and how soon a failed one is read again. */
const EARLY_AT_MOST = 10_000
const AGAIN_MS = 2000

export const createWatch = ({ state, changed, moved, connection }) => {
  const feed = createFeed()
  let watching = new AbortController()
  let query = {}
  let totalsAt = performance.now()
  let heldAt = 0

  /* Whole cards of todos that moved are read by one request at a time, the newest first. */
  const wanted = new Set()
  let fetching = false

  const fetchCards = async (signal) => {
    if (fetching) return
    fetching = true
    try {
      await new Promise((resolve) => setTimeout(resolve, SOON_MS))
      while (wanted.size > 0 && !signal.aborted) {
        const ids = [...wanted].slice(-CARDS_AT_ONCE)
        for (const id of ids) wanted.delete(id)
        const { todos } = await read('todos', { ids: ids.join(',') }, signal)
        state.put(todos)
        changed()
      }
    } catch {
      // They are asked for again when they move, or when somebody looks at them.
    } finally {
      fetching = false
    }
  }

  const want = (ids) => {
    for (const id of ids) {
      wanted.delete(id)
      wanted.add(id)
    }
    for (const id of wanted) {
      if (wanted.size <= CARDS_WAITING) break
      wanted.delete(id)
    }
    if (wanted.size > 0) void fetchCards(watching.signal)
  }

  /** The next page of a lane; resolves to whether there was one. */
  const page = async (lane, source) => {
    if (source.loading || (source.token === '' && source.loaded !== false)) return false
    source.loading = true
    const { signal } = watching
    try {
      const found = await read(
        'todos',
        { ...query, lane, pageSize: PAGE, pageToken: source.token },
        signal,
      )
      source.token = found.nextPageToken
      if (lane === 'dead') source.loaded = true
      state.put(found.todos)
      return true
    } catch {
      return false
    } finally {
      source.loading = false
      changed()
    }
  }

  const allQuestions = async (signal) => {
    const lane = state.lanes.interrupted
    const count = () =>
      [...state.cards.values()].filter(({ phase }) => phase === 'interrupted').length
    while (!signal.aborted && lane.token !== '' && count() < QUESTIONS) {
      if (!(await page('interrupted', lane))) return
    }
  }

  const totals = async () => {
    totalsAt = performance.now()
    const { signal } = watching
    try {
      const snapshot = await read('todos', query, signal)
      if (!signal.aborted) state.refresh(snapshot)
    } catch {
      // The light says whether there is a connection, and the next reading puts it right.
    }
    changed()
  }

  const handlers = (signal, again) => {
    /** Of the snapshot under way, events that came since its feed was opened; null after it. */
    let early = []
    let reading = 0

    const apply = (data) => {
      state.apply(data)
      moved(data)
      want([data.id])
    }

    const load = async () => {
      reading += 1
      const mine = reading
      early = []
      try {
        const snapshot = await read('todos', query, signal)
        if (signal.aborted || mine !== reading) return
        state.reset(snapshot)
        // What the snapshot holds already would be counted twice.
        for (const data of early) if (data.position > snapshot.position) apply(data)
        early = null
        connection({ kind: 'live' })
        void allQuestions(signal)
        changed()
      } catch (error) {
        if (signal.aborted || mine !== reading) return
        if (error.status === 401) connection({ kind: 'out' })
        else if (error.status === 403) connection({ kind: 'refused' })
        else again(AGAIN_MS)
      }
    }

    return {
      // A board is not live before it has its snapshot.
      open: (resumed) => {
        if (!resumed || early !== null) void load()
        else connection({ kind: 'live' })
      },
      event: (kind, data) => {
        if (signal.aborted) return
        if (kind === 'gap') return again(0)
        if (kind !== 'transition') return
        if (early === null) apply(data)
        else if (early.push(data) > EARLY_AT_MOST) again(AGAIN_MS)
        changed()
      },
      lost: (since) => connection({ kind: 'lost', since }),
      refused: (status) => connection({ kind: status === 403 ? 'refused' : 'out' }),
    }
  }

  const start = (next) => {
    watching.abort()
    watching = new AbortController()
    wanted.clear()
    query = next
    const { signal } = watching
    connection({ kind: 'connecting' })
    const again = (ms) => void setTimeout(() => !signal.aborted && start(query), ms)
    feed.watch(query, signal, handlers(signal, again))
  }

  return {
    start,
    stop: () => watching.abort(),
    /** Somebody else may be logged in: what the feed tells is theirs. */
    renew: feed.renew,
    page,
    /** Called each second, for what only time or silence changes. */
    tick() {
      if (document.hidden || watching.signal.aborted) return
      const now = performance.now()
      if (state.changed && now - totalsAt > TOTALS_AGAIN_MS) void totals()
      if (now - heldAt < HELD_AGAIN_MS) return
      heldAt = now
      // Progress makes no event, so todos at work are read again, those that may be silent first.
      const held = [...state.cards.values()].filter(({ phase }) => phase === 'held')
      const unsure = held.filter((card) => idleOf(card, serverNow()).unsure)
      want([...unsure, ...held].slice(0, CARDS_AT_ONCE).map(({ id }) => id))
    },
  }
}
