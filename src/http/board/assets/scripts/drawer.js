/**
 * One todo with everything there is to know of it, at an address of its own (#/todo/<id>), and what
 * can be done about it. It is read again when its todo moves, and now and then while it works.
 */
import { guard } from 'lit/directives/guard.js'
import { keyed } from 'lit/directives/keyed.js'
import { html } from 'lit/html.js'
import { call } from './api.js'
import { ring } from './card.js'
import { alertOf, answerForm } from './form.js'
import { artifacts, attempts, conversation, deadlines, events, family, webhooks } from './record.js'
import { moment, stateWord, titleOf as titled } from './words.js'

const AGAIN_MS = 3000
const DELIVERIES = 20

const textOf = (message) =>
  (message?.parts ?? [])
    .map(({ text }) => text)
    .filter(Boolean)
    .join(' ')

/** A todo is called by the beginning of its conversation. */
const titleOf = ({ id, message }) => titled({ id, title: textOf(message).slice(0, 160) })

/** The server gives moments in UTC; a person reads the clock on the wall. */
const localTimes = (line) =>
  line?.replace(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ/g, (iso) => moment(iso)) ?? ''

const isDead = ({ state, finishedAt, unread }) =>
  finishedAt !== null && (state === 'failed' || (state === 'rejected' && unread > 0))

/** Quoted for a shell, which leaves what stands in single quotes as it is. */
const quoted = (text) => `'${text.replaceAll("'", `'\\''`)}'`

const curlOf = ({ id }, question, base = new URL('../operator', import.meta.url)) => {
  const parts = [question?.plain ? { text: 'your answer' } : { data: {} }]
  const [method, params] = question
    ? ['todos.answer', { id, question: question.seq, message: { parts } }]
    : ['todos.show', { id }]
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params })
  return `curl -s ${quoted(String(base))} -H "Authorization: Bearer $SWITCHBOARD_TOKEN" \\
  -H 'Content-Type: application/json' -d ${quoted(body)}`
}

const button = (label, act, name = 'second') =>
  html`<button type="button" class=${name} @click=${act}>${label}</button>`

export const createDrawer = ({ changed, dialogs }) => {
  let id = null
  let shown = null
  let why = null
  let error = null
  let readAt = 0
  let reading = false
  let again = false
  let act = null

  const read = async () => {
    if (reading) {
      again = true
      return
    }
    reading = true
    again = false
    const requested = id
    try {
      const [todo, line, { deliveries }] = await Promise.all([
        call('todos.show', { id: requested }),
        call('todos.why', { id: requested }),
        call('deliveries.list', { todoId: requested, pageSize: DELIVERIES }),
      ])
      if (id === requested) [shown, why, error] = [{ ...todo, deliveries }, line.why, null]
    } catch (thrown) {
      if (id === requested) error = thrown.message
    } finally {
      reading = false
      readAt = performance.now()
      changed()
    }
    if (id !== null && (again || id !== requested)) void read()
  }

  const run = async (name, method, params) => {
    act = { name, busy: true }
    changed()
    try {
      const result = await call(method, params)
      act = null
      return result
    } catch (thrown) {
      act = { name, error: thrown.message }
      return null
    } finally {
      changed()
    }
  }

  const cancel = async (todoId, title) => {
    const sure = await dialogs.confirm(`Cancel “${title}”?`, 'Cancel the task', 'Keep it')
    if (sure) await run('cancel', 'todos.cancel', { id: todoId })
    if (id === todoId) void read()
  }

  const retry = async (todoId) => {
    const made = await run('retry', 'todos.retry', { id: todoId })
    if (made) location.hash = `#/todo/${made.id}`
  }

  const makeLink = async () => {
    const link = await run('link', 'todos.answerLink', { id })
    if (link) dialogs.copy('For one answer, by anyone who has it', link.url)
  }

  const actions = (todo, { mayOperate, mayAnswer }) => {
    const copy = () =>
      dialogs.copy('The same with curl', curlOf(todo, mayAnswer && questionOf(todo)))
    return html`<div class="actions">
      ${mayOperate && !todo.finishedAt ? button('Cancel', () => cancel(todo.id, titleOf(todo))) : ''}
      ${mayOperate && isDead(todo) ? button('Retry', () => retry(todo.id), '') : ''}
      ${mayAnswer && todo.question ? button('Answer link', makeLink) : ''}
      ${button('Copy as curl', copy)} ${alertOf(act?.error)}
    </div>`
  }

  const questionOf = ({ question }) => question && { ...question, plain: question.form === null }

  const asking = (todo, { me, now }) => {
    const question = questionOf(todo)
    if (!question) return ''
    const asking = todo.messages.find(({ seq }) => seq === question.seq)
    return html`<section class="ask" aria-label="Question">
      <div class="row">
        ${ring(question, todo.interruptedAt, now)}
        <blockquote dir="auto">${textOf(asking?.message)}</blockquote>
      </div>
      ${
        me.mayAnswer
          ? answerForm({ id: todo.id, question, title: titleOf(todo), where: 'drawer', changed })
          : html`<p class="help">You may look, but not answer.</p>`
      }
    </section>`
  }

  /** Rendered again only with a new reading of the todo, not with each passing second. */
  const still = (todo, view) => guard([todo], () => view(todo))

  const body = (todo, board) => html`
    <p class="meta">
      <span class="state" data-state=${todo.state}>${stateWord(todo)}</span>
      <span dir="auto">${todo.queue}</span>
      ${todo.author ? html`<span class="author" dir="auto">from ${todo.author}</span>` : ''}
      <span>attempt ${todo.attempt} of ${todo.maxAttempts}</span>
      ${todo.claimant ? html`<span dir="auto">${todo.claimant}</span>` : ''}
    </p>
    <p id="why" class="why" tabindex="-1" dir="auto">${localTimes(why)}</p>
    ${asking(todo, board)} ${actions(todo, board.me)}
    ${still(todo, conversation)} ${still(todo, artifacts)} ${attempts(todo, board.now)}
    ${deadlines(todo, board.now)} ${family(todo)} ${webhooks(todo, board.now)} ${still(todo, events)}
    <p class="help mono">todo ${todo.id}<br />context <span dir="auto">${todo.contextId}</span></p>`

  return {
    id: () => id,
    cancel,
    retry,
    dead: () => shown !== null && isDead(shown),

    show(next) {
      if (next === id) return
      id = next
      shown = why = error = act = null
      changed()
      if (id !== null) void read()
    },

    /** A todo has moved. */
    touch(movedId) {
      if (id !== null && movedId === id) void read()
    },
    tick() {
      if (id === null || reading || document.hidden || shown?.finishedAt) return
      if (performance.now() - readAt > AGAIN_MS) void read()
    },

    view(board) {
      if (id === null || !board.me) return ''
      const title = titleOf(shown ?? { id })
      return html`<div class="drawer" role="dialog" aria-labelledby="drawer-title" data-id=${id}>
        <div class="head">
          <h2 id="drawer-title" tabindex="-1" dir="auto">${title}</h2>
          <a class="button second" href="#" aria-label="Close">✕</a>
        </div>
        <div class="inside">
          ${alertOf(error)}
          ${shown ? keyed(id, body(shown, board)) : error ? '' : html`<p class="help">reading</p>`}
        </div>
      </div>`
    },
  }
}
