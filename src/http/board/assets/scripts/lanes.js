/** The four lanes, each with its count and a window of its cards that grows as one scrolls. */

import { guard } from 'lit/directives/guard.js'
import { repeat } from 'lit/directives/repeat.js'
import { html } from 'lit/html.js'
import { cardView, tickOf } from './card.js'
import { PHASES } from './state.js'

const NAMES = {
  waiting: ['Submitted', 'Nothing waits to start.'],
  held: ['Working', 'Nobody is working.'],
  interrupted: ['Waiting for an answer', 'No questions are open.'],
  ended: ['Finished', 'Nothing has finished yet.'],
}

const number = (total, countedTo) =>
  total >= countedTo ? `${countedTo.toLocaleString()}+` : total.toLocaleString()

/** What to do once the end of a lane comes into sight, by its button. */
const watchEnd = new Map()
const AGAIN_MS = 200
const endSeen = new IntersectionObserver(
  (entries) => {
    for (const { isIntersecting, target } of entries) {
      if (!isIntersecting) continue
      watchEnd.get(target)?.()
      // We hear of it only once, so where the end stays in sight it is observed again.
      endSeen.unobserve(target)
      setTimeout(() => watchEnd.has(target) && endSeen.observe(target), AGAIN_MS)
    }
  },
  { rootMargin: '600px' },
)

const lane = (view, phase) => {
  const { state, filters, board } = view
  const [name, empty] = NAMES[phase]
  const cards = view.arranged[phase]
  const { window } = state.lanes[phase]
  const shown = cards.slice(0, window)
  const isDead = phase === 'ended' && filters.deadOnly
  const source = isDead ? state.dead : state.lanes[phase]
  const more = cards.length > window || source.token !== ''
  const searching = filters.text.trim() !== ''
  const total = number(source.total, state.countedTo)
  return html`<section data-phase=${phase} aria-labelledby=${`lane-${phase}`}>
    <h2 id=${`lane-${phase}`}>
      ${isDead ? 'Dead letters' : name}
      <output>${searching ? `${cards.length} of ${total}` : total}</output>
    </h2>
    <ol tabindex="-1">
      ${repeat(
        shown,
        ({ id }) => id,
        (card) => {
          const front = board.cards.get(card.waitsBehind)
          const shows = [card, board.me, board.fateTick, tickOf(card, board.now), front]
          return guard(shows, () => cardView(card, board))
        },
      )}
    </ol>
    ${shown.length === 0 && !source.loading ? html`<p class="empty">${searching ? 'Nothing here matches.' : empty}</p>` : ''}
    ${
      more
        ? html`<button class="more" type="button" data-more=${phase} @click=${() => view.more(phase)}>
            More
          </button>`
        : ''
    }
  </section>`
}

export const lanesView = (view) =>
  html`<main id="board" aria-label="Todos">${PHASES.map((phase) => lane(view, phase))}</main>`

/** Called after each drawing, to find the ends of the lanes that are on the page. */
export const watchEnds = (root, more) => {
  for (const [button] of watchEnd) {
    if (button.isConnected) continue
    endSeen.unobserve(button)
    watchEnd.delete(button)
  }
  for (const button of root.querySelectorAll('button.more')) {
    if (watchEnd.has(button)) continue
    watchEnd.set(button, () => more(button.dataset.more))
    endSeen.observe(button)
  }
}
