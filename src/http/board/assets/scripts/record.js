/**
 * The whole record of a todo in pieces: conversation, artifacts, attempts, deadlines, events. What
 * a message or an artifact is made of is shown so that none of it can act: text as text, data as a
 * tree, images only of kinds that hold no script, everything else to be saved to a file.
 */
import { ref } from 'lit/directives/ref.js'
import { html, nothing, render, svg } from 'lit/html.js'
import { digitsOf } from './api.js'
import { clock, moment, owes, shortId, soon, span, stateWord, wrong } from './words.js'

const IMAGES = new Set(['image/png', 'image/jpeg', 'image/gif', 'image/webp', 'image/avif'])
const MAX_IMAGE = 4_000_000
const MAX_CHILDREN = 200
const OPEN_TO = 2

const leaf = (value, digits) =>
  html`<span class=${`leaf ${value === null ? 'null' : digits ? 'number' : typeof value}`} dir="auto"
    >${typeof value === 'string' ? JSON.stringify(value) : (digits ?? String(value))}</span
  >`

const sizeWord = (value) =>
  Array.isArray(value) ? `[${value.length}]` : `{${Object.keys(value).length}}`

const rows = (value, depth) => {
  const entries = Object.entries(value)
  const rest = entries.length - MAX_CHILDREN
  const shown = entries.slice(0, MAX_CHILDREN)
  return html`<ul>
    ${shown.map(([key, item]) => html`<li>${tree(item, depth + 1, html`<bdi class="key">${key}</bdi>: `)}</li>`)}
    ${rest > 0 ? html`<li>and ${rest} more</li>` : ''}
  </ul>`
}

/** A branch is rendered when it is opened, so a large tree costs only what one looks at. */
const branch = (value, depth, name) => {
  const fill = (details) =>
    render(details.open ? rows(value, depth) : nothing, details.lastElementChild)
  return html`<details
    class="tree"
    ?open=${depth < OPEN_TO}
    @toggle=${({ currentTarget }) => fill(currentTarget)}
    ${ref((details) => details && fill(details))}
  >
    <summary>${name}${sizeWord(value)}</summary>
    <div></div>
  </details>`
}

const tree = (value, depth = 0, name = '') => {
  const digits = digitsOf(value)
  return value === null || typeof value !== 'object' || digits !== undefined
    ? html`${name}${leaf(value, digits)}`
    : branch(value, depth, name)
}

/** Base64 as the protocol may spell it for URLs, spelled as browsers read it. */
const base64 = (raw) => raw.replaceAll('-', '+').replaceAll('_', '/')

const bytesOf = (raw) => Uint8Array.from(atob(base64(raw)), (char) => char.charCodeAt(0))

/** The file name we were sent may be a path, or hold characters that reverse the text. */
const safeName = (name) => name.replace(/[^\p{L}\p{N}._ -]+/gu, '_').slice(-100) || 'file'

const save = (raw, name) => {
  // Bytes of no known kind: a browser saves these and does not interpret them.
  const url = URL.createObjectURL(new Blob([bytesOf(raw)], { type: 'application/octet-stream' }))
  const link = Object.assign(document.createElement('a'), { href: url, download: safeName(name) })
  link.click()
  setTimeout(() => URL.revokeObjectURL(url), 60_000)
}

const size = (raw) => {
  const bytes = Math.floor((raw.length * 3) / 4)
  return bytes < 1024 ? `${bytes} bytes` : `${Math.ceil(bytes / 1024)} KB`
}

const file = ({ raw, filename, mediaType }) => {
  const name = filename ?? 'file'
  const isImage = IMAGES.has(mediaType) && raw.length <= MAX_IMAGE
  return html`<figure>
    ${isImage ? html`<img src=${`data:${mediaType};base64,${base64(raw)}`} alt=${name} />` : ''}
    <figcaption>
      <button type="button" class="second" @click=${() => save(raw, name)}>Save <bdi>${name}</bdi></button>
      <span dir="auto">${mediaType ?? ''}</span> <span>${size(raw)}</span>
    </figcaption>
  </figure>`
}

const isWeb = (url) => URL.canParse(url) && ['http:', 'https:'].includes(new URL(url).protocol)

const link = ({ url, filename, mediaType }) => html`<p class="words">
  ${
    isWeb(url)
      ? html`<a href=${url} target="_blank" rel="noopener noreferrer" dir="auto">${filename ? `${filename} (${url})` : url}</a>`
      : html`<span dir="auto">${url}</span>`
  }
  <span dir="auto">${mediaType ?? ''}</span>
</p>`

const part = (given) => {
  if (given.text !== undefined) return html`<p class="words" dir="auto">${given.text}</p>`
  if (given.raw !== undefined) return file(given)
  if (given.url !== undefined) return link(given)
  return html`<div class="data">${tree(given.data)}</div>`
}

