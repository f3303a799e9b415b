/** The whole record of a todo in pieces: conversation, artifacts, attempts, deadlines, events. */
import { html, svg } from 'lit/html.js'
import { part } from './parts.js'
import { clock, moment, shortId, span, stateWord } from './words.js'

const time = (at) => html`<time datetime=${at} title=${moment(at)}>${clock(at)}</time>`

const speaker = ({ message, answers }) => {
  if (message.role === 'ROLE_AGENT') return 'agent'
  const by = message.metadata?.answeredBy
  if (answers !== undefined) return typeof by === 'string' ? `answer by ${by}` : 'answer'
  return 'client'
}

export const conversation = ({ messages, question }) => html`<section aria-label="Conversation">
  <h3>Conversation</h3>
  <ol class="talk">
    ${messages.map(
      (stored) => html`<li
        data-role=${stored.message.role === 'ROLE_AGENT' ? 'agent' : 'user'}
        class=${question?.seq === stored.seq ? 'asked' : ''}
      >
        <p class="who"><span dir="auto">${speaker(stored)}</span> ${time(stored.receivedAt)}</p>
        ${stored.message.parts.map(part)}
      </li>`,
    )}
  </ol>
</section>`

export const artifacts = ({ artifacts = [] }) =>
  artifacts.length === 0
    ? ''
    : html`<section aria-label="Artifacts">
        <h3>Artifacts</h3>
        ${artifacts.map(
          ({ artifactId, name, description, parts }) => html`<article class="artifact">
            <h4 dir="auto">${name ?? artifactId}</h4>
            ${description ? html`<p class="help" dir="auto">${description}</p>` : ''} ${parts.map(part)}
          </article>`,
        )}
      </section>`

/** Since when, and how long, each attempt ran: on one line from the making to the end, or now. */
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

export const attempts = (todo, now) =>
  todo.attempts.length === 0
    ? ''
    : html`<section aria-label="Attempts">
        <h3>Attempts</h3>
        ${bars(todo, now)}
        <ol class="attempts">
          ${todo.attempts.toReversed().map(
            (attempt) => html`<li data-outcome=${attempt.outcome ?? 'open'}>
              <p>
                <b>${attempt.seq}</b> <span dir="auto">${attempt.claimant ?? 'an agent'}</span>
                <span class="how">${ending(attempt, todo.question)}</span>
              </p>
              <p class="help">
                ${time(attempt.claimedAt)}
                ${attempt.endedAt ? html`to ${time(attempt.endedAt)}` : 'until now'},
                ${span((attempt.endedAt ? Date.parse(attempt.endedAt) : now) - Date.parse(attempt.claimedAt))}
              </p>
              ${attempt.summary ? html`<p dir="auto">${attempt.summary}</p>` : ''}
              ${attempt.cause ? html`<p class="wrong" dir="auto">${attempt.cause}</p>` : ''}
            </li>`,
          )}
        </ol>
      </section>`

const row = (name, at, now) => {
  const ms = Date.parse(at) - now
  return html`<dt>${name}</dt>
    <dd>${moment(at)} <span class="help">${ms > 0 ? `in ${span(ms)}` : `${span(-ms)} ago`}</span></dd>`
}

const within = (name, seconds) => html`<dt>${name}</dt><dd>${span(seconds * 1000)}</dd>`

