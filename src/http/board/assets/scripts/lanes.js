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

const countText = (view, phase, cards) => {
  const { filters, state } = view
  const dead = phase === 'ended' && filters.deadOnly
  const total = number(dead ? state.dead.total : state.lanes[phase].total, state.countedTo)
  return filters.text.trim() === '' ? total : `${cards.length} of ${total}`
}

/** More of a lane once its end comes into sight. */
const watchEnd = new Map()
const AGAIN_MS = 200
const endSeen = new IntersectionObserver(
  (entries) => {
    for (const { isIntersecting, target } of entries) {
      if (!isIntersecting) continue
      watchEnd.get(target)?.()
      // It is told once: where the end stays in sight, it is looked at again.
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
  const source = phase === 'ended' && filters.deadOnly ? state.dead : state.lanes[phase]
  const more = cards.length > window || source.token !== ''
  const blank = filters.text.trim() === '' ? empty : 'Nothing here matches.'
  return html`<section data-phase=${phase} aria-labelledby=${`lane-${phase}`}>
    <h2 id=${`lane-${phase}`}>
      ${phase === 'ended' && filters.deadOnly ? 'Dead letters' : name}
      <output>${countText(view, phase, cards)}</output>
    </h2>
    <ol tabindex="-1">
      ${repeat(
        shown,
        ({ id }) => id,
        (card) =>
          guard(
            [
              card,
              board.me,
              board.fateTick,
              tickOf(card, board.now),
              board.cards.get(card.waitsBehind),
            ],
            () => cardView(card, board),
          ),
      )}
    </ol>
    ${shown.length === 0 && !source.loading ? html`<p class="empty">${blank}</p>` : ''}
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

/** After each drawing: the ends of lanes that are on the page are looked for. */
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
