/**
 * The four lanes and their cards. Holds what is known of each todo and draws it; asks nobody.
 * Whatever came from outside goes into the page as text and in no other way.
 */

const MAX_CARDS = 50

/** Where a state's own name would not say it. */
const WORDS = { 'auth-required': 'needs sign-in', failed: 'dead letter' }

const make = (tag, className, text = '') => {
  const element = document.createElement(tag)
  element.className = className
  element.textContent = text
  return element
}

const span = (seconds) => {
  if (seconds < 60) return `${Math.max(0, Math.floor(seconds))} s`
  const minutes = Math.floor(seconds / 60)
  if (minutes < 60) return `${minutes} min`
  const hours = Math.floor(minutes / 60)
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} days`
}

/** As in the command line: up to here nothing is said of it. */
const IDLE_MS = 30_000

/**
 * How long a holder has shown no progress, in ms; 0 where that is nothing to speak of. Progress
 * makes no event, so only a list that was read after the silence had begun can tell of it:
 * `unsure` is a card that may be silent since the last one.
 */
export const idleOf = ({ phase, progressAt, readMs }, nowMs) => {
  if (phase !== 'held' || !progressAt) return { ms: 0, unsure: false }
  const since = Date.parse(progressAt)
  const silent = nowMs - since > IDLE_MS
  const known = readMs - since > IDLE_MS
  return { ms: silent && known ? nowMs - since : 0, unsure: silent && nowMs - readMs > IDLE_MS }
}

const clock = (time) => new Date(time).toLocaleTimeString()

/** The line under a card's title: what was asked or said last, or what went wrong. */
const said = ({ phase, said, error, retryAt }) => {
  const wrong = error ? [error.code, error.message].filter(Boolean).join(': ') : ''
  if (phase === 'waiting' && retryAt) return `tries again at ${clock(retryAt)}. ${wrong}`.trim()
  return said || wrong
}

/** What the lane does not say already. A failure that will be tried again is in its line. */
const wordOf = ({ phase, state }) => {
  if (phase === 'waiting') return ''
  return WORDS[state] ?? (phase === 'ended' ? state : '')
}

const meta = (card) => [
  card.queue,
  wordOf(card),
  card.attempt > 1
    ? `attempt ${card.attempt}${card.maxAttempts ? ` of ${card.maxAttempts}` : ''}`
    : '',
  card.phase === 'held' || card.phase === 'interrupted' ? (card.claimant ?? '') : '',
]

const draw = (element, card) => {
  element.dataset.state = card.state
  const [title, line, footer] = element.children
  title.textContent = card.title || `todo ${card.id.slice(0, 8)}`
  line.textContent = said(card)
  const age = make('time', 'age')
  age.dateTime = card.at
  age.title = new Date(card.at).toLocaleString()
  footer.replaceChildren(
    ...meta(card).map((text) => make('span', '', text)),
    make('span', 'idle'),
    age,
  )
}

const createElement = () => {
  const element = make('li', 'card')
  element.append(make('h3', ''), make('p', 'said'), make('p', 'meta'))
  // Or it would arrive again whenever it is moved.
  element.addEventListener('animationend', () => element.classList.remove('new'))
  return element
}

/** Brings a list's children into the order asked for, touching only what is out of place. */
const arrange = (list, elements) => {
  elements.forEach((element, place) => {
    if (list.children[place] !== element) list.insertBefore(element, list.children[place] ?? null)
  })
  while (list.children.length > elements.length) list.lastElementChild.remove()
}

/** `now()` is the server's time in ms, so that ages are right on a clock that is not. */
export const createLanes = (sections, now) => {
  const lanes = new Map(
    sections.map((section) => [section.dataset.phase, { section, total: 0, cards: [] }]),
  )
  /** By todo id: what is known, its element, and whether it needs drawing. */
  const known = new Map()
  let scheduled = false

  const render = () => {
    scheduled = false
    for (const entry of known.values()) {
      if (entry.drawn !== entry.card) draw(entry.element, entry.card)
      entry.drawn = entry.card
    }
    for (const [phase, { section, total }] of lanes) {
      const entries = entriesOf(phase)
      for (const { card } of entries.splice(MAX_CARDS)) known.delete(card.id)
      arrange(
        section.querySelector('ol'),
        entries.map(({ element }) => element),
      )
      section.querySelector('output').textContent = String(total)
      const more = total - entries.length
      section.querySelector('.more').textContent = more > 0 ? `and ${more} more` : ''
    }
    tell()
  }

  /** Newest first; questions oldest first, since who has waited longest comes first. */
  const entriesOf = (phase) => {
    const sign = phase === 'interrupted' ? 1 : -1
    return [...known.values()]
      .filter(({ card }) => card.phase === phase)
      .sort((a, b) => sign * (a.card.at < b.card.at ? -1 : a.card.at > b.card.at ? 1 : 0))
  }

  const schedule = () => {
    if (scheduled) return
    scheduled = true
    // A hidden page is not asked for frames, and must not pile up cards meanwhile.
    if (document.hidden) setTimeout(render, 1000)
    else requestAnimationFrame(render)
  }

  /** The ages, in place. */
  const tell = () => {
    for (const { element, card } of known.values()) {
      const age = element.querySelector('time')
      if (!age) continue
      age.textContent = span((now() - Date.parse(age.dateTime)) / 1000)
      const { ms } = idleOf(card, now())
      element.querySelector('.idle').textContent = ms > 0 ? `idle ${span(ms / 1000)}` : ''
    }
  }

  const put = (card) => {
    const entry = known.get(card.id) ?? { element: createElement() }
    if (entry.card?.phase !== card.phase) entry.element.classList.add('new')
    entry.card = card
    known.set(card.id, entry)
  }

  return {
    tell,
    /** Somebody may have fallen silent; a list would tell. */
    unsure: () => [...known.values()].some(({ card }) => idleOf(card, now()).unsure),
    total: (phase) => lanes.get(phase).total,

    /** Everything anew, from a snapshot: `{ [phase]: { total, todos } }`. */
    reset(snapshot) {
      const ids = new Set()
      for (const [phase, lane] of lanes) {
        lane.total = snapshot[phase].total
        for (const card of snapshot[phase].todos) {
          ids.add(card.id)
          put({ ...card, readMs: now() })
        }
      }
      for (const id of known.keys()) if (!ids.has(id)) known.delete(id)
      schedule()
    },

    /** One transition of the feed. False when the card's title is not known from it. */
    apply(event) {
      const before = known.get(event.id)?.card
      if (before && event.seq <= before.seq) return true
      const from = lanes.get(before?.phase ?? event.fromPhase)
      if (from) from.total = Math.max(0, from.total - 1)
      lanes.get(event.phase).total += 1
      const { text, note, error, retryAt } = event.detail ?? {}
      const title = before?.title ?? (event.from === null ? (text ?? '') : '')
      put({
        id: event.id,
        queue: event.queue,
        state: event.to,
        phase: event.phase,
        seq: event.seq,
        attempt: event.attempt,
        maxAttempts: before?.maxAttempts ?? null,
        claimant: event.claimant,
        title,
        said: event.from === null ? '' : (text ?? note ?? ''),
        error: error ?? null,
        retryAt: retryAt ?? null,
        at: event.at,
        progressAt: event.progressAt,
        readMs: Date.parse(event.at),
      })
      schedule()
      return title !== ''
    },
  }
}