export const deadlines = (todo, now) => {
  const { deadlines: set } = todo
  const working = todo.state === 'claimed'
  const rows = [
    ...(todo.question?.deadline ? [row('answer by', todo.question.deadline, now)] : []),
    ...(todo.question && !todo.question.deadline
      ? [html`<dt>answer by</dt><dd>no deadline</dd>`]
      : []),
    ...(working && todo.leaseExpiresAt ? [row('lease', todo.leaseExpiresAt, now)] : []),
    ...(working && todo.progressAt ? [row('progress', todo.progressAt, now)] : []),
    ...(todo.nextRetryAt ? [row('next try', todo.nextRetryAt, now)] : []),
    ...(set.startToClose ? [row('attempt must end', set.startToClose, now)] : []),
    ...(set.scheduleToClose && !todo.finishedAt ? [row('must end', set.scheduleToClose, now)] : []),
    ...(set.heartbeatSeconds ? [within('silence at most', set.heartbeatSeconds)] : []),
    ...(set.scheduleToStartSeconds
      ? [within('must start within', set.scheduleToStartSeconds)]
      : []),
    row('made', todo.createdAt, now),
    ...(todo.finishedAt ? [row('ended', todo.finishedAt, now)] : []),
  ]
  return html`<section aria-label="Deadlines"><h3>Deadlines</h3><dl>${rows}</dl></section>`
}

const todoLink = (id, what) =>
  html`<a href=${`#/todo/${id}`}><bdi>${what ?? `todo ${shortId(id)}`}</bdi></a>`

export const family = (todo) => {
  const { parentId, children, retryOf, waitsBehind } = todo
  if (!parentId && !retryOf && !waitsBehind && children.length === 0) return ''
  return html`<section aria-label="Family">
    <h3>Belongs to</h3>
    <ul class="family">
      ${parentId ? html`<li>child of ${todoLink(parentId)}</li>` : ''}
      ${retryOf ? html`<li>retry of ${todoLink(retryOf)}</li>` : ''}
      ${waitsBehind ? html`<li>waits behind ${todoLink(waitsBehind)}</li>` : ''}
      ${children.map(
        ({ id, queue, state, retrying }) =>
          html`<li>
            child ${todoLink(id)} <span dir="auto">${queue}</span>,
            ${stateWord({ state, retryAt: retrying })}
          </li>`,
      )}
    </ul>
  </section>`
}

const detail = ({ detail, claimant, ready, to }) =>
  [
    to === 'claimed' && claimant ? `by ${claimant}` : '',
    ready ? `ready: ${ready}` : '',
    detail?.text,
    detail?.note,
    detail?.percent === undefined ? '' : `${detail.percent} %`,
    detail?.error ? [detail.error.code, detail.error.message].filter(Boolean).join(': ') : '',
  ]
    .filter(Boolean)
    .join(', ')

const DELIVERY = { pending: 'not delivered yet', delivered: 'delivered', dead: 'given up' }

const tried = ({ attempts, status, reason, attemptedAt }) =>
  attempts === 0
    ? 'not tried yet'
    : html`${attempts === 1 ? 'tried once' : `tried ${attempts} times`}, at ${time(attemptedAt)}:
        <span dir="auto">${[status, reason].filter((word) => word !== null).join(', ')}</span>`

const nextTry = ({ nextAttemptAt }, now) => {
  if (nextAttemptAt === null) return ''
  const ms = Date.parse(nextAttemptAt) - now
  return ms > 0 ? `; next try in ${span(ms)}` : '; next try now'
}

/** What its webhooks were told, or are owed: the newest first. */
export const webhooks = ({ deliveries }, now) =>
  deliveries.length === 0
    ? ''
    : html`<section aria-label="Webhooks">
        <h3>Webhooks</h3>
        <ol class="attempts">
          ${deliveries.map(
            (delivery) => html`<li data-outcome=${delivery.state}>
              <p>
                <b>event ${delivery.seq}</b> <span class="how">${DELIVERY[delivery.state]}</span>
                <span dir="auto">${delivery.url ?? 'to a webhook that was deleted'}</span>
              </p>
              <p class=${delivery.state === 'dead' ? 'wrong' : 'help'}>${tried(delivery)}${nextTry(delivery, now)}</p>
            </li>`,
          )}
        </ol>
      </section>`

export const events = ({ events }) => html`<section aria-label="Events">
  <h3>Events</h3>
  ${events[0]?.seq > 1 ? html`<p class="help">The first ${events[0].seq - 1} are not shown.</p>` : ''}
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
  </div>
</section>`
