/**
 * The board's page. It puts the parts together, draws the state at most once a frame, and takes
 * what is shown from its address: filters in the query, the drawer's todo behind the #.
 */
import { html, render } from 'lit/html.js'
import { login, logout, onLoggedOut, read, serverNow } from './api.js'
import { dialogs } from './dialogs.js'
import { createDrawer } from './drawer.js'
import { createPlots, headView, pulseView } from './head.js'
import { listenToKeys } from './keys.js'
import { lanesView, watchEnds } from './lanes.js'
import { arrange, createState, PHASES } from './state.js'
import { createWatch } from './watch.js'
import { titleOf } from './words.js'

const PULSE_MS = 10_000
/** How many more cards are drawn once the end of a lane comes into sight. */
const WINDOW = 200

const root = document.getElementById('app')
const state = createState(serverNow)
const plots = createPlots()

let me = null
let connection = { kind: 'connecting' }
let trouble = ''
let loginError = ''
let minutes = []
let pulseAt = -PULSE_MS
/** Grows when an answer's fate changes, since no card does then. */
let fateTick = 0

/* ---------------------------------------------------------------- address */

const readFilters = () => {
  const given = new URLSearchParams(location.search)
  return {
    queue: given.get('queue') ?? '',
    context: given.get('context') ?? '',
    text: given.get('text') ?? '',
    deadOnly: given.get('dead') === '1',
  }
}
let filters = readFilters()

const queryOf = ({ queue, context }) => ({ queue, context })

const setFilter = (change) => {
  const before = filters
  filters = { ...filters, ...change }
  const here = new URL(location.href)
  const { queue, context, text, deadOnly } = filters
  for (const [name, value] of Object.entries({ queue, context, text, dead: deadOnly ? '1' : '' })) {
    if (value) here.searchParams.set(name, value)
    else here.searchParams.delete(name)
  }
  history.replaceState(null, '', here)
  if (before.queue !== queue || before.context !== context) {
    pulseAt = -PULSE_MS
    watch.start(queryOf(filters))
  }
  loadDead()
  if (text !== '' && before.text === '') void loadForSearch()
  draw()
}

const loadDead = () => {
  if (filters.deadOnly && !state.dead.loaded) void watch.page('dead', state.dead)
}

/** A search looks through the cards that are here, so more are fetched while there is one. */
const SEARCHED = 3000
const loadForSearch = async () => {
  for (const phase of PHASES) {
    while (filters.text !== '' && state.lanes[phase].token !== '' && state.cards.size < SEARCHED) {
      if (!(await watch.page(phase, state.lanes[phase]))) break
    }
  }
}

const route = () => {
  const id = /^#\/todo\/([\w-]+)$/.exec(location.hash)?.[1] ?? null
  const before = drawer.id()
  drawer.show(id)
  draw()
  if (id !== null && id !== before) focusSoon('#drawer-title')
  if (id === null && before !== null) focusSoon(`.card[data-id="${CSS.escape(before)}"] a.open`)
}

const focusSoon = (selector) =>
  requestAnimationFrame(() => root.querySelector(selector)?.focus({ preventScroll: true }))

/* ---------------------------------------------------------------- drawing */

let drawing = false
const draw = () => {
  if (drawing) return
  drawing = true
  // A hidden page gets no frames, and must not pile up work meanwhile.
  if (document.hidden) setTimeout(drawNow, 1000)
  else requestAnimationFrame(drawNow)
}

const fated = () => {
  fateTick += 1
  draw()
}

const more = (phase) => {
  const lane = state.lanes[phase]
  lane.window += WINDOW
  const source = phase === 'ended' && filters.deadOnly ? state.dead : lane
  if (arranged[phase].length < lane.window && source.token !== '') {
    void watch.page(source === state.dead ? 'dead' : phase, source)
  }
  draw()
}

