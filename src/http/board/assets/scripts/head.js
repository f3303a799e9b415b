/**
 * What stands above the lanes: the light, the filters, the numbers of the moment, and small plots
 * of the last hour, from what the server counts of its events: finished a minute, how long todos
 * waited for an agent, and how old the oldest one that waits is.
 */
import { live } from 'lit/directives/live.js'
import { html } from 'lit/html.js'
import uPlot from 'uplot'
import { clock, idleOf, QUIET_MS, span } from './words.js'

const LIGHTS = { out: 'not logged in', refused: 'not allowed' }

const light = ({ kind, since }) =>
  kind === 'lost' ? `reconnecting, stale since ${clock(since)}` : (LIGHTS[kind] ?? kind)

const filter = (label, control) =>
  html`<label class="filter"><span class="hidden">${label}</span> ${control}</label>`

const queueSelect = ({ filters, me, setFilter }) => {
  const names = [...new Set([...me.queues, filters.queue].filter(Boolean))].sort()
  return html`<select id="queue" .value=${live(filters.queue)} @change=${typed('queue', setFilter)}>
    <option value="">all queues</option>
    ${names.map((name) => html`<option value=${name} ?selected=${name === filters.queue}>${name}</option>`)}
  </select>`
}

const typed =
  (name, set) =>
  ({ target }) =>
    set({ [name]: target.value })

const filtersView = (view) => {
  const { filters, setFilter, state } = view
  const context = html`<input id="context" placeholder="any context" .value=${filters.context} @change=${typed('context', setFilter)} />`
  const search = html`<input id="search" type="search" placeholder="/ search" .value=${live(filters.text)} @input=${typed('text', setFilter)} />`
  return html`<div class="filters" role="search">
    ${filter('Queue', queueSelect(view))} ${filter('Context', context)} ${filter('Search', search)}
    <button
      id="dead"
      type="button"
      aria-pressed=${filters.deadOnly}
      @click=${() => setFilter({ deadOnly: !filters.deadOnly })}
    >
      ${state.dead.total === 1 ? '1 dead letter' : `${state.dead.total} dead letters`}
    </button>
  </div>`
}

export const headView = (view) => html`<header>
  <h1><a href="#">switchboard</a></h1>
  <p id="light" class="light" role="status" data-state=${view.connection.kind}>${light(view.connection)}</p>
  ${
    view.me
      ? html`${filtersView(view)}
          <button id="keys" type="button" aria-label="Keys" @click=${view.showKeys}>?</button>
          <button id="logout" type="button" @click=${view.logOut}>Log out</button>`
      : ''
  }
</header>`

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

/* ---------------------------------------------------------------- plots */

const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim()

const PLOTS = [
  {
    name: 'finished',
    label: 'finished a minute',
    lines: [
      { of: ({ finished }) => finished, color: '--work' },
      { of: ({ dead }) => dead || null, color: '--dead', dots: true },
    ],
    // The current minute is not over, so its number alone would fall to nothing with each new one.
    now: (minutes) => Math.max(minutes.at(-2).finished, minutes.at(-1).finished),
    say: ({ finished, dead }) => `${finished}${dead ? `, ${dead} dead` : ''}`,
  },
  {
    name: 'waited',
    label: 'waited for an agent',
    lines: [
      { of: ({ waited }) => waited?.mean ?? null, color: '--soft' },
      { of: ({ waited }) => waited?.max ?? null, color: '--wait' },
    ],
    now: (minutes) => minutes.findLast(({ waited }) => waited)?.waited.mean ?? null,
    say: ({ waited }) =>
      waited ? `${seconds(waited.mean)}, longest ${seconds(waited.max)}` : 'nothing was claimed',
  },
  {
    name: 'oldest',
    label: 'oldest that waits',
    lines: [{ of: ({ oldest }) => oldest, color: '--soft' }],
    now: (minutes) => minutes.at(-1).oldest,
    say: ({ oldest }) => seconds(oldest),
  },
]

const seconds = (value) => (value < 10 ? `${value.toFixed(1)} s` : span(value * 1000))

const numberOf = ({ name, now }, minutes) => {
  const value = now(minutes)
  if (value === null) return '–'
  return name === 'finished' ? String(value) : seconds(value)
}

const describe = ({ label, say }, minutes) => {
  const last = minutes.at(-1)
  return `${label}, the last hour by minutes; at the end ${say(last)}`
}

/** A line needs more than one or two points. */
const isSparse = (values) => values.filter((value) => value !== null).length < 3

const createPlot = (element, plot, size) =>
  new uPlot(
    {
      ...size,
      legend: { show: false },
      cursor: { y: false, points: { show: false }, drag: { setScale: false } },
      axes: [{ show: false }, { show: false }],
      // From zero, and never flat against the edge.
      scales: { y: { range: (_plot, _min, max) => [0, Math.max(1, max ?? 0) * 1.05] } },
      padding: [3, 2, 3, 2],
      series: [
        {},
        ...plot.lines.map(({ color: name, dots = false }) => ({
          stroke: () => color(name),
          width: 1.5,
          points: { show: (chart, i) => dots || isSparse(chart.data[i]), size: 4 },
          spanGaps: !dots,
        })),
      ],
      hooks: {
        setCursor: [
          ({ cursor }) => {
            const minute = plot.minutes?.[cursor.idx]
            element.parentElement.querySelector('.at').textContent = minute
              ? `${new Date(minute.at).toLocaleTimeString([], { hour: '2-digit', minute: '2-digit', hour12: false })}: ${plot.say(minute)}`
              : plot.label
          },
        ],
      },
    },
    null,
    element,
  )

/** Keeps the plots inside a root; `draw(root, minutes)` draws them. */
export const createPlots = () => {
  const drawn = new Map()
  const dark = matchMedia('(prefers-color-scheme: dark)')
  dark.addEventListener('change', () => {
    for (const { chart } of drawn.values()) chart.redraw()
  })

  return {
    names: PLOTS.map(({ name, label }) => ({ name, label })),
    draw(root, minutes) {
      for (const plot of PLOTS) {
        const element = root.querySelector(`[data-plot="${plot.name}"]`)
        if (!element || minutes.length === 0) continue
        let entry = drawn.get(plot.name)
        if (entry?.element !== element) {
          entry?.chart.destroy()
          const size = { width: element.clientWidth || 130, height: 40 }
          entry = { element, plot: { ...plot }, chart: null }
          entry.chart = createPlot(element, entry.plot, size)
          drawn.set(plot.name, entry)
        }
        entry.plot.minutes = minutes
        entry.chart.setData([
          minutes.map(({ at }) => Date.parse(at) / 1000),
          ...plot.lines.map(({ of }) => minutes.map(of)),
        ])
        element.setAttribute('aria-label', describe(plot, minutes))
        element.parentElement.querySelector('b').textContent = numberOf(plot, minutes)
      }
    },
  }
}
