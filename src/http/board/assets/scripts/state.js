/**
 * What the page knows: cards, and how many there are in each lane. Facts arrive as snapshots,
 * events and cards, in whatever order the network gives them, and an older one never overwrites a
 * newer one. How it is shown is decided elsewhere.
 */

export const PHASES = ['waiting', 'held', 'interrupted', 'ended']

const newLane = () => ({ total: 0, token: '', window: 60, loading: false })

/** How many finished cards are kept unless somebody scrolls for more. Live ones always stay. */
const ENDED_KEPT = 500
/** The number of events between two prunings. */
const PRUNED_EACH = 100

/** `now()` is the server's time in ms. */
export const createState = (now) => {
  const cards = new Map()
  /** By id: the seq up to which the totals have counted it. */
  const counted = new Map()
  const state = {
    cards,
    lanes: Object.fromEntries(PHASES.map((phase) => [phase, newLane()])),
    dead: { total: 0, token: '', loaded: false, loading: false },
    countedTo: 10_000,
    changed: false,
  }

  const put = (card) => {
    const before = cards.get(card.id)
    if (before && before.seq > card.seq) return
    cards.set(card.id, {
      ...card,
      readMs: now(),
      fresh: before?.phase !== card.phase && before !== undefined,
    })
  }

  const takeTotals = (snapshot) => {
    for (const phase of PHASES) state.lanes[phase].total = snapshot.lanes[phase].total
    state.dead.total = snapshot.dead
    state.countedTo = snapshot.countedTo
    state.changed = false
  }

  const add = (lane, by) => {
    // A count that stopped at its limit is not a number to add to.
    if (lane.total < state.countedTo) lane.total = Math.max(0, lane.total + by)
  }

  const count = (event) => {
    if (event.seq <= (counted.get(event.id) ?? 0)) return
    counted.set(event.id, event.seq)
    if (event.phase === event.fromPhase) return
    if (event.fromPhase) add(state.lanes[event.fromPhase], -1)
    add(state.lanes[event.phase], 1)
    if (event.phase === 'ended' && event.to === 'failed') add(state.dead, 1)
  }

  let applied = 0
  const prune = () => {
    applied += 1
    if (
      applied % PRUNED_EACH !== 0 ||
      cards.size < 2 * ENDED_KEPT ||
      state.lanes.ended.window > ENDED_KEPT
    )
      return
    const ended = [...cards.values()].filter(({ phase }) => phase === 'ended')
    ended.sort((a, b) => (a.at < b.at ? -1 : 1))
    for (const { id } of ended.slice(0, Math.max(0, ended.length - ENDED_KEPT))) {
      cards.delete(id)
      counted.delete(id)
    }
  }

  return {
    ...state,
    get changed() {
      return state.changed
    },
    get countedTo() {
      return state.countedTo
    },

    /** Replaces everything. */
    reset(snapshot) {
      cards.clear()
      counted.clear()
      takeTotals(snapshot)
      state.dead.loaded = false
      for (const phase of PHASES) {
        const { todos, nextPageToken } = snapshot.lanes[phase]
        Object.assign(state.lanes[phase], { token: nextPageToken, window: 60, loading: false })
        for (const card of todos) {
          put(card)
          counted.set(card.id, card.seq)
        }
      }
    },

    /** Corrects the totals and the first cards; drops nothing. */
    refresh(snapshot) {
      takeTotals(snapshot)
      for (const phase of PHASES) for (const card of snapshot.lanes[phase].todos) put(card)
    },

    /** Adds the cards of a page, or of some todos. */
    put(todos) {
      for (const card of todos) {
        put(card)
        if (!counted.has(card.id)) counted.set(card.id, card.seq)
      }
    },

    /** One transition of the feed. */
    apply(event) {
      state.changed = true
      count(event)
      const before = cards.get(event.id)
      if (before && before.seq >= event.seq) return
      const { text, note, error, retryAt, notBefore, schedule, owed = 0 } = event.detail ?? {}
      cards.set(event.id, {
        ...before,
        id: event.id,
        queue: event.queue,
        contextId: event.contextId,
        state: event.to,
        phase: event.phase,
        seq: event.seq,
        attempt: event.attempt,
        maxAttempts: before?.maxAttempts ?? null,
        claimant: event.phase === 'held' || event.phase === 'interrupted' ? event.claimant : null,
        client: before?.client,
        author: event.author ?? before?.author ?? null,
        title: before?.title || (event.from === null ? (text ?? '') : ''),
        said: event.from === null ? '' : (text ?? note ?? ''),
        error: error ?? null,
        owed,
        retryAt: retryAt ?? null,
        notBefore: before?.notBefore ?? notBefore ?? null,
        schedule: before?.schedule ?? schedule ?? null,
        waitsBehind: null,
        // A question is shown from the whole card, which follows.
        question: null,
        progressAt: event.progressAt,
        readMs: Date.parse(event.at),
        at: event.at,
        createdAt: before?.createdAt ?? event.at,
        fresh: before !== undefined && before.phase !== event.phase,
        arrived: before === undefined,
      })
      prune()
    },
  }
}

const needleIn = (card, needle) =>
  [
    card.title,
    card.said,
    card.id,
    card.queue,
    card.contextId,
    card.claimant,
    card.client,
    card.author,
  ]
    .filter(Boolean)
    .some((text) => text.toLowerCase().includes(needle))

const byNewest = (a, b) => (a.at > b.at ? -1 : a.at < b.at ? 1 : a.id > b.id ? -1 : 1)

const deadlineOf = ({ question, at }) =>
  question?.deadline ? Date.parse(question.deadline) : Date.parse(at) + 1e12

/** Questions are ordered by the time they have left, everything else newest first. */
const ORDER = {
  waiting: byNewest,
  held: byNewest,
  interrupted: (a, b) => deadlineOf(a) - deadlineOf(b) || byNewest(b, a),
  ended: byNewest,
}

/** The cards of each lane that pass the filters, in order. */
export const arrange = (cards, { text, deadOnly }) => {
  const lanes = Object.fromEntries(PHASES.map((phase) => [phase, []]))
  const needle = text.trim().toLowerCase()
  for (const card of cards.values()) {
    if (deadOnly && card.phase === 'ended' && card.state !== 'failed') continue
    if (needle === '' || needleIn(card, needle)) lanes[card.phase].push(card)
  }
  for (const phase of PHASES) lanes[phase].sort(ORDER[phase])
  return lanes
}