/* ---------------------------------------------------------------- sections */

const time = (at) => html`<time datetime=${at} title=${moment(at)}>${clock(at)}</time>`

const section = (name, content, heading = name) =>
  html`<section aria-label=${name}><h3>${heading}</h3>${content}</section>`

/** `first`: the author of the todo, who is that of its first message. */
const speaker = ({ message, answers, author }, first) => {
  if (message.role === 'ROLE_AGENT') return 'agent'
  const from = author ?? first
  // Only an answer by a link says who gave it: anybody else's token says who that is.
  const by = message.messageId.startsWith('answer-link-') ? message.metadata?.answeredBy : undefined
  if (answers !== undefined)
    return typeof by === 'string' ? `answer by ${by}` : `answer${from ? ` by ${from}` : ''}`
  return from ?? 'client'
}

export const conversation = ({ messages, question, author }) =>
  section(
    'Conversation',
    html`<ol class="talk">
      ${messages.map(
        (stored) => html`<li
          data-role=${stored.message.role === 'ROLE_AGENT' ? 'agent' : 'user'}
          class=${question?.seq === stored.seq ? 'asked' : ''}
        >
          <p class="who"><span dir="auto">${speaker(stored, stored.seq === 1 ? author : undefined)}</span> ${time(stored.receivedAt)}</p>
          ${stored.message.parts.map(part)}
        </li>`,
      )}
    </ol>`,
  )

export const artifacts = ({ artifacts = [] }) => {
  const items = artifacts.map(
    ({ artifactId, name, description, parts }) => html`<article class="artifact">
      <h4 dir="auto">${name ?? artifactId}</h4>
      ${description ? html`<p class="help" dir="auto">${description}</p>` : ''} ${parts.map(part)}
    </article>`,
  )
  return items.length === 0 ? '' : section('Artifacts', items)
}

/** When and how long each attempt ran, on one line from the todo's creation to its end, or now. */
const bars = ({ attempts, createdAt, finishedAt }, now) => {
  const from = Date.parse(createdAt)
  const to = Math.max(from + 1, finishedAt ? Date.parse(finishedAt) : now)
  const at = (moment) => ((Date.parse(moment) - from) / (to - from)) * 400
  return html`<svg class="bars" viewBox="0 0 400 14" preserveAspectRatio="none" aria-hidden="true">
    ${svg`<rect class="all" x="0" y="6" width="400" height="2" />
      ${attempts.map(({ claimedAt, endedAt, outcome, died }) => {
        const x = Math.min(398, Math.max(0, at(claimedAt)))
        const end = endedAt ? at(endedAt) : 400
        return svg`<rect class=${died ? 'died' : (outcome ?? 'open')} x=${x} y="2" height="10" width=${Math.max(2, end - x)} />`
      })}`}
  </svg>`
}

const ending = ({ outcome, disposition, endedAt }, question) => {
  if (!endedAt) return question ? 'asked, and waits' : 'at work'
  return `${outcome.replaceAll('_', ' ')}, ${disposition.replaceAll('_', ' ')}`
}

const attemptItem = (attempt, question, now) => {
  const { seq, claimant, claimedAt, endedAt, outcome, summary, cause } = attempt
  return html`<li data-outcome=${outcome ?? 'open'}>
    <p>
      <b>${seq}</b> <span dir="auto">${claimant ?? 'an agent'}</span>
      <span class="how">${ending(attempt, question)}</span>
    </p>
    <p class="help">
      ${time(claimedAt)} ${endedAt ? html`to ${time(endedAt)}` : 'until now'},
      ${span((endedAt ? Date.parse(endedAt) : now) - Date.parse(claimedAt))}
    </p>
    ${summary ? html`<p dir="auto">${summary}</p>` : ''}
    ${cause ? html`<p class="wrong" dir="auto">${cause}</p>` : ''}
  </li>`
}

export const attempts = (todo, now) => {
  if (todo.attempts.length === 0) return ''
  const items = todo.attempts.map((attempt) => attemptItem(attempt, todo.question, now))
  return section('Attempts', html`${bars(todo, now)}<ol class="attempts">${items.reverse()}</ol>`)
}

const fromNow = (ms) => (ms > 0 ? `in ${span(ms)}` : `${span(-ms)} ago`)

/** The rows that apply, in this order: a moment, or a number of seconds. */
const deadlineRows = (todo) => {
  const { deadlines: set, question, finishedAt } = todo
  const working = todo.state === 'claimed'
  return [
    ['answer by', question && (question.deadline ?? 'no deadline')],
    ['lease', working && todo.leaseExpiresAt],
    ['progress', working && todo.progressAt],
    ['may begin', todo.state === 'pending' && todo.notBefore],
    ['next try', todo.nextRetryAt],
    ['attempt must end', set.startToClose],
    ['must end', !finishedAt && set.scheduleToClose],
    ['silence at most', set.heartbeatSeconds],
    ['must start within', set.scheduleToStartSeconds],
    ['made', todo.createdAt],
    ['ended', finishedAt],
  ].filter(([, value]) => value)
}

