/**
 * Small plots of the last hour, from what the server counts of its events: finished a minute, how
 * long todos waited for an agent, and how old the oldest one that waits is.
 */
import uPlot from 'uplot'
import { span } from './words.js'

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim()

const PLOTS = [
  {
    name: 'finished',
    label: 'finished a minute',
    lines: [
      { of: ({ finished }) => finished, colour: '--work' },
      { of: ({ dead }) => dead || null, colour: '--dead', dots: true },
    ],
    // The minute that runs is not over: by itself its number would fall to nothing with each new one.
    now: (minutes) => Math.max(minutes.at(-2).finished, minutes.at(-1).finished),
    say: ({ finished, dead }) => `${finished}${dead ? `, ${dead} dead` : ''}`,
  },
  {
    name: 'waited',
    label: 'waited for an agent',
    lines: [
      { of: ({ waited }) => waited?.mean ?? null, colour: '--soft' },
      { of: ({ waited }) => waited?.max ?? null, colour: '--wait' },
    ],
    now: (minutes) => minutes.findLast(({ waited }) => waited)?.waited.mean ?? null,
    say: ({ waited }) =>
      waited ? `${seconds(waited.mean)}, longest ${seconds(waited.max)}` : 'nothing was claimed',
  },
  {
    name: 'oldest',
    label: 'oldest that waits',
    lines: [{ of: ({ oldest }) => oldest, colour: '--soft' }],
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

/** A line needs more than one or two. */
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
        ...plot.lines.map(({ colour: name, dots = false }) => ({
          stroke: () => colour(name),
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

/** Keeps the plots inside `root`; `take(minutes)` draws them. */
export const createPlots = () => {
  const drawn = new Map()
  const dark = matchMedia('(prefers-color-scheme: dark)')
  dark.addEventListener('change', () => {
    for (const { chart } of drawn.values()) chart.redraw()
  })

  return {
    names: PLOTS.map(({ name, label }) => ({ name, label })),
    take(root, minutes) {
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
