/** The board by keys alone. They act on what has the focus, but not while one types in a field. */

const isTyping = (target) =>
  target instanceof HTMLElement &&
  (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName))

const cardOf = (element) => element?.closest?.('[data-id].card') ?? null

const openers = (root) => [...root.querySelectorAll('a.open')].filter((a) => a.checkVisibility())

const lanesOf = (root) =>
  [...root.querySelectorAll('section[data-phase]')].filter((lane) => lane.querySelector('a.open'))

const focus = (element) => {
  element?.focus({ preventScroll: true })
  cardOf(element)?.scrollIntoView({ block: 'nearest' })
}

/** The item `by` steps on from the one at `index`, or the last there is; the first for no index. */
const next = (all, index, by) =>
  all[index < 0 ? 0 : Math.min(all.length - 1, Math.max(0, index + by))]

const focusedLane = () => document.activeElement?.closest?.('section[data-phase]')

/** Moves within the lane of what has the focus, else within the first one that has cards. */
const step = (root, by) => {
  const lane = focusedLane()
  const all = openers(lane?.querySelector('a.open') ? lane : (lanesOf(root)[0] ?? root))
  const at = all.findIndex((opener) => cardOf(opener) === cardOf(document.activeElement))
  focus(next(all, at, by))
}

const cross = (root, by) => {
  const lanes = lanesOf(root)
  focus(next(lanes, lanes.indexOf(focusedLane()), by)?.querySelector('a.open'))
}

/** Focuses what `find` finds as soon as it is there, unless it is no longer wanted. */
const whenThere = (find, wanted) =>
  requestAnimationFrame(() => {
    const element = find()
    if (element) element.focus()
    else if (wanted()) whenThere(find, wanted)
  })

/** The todo of the drawer, else of the card that has the focus. */
const chosen = (drawer) => drawer.id() ?? cardOf(document.activeElement)?.dataset.id ?? null

const answer = (root, drawer) => {
  const inDrawer = root.querySelector('.drawer .ask :is(input, textarea, button)')
  if (drawer.id() !== null && inDrawer) return inDrawer.focus()
  // Never a question other than the one looked at, even where its form is not there yet.
  const own = document.activeElement?.closest?.('.card[data-phase="interrupted"]')
  const all = root.querySelector('section[data-phase="interrupted"]')
  focus((own ?? all)?.querySelector('[data-answer]:not([data-answer=""])'))
}

export const listenToKeys = ({ root, drawer, dialogs, toggleDead, me, titleOf, isDead }) => {
  const why = () => {
    const id = chosen(drawer)
    if (id === null) return
    location.hash = `#/todo/${id}`
    whenThere(
      () => root.querySelector(`.drawer[data-id="${CSS.escape(id)}"] #why`),
      () => chosen(drawer) === id,
    )
  }
  const cancel = () => {
    const id = chosen(drawer)
    if (id !== null && me()?.mayOperate) void drawer.cancel(id, titleOf(id))
  }
  const retry = () => {
    const id = chosen(drawer)
    if (id !== null && me()?.mayOperate && (isDead(id) || (drawer.id() === id && drawer.dead()))) {
      void drawer.retry(id)
    }
  }
  const leave = (target) => {
    if (isTyping(target)) target.blur()
    else if (drawer.id() !== null) location.hash = '#'
    else document.activeElement?.blur?.()
  }

  const KEYS = {
    j: () => step(root, 1),
    k: () => step(root, -1),
    l: () => cross(root, 1),
    h: () => cross(root, -1),
    a: () => answer(root, drawer),
    w: why,
    c: cancel,
    r: retry,
    d: toggleDead,
    '/': () => document.getElementById('search')?.focus(),
    q: () => document.getElementById('queue')?.focus(),
    '?': () => void dialogs.keys(),
  }

  addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector('dialog[open]')) {
      return
    }
    if (event.key === 'Escape') return leave(event.target)
    if (isTyping(event.target) || !me()) return
    const act = Object.hasOwn(KEYS, event.key) ? KEYS[event.key] : null
    if (!act) return
    event.preventDefault()
    act()
  })
}