const deadline = (value, now) => {
  if (typeof value === 'number') return span(value * 1000)
  const at = Date.parse(value)
  return Number.isNaN(at)
    ? value
    : html`${moment(at)} <span class="help">${fromNow(at - now)}</span>`
}

export const deadlines = (todo, now) => {
  const rows = deadlineRows(todo).map(
    ([name, value]) => html`<dt>${name}</dt><dd>${deadline(value, now)}</dd>`,
  )
  return section('Deadlines', html`<dl>${rows}</dl>`)
}

const todoLink = (id) => html`<a href=${`#/todo/${id}`}><bdi>todo ${shortId(id)}</bdi></a>`

export const family = ({ parentId, children, retryOf, waitsBehind, schedule }) => {
  const others = [
    ['child of', parentId],
    ['retry of', retryOf],
    ['waits behind', waitsBehind],
  ].filter(([, id]) => id)
  if (others.length === 0 && children.length === 0 && !schedule) return ''
  const items = html`${schedule ? html`<li>schedule <bdi>${schedule}</bdi></li>` : ''}${others.map(([how, id]) => html`<li>${how} ${todoLink(id)}</li>`)}
    ${children.map(
      ({ id, queue, state, retrying }) =>
        html`<li>
          child ${todoLink(id)} <span dir="auto">${queue}</span>,
          ${stateWord({ state, retryAt: retrying })}
        </li>`,
    )}`
  return section('Family', html`<ul class="family">${items}</ul>`, 'Belongs to')
}

const amountsOf = (spent) =>
  Object.entries(spent)
    .map(([kind, amount]) => `${amount} ${kind}`)
    .join(', ')

const detail = ({ verb, detail, claimant, ready, to }) =>
  [
    to === 'claimed' && claimant ? `by ${claimant}` : '',
    verb === 'park' ? `parked: ${claimant ?? 'its agent'} has stopped` : '',
    ready ? `ready: ${ready}` : '',
    detail?.text,
    detail?.note,
    detail?.percent === undefined ? '' : `${detail.percent} %`,
    wrong(detail?.error),
    owes(detail?.owed ?? 0),
    detail?.spent ? `spent ${amountsOf(detail.spent)}` : '',
  ]
    .filter(Boolean)
    .join(', ')

const DELIVERY = { pending: 'not delivered yet', delivered: 'delivered', dead: 'given up' }

const tried = ({ attempts, status, reason, attemptedAt }) =>
  attempts === 0
    ? 'not tried yet'
    : html`${attempts === 1 ? 'tried once' : `tried ${attempts} times`}, at ${time(attemptedAt)}:
        <span dir="auto">${[status, reason].filter((word) => word !== null).join(', ')}</span>`

const nextTry = ({ nextAttemptAt }, now) =>
  nextAttemptAt === null ? '' : `; next try ${soon(Date.parse(nextAttemptAt) - now)}`

const deliveryItem = (delivery, now) => html`<li data-outcome=${delivery.state}>
  <p>
    <b>event ${delivery.seq}</b> <span class="how">${DELIVERY[delivery.state]}</span>
    <span dir="auto">${delivery.url ?? 'to a webhook that was deleted'}</span>
  </p>
  <p class=${delivery.state === 'dead' ? 'wrong' : 'help'}>${tried(delivery)}${nextTry(delivery, now)}</p>
</li>`

/** What its webhooks were told, or are owed, the newest first. */
export const webhooks = ({ deliveries }, now) => {
  if (deliveries.length === 0) return ''
  const items = deliveries.map((delivery) => deliveryItem(delivery, now))
  return section('Webhooks', html`<ol class="attempts">${items}</ol>`)
}

export const events = ({ events }) =>
  section(
    'Events',
    html`${events[0]?.seq > 1 ? html`<p class="help">The first ${events[0].seq - 1} are not shown.</p>` : ''}
      <div class="scroll" tabindex="0" role="region" aria-label="All events">
        <table>
          <thead>
            <tr><th>#</th><th>time</th><th>verb</th><th>state</th><th>detail</th></tr>
          </thead>
          <tbody>
            ${events.map(
              (event) => html`<tr>
                <td>${event.seq}</td>
                <td>${time(event.at)}</td>
                <td>${event.verb}</td>
                <td>${event.from === event.to ? event.to : `${event.from ?? 'new'} → ${event.to}`}</td>
                <td dir="auto">${detail(event)}</td>
              </tr>`,
            )}
          </tbody>
        </table>
      </div>`,
  )
