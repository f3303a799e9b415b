/** What stands above the lanes: the light, the filters, the numbers of the moment and the plots. */

import { live } from 'lit/directives/live.js'
import { html } from 'lit/html.js'
import { clock, idleOf, QUIET_MS, span } from './words.js'

const light = ({ kind, since }) => {
  if (kind === 'lost') return `reconnecting, stale since ${clock(since)}`
  return { connecting: 'connecting', live: 'live', out: 'not logged in', refused: 'not allowed' }[
    kind
  ]
}

const lightView = (connection) =>
  html`<p id="light" class="light" role="status" data-state=${connection.kind}>${light(connection)}</p>`

const queueSelect = ({ filters, me, setFilter }) => {
  const names = [...new Set([...me.queues, filters.queue].filter(Boolean))].sort()
  return html`<label class="filter"
    ><span class="hidden">Queue</span>
    <select id="queue" .value=${live(filters.queue)} @change=${({ target }) => setFilter({ queue: target.value })}>
      <option value="">all queues</option>
      ${names.map((name) => html`<option value=${name} ?selected=${name === filters.queue}>${name}</option>`)}
    </select></label
  >`
}

const typed =
  (name, set) =>
  ({ target }) =>
    set({ [name]: target.value })

export const headView = (view) => {
  const { connection, me, filters, setFilter, state } = view
  return html`<header>
    <h1><a href="#">switchboard</a></h1>
    ${lightView(connection)}
    ${
      me
        ? html`<div class="filters" role="search">
              ${queueSelect(view)}
              <label class="filter"
                ><span class="hidden">Context</span>
                <input id="context" placeholder="any context" .value=${filters.context} @change=${typed('context', setFilter)} />
              </label>
              <label class="filter"
                ><span class="hidden">Search</span>
                <input id="search" type="search" placeholder="/ search" .value=${live(filters.text)} @input=${typed('text', setFilter)} />
              </label>
              <button
                id="dead"
                type="button"
                aria-pressed=${filters.deadOnly}
                @click=${() => setFilter({ deadOnly: !filters.deadOnly })}
              >
                ${state.dead.total === 1 ? '1 dead letter' : `${state.dead.total} dead letters`}
              </button>
            </div>
            <button id="keys" type="button" aria-label="Keys" @click=${view.showKeys}>?</button>
            <button id="logout" type="button" @click=${view.logOut}>Log out</button>`
        : ''
    }
  </header>`
}

const oldestWait = ({ cards, now }) => {
  const waits = [...cards.values()].filter(({ phase }) => phase === 'interrupted')
  const since = waits.map(({ since, at }) => Date.parse(since ?? at))
  return waits.length === 0 ? '' : `, oldest ${span(now - Math.min(...since))}`
}

const quiet = ({ cards, now }) => {
  const count = [...cards.values()].filter((card) => idleOf(card, now).ms >= QUIET_MS).length
  return count === 0 ? '' : `, ${count} idle for over 5 min`
}

export const pulseView = ({
  state,
  board,
  plots,
}) => html`<section class="pulse" aria-label="At the moment">
  <div class=${state.lanes.interrupted.total > 0 ? 'loud' : ''}>
    <b>${state.lanes.interrupted.total}</b>
    <span>waiting for an answer${oldestWait(board)}</span>
  </div>
  <div><b>${state.lanes.held.total}</b> <span>working${quiet(board)}</span></div>
  ${plots.names.map(
    ({ name, label }) =>
      html`<div class="plot">
        <div class="chart" data-plot=${name} role="img" aria-label=${label}></div>
        <b>–</b> <span class="at">${label}</span>
      </div>`,
  )}
</section>`