const loginView = () => html`<main class="login">
  <form @submit=${logIn}>
    <h2>Log in to the board</h2>
    <p>With the admin token, or the token of an endpoint that may watch.</p>
    <label for="token">Token</label>
    <input id="token" type="password" autocomplete="current-password" spellcheck="false" required />
    <button type="submit">Log in</button>
    <p id="login-error" class="wrong" role="alert">${loginError}</p>
  </form>
</main>`

let arranged = arrange(state.cards, filters)

const content = () => {
  if (connection.kind === 'out') return loginView()
  if (connection.kind === 'refused')
    return html`<p class="notice" role="alert">You may not watch this.</p>`
  if (!me) return html`<p class="notice">connecting</p>`
  const board = { me, cards: state.cards, now: serverNow(), fateTick, changed: fated }
  const view = { state, filters, board, arranged, more, plots }
  return html`${pulseView(view)} ${lanesView(view)} ${drawer.view(board)}
    <footer>j k move · enter open · a answer · c cancel · r retry · w why · / search · ? keys</footer>`
}

const drawNow = () => {
  drawing = false
  arranged = arrange(state.cards, filters)
  const head = { connection, me, filters, setFilter, state, showKeys: dialogs.keys, logOut }
  render(
    html`${headView(head)} ${trouble ? html`<p id="trouble" role="alert">${trouble}</p>` : ''} ${content()}`,
    root,
  )
  document.body.classList.toggle('stale', connection.kind === 'lost' && me !== null)
  document.body.classList.toggle('opened', drawer.id() !== null)
  const questions = state.lanes.interrupted.total
  document.title = me && questions > 0 ? `(${questions}) switchboard` : 'switchboard'
  plots.draw(root, minutes)
  watchEnds(root, more)
}

/* ---------------------------------------------------------------- life */

const drawer = createDrawer({ changed: fated, dialogs })

const connected = async (next) => {
  connection = next
  if (next.kind === 'out' || next.kind === 'refused') {
    // Whoever logs in next may be somebody else, who must not see this.
    me = null
    drawer.show(null)
  }
  draw()
  if (next.kind === 'out') return focusSoon('#token')
  if (next.kind !== 'live' || me) return
  try {
    me = await read('me')
    trouble = ''
  } catch (error) {
    trouble = error.message
  }
  loadDead()
  draw()
  route()
}

const watch = createWatch({
  state,
  changed: draw,
  moved: ({ id }) => drawer.touch(id),
  connection: (next) => void connected(next),
})

onLoggedOut(() => {
  if (!me) return
  watch.stop()
  void connected({ kind: 'out' })
})

const logIn = async (event) => {
  event.preventDefault()
  const field = document.getElementById('token')
  const token = field.value.trim()
  field.value = ''
  loginError = ''
  try {
    await login(token)
    watch.renew()
    watch.start(queryOf(filters))
  } catch (error) {
    loginError = error.message
  }
  draw()
}

const logOut = async () => {
  watch.stop()
  await logout().catch(() => undefined)
  watch.renew()
  location.reload()
}

const readPulse = async () => {
  pulseAt = performance.now()
  try {
    ;({ minutes } = await read('pulse', queryOf(filters)))
    draw()
  } catch {
    // The plots stay as they were, and the light says whether there is a connection.
  }
}

setInterval(() => {
  if (document.hidden || !me) return
  watch.tick()
  drawer.tick()
  if (connection.kind === 'live' && performance.now() - pulseAt > PULSE_MS) void readPulse()
  draw()
}, 1000)

addEventListener('hashchange', route)
addEventListener('popstate', () => {
  filters = readFilters()
  draw()
})
listenToKeys({
  root,
  drawer,
  dialogs,
  me: () => me,
  toggleDead: () => setFilter({ deadOnly: !filters.deadOnly }),
  titleOf: (id) => titleOf(state.cards.get(id) ?? { id }),
  isDead: (id) => {
    const card = state.cards.get(id)
    return card?.phase === 'ended' && (card.state === 'failed' || card.owed > 0)
  },
})
watch.start(queryOf(filters))
