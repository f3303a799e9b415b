/**
 * One todo as a card. Whatever came from outside goes into the page as text and in no other way,
 * each piece isolated, so that no text changes the direction of its neighbors.
 */
import { html, svg } from 'lit/html.js'
import { answerForm, isChoice } from './form.js'
import {
  idleOf,
  owes,
  QUIET_MS,
  shortSpan,
  soon,
  span,
  stateWord,
  titleOf,
  wrong,
} from './words.js'

const ROUND = 2 * Math.PI * 16
const SOON_MS = 3600_000

/** The rest of a wait, as a ring that shrinks. */
export const ring = (question, since, now) => {
  const end = question.deadline ? Date.parse(question.deadline) : null
  const left = end === null ? null : Math.max(0, end - now)
  const whole = end === null || !since ? 0 : end - Date.parse(since)
  const part = left === null ? 1 : whole > 0 ? Math.min(1, left / whole) : 0
  const text = left === null ? 'no end' : shortSpan(left)
  const label = left === null ? 'waits without a deadline' : `${text} left to answer`
  return html`<svg
    class=${left !== null && left < SOON_MS ? 'ring soon' : 'ring'}
    viewBox="0 0 38 38"
    role="img"
    aria-label=${label}
  >
    ${svg`<circle class="rest" cx="19" cy="19" r="16" />
      <circle class="left" cx="19" cy="19" r="16" transform="rotate(-90 19 19)"
        stroke-dasharray=${`${part * ROUND} ${ROUND}`} />
      <text x="19" y="22" text-anchor="middle">${text}</text>`}
  </svg>`
}

const attempt = ({ attempt, maxAttempts }) =>
  attempt > 1 ? `attempt ${attempt}${maxAttempts ? ` of ${maxAttempts}` : ''}` : ''

const age = ({ at }, now, suffix = '') =>
  html`<time datetime=${at}>${span(now - Date.parse(at))}${suffix}</time>`

const tag = (text, name = '') => (text ? html`<span class=${name} dir="auto">${text}</span>` : '')

/** On whose behalf it was sent. */
const from = ({ author }) => (author ? tag(`from ${author}`, 'author') : '')

/** Of a budget; a card that has none, or that was made of an event, says nothing. */
const spent = (card) => tag(card.spent ? `spent ${card.spent}` : '')

const byClock = ({ schedule }) => tag(schedule ? `by schedule ${schedule}` : '')

const behind = (card, cards) => {
  const front = cards.get(card.waitsBehind)
  const name = titleOf(front ?? { id: card.waitsBehind })
  return html`waits behind
    <a href=${`#/todo/${card.waitsBehind}`}><bdi>${name}</bdi></a> in the same conversation`
}

const waits = (card, { cards, now }) => {
  const error = wrong(card.error)
  if (card.retryAt) {
    const next = soon(Date.parse(card.retryAt) - now)
    return html`tries again ${next}${error ? html`: <bdi>${error}</bdi>` : ''}`
  }
  if (card.waitsBehind) return behind(card, cards)
  if (card.joining) return 'waits for its children'
  const start = card.notBefore ? Date.parse(card.notBefore) - now : 0
  if (start > 1000) return `waits for its time, in ${span(start)}`
  const due = card.dueAt ? Date.parse(card.dueAt) - now : 0
  return due > 1000 ? `handed back, due in ${span(due)}` : 'ready, waits for an agent'
}

const waiting = (card, board) => html`
  <p class="said">${waits(card, board)}</p>
  <p class="meta">
    ${tag(card.queue)}${from(card)}${tag(attempt(card))}${byClock(card)}${spent(card)}
    ${age(card, board.now)}
  </p>`

const held = (card, { now }) => {
  const { ms: idle } = idleOf(card, now)
  return html`
    ${card.said ? html`<p class="said" dir="auto">${card.said}</p>` : ''}
    <p class="meta">
      ${tag(card.queue)}${from(card)}<span>${`attempt ${card.attempt}`}</span>${tag(card.claimant)}
      ${byClock(card)}${spent(card)}
      ${idle > 0 ? html`<span class=${idle >= QUIET_MS ? 'quiet' : ''}>${`idle ${span(idle)}`}</span>` : ''}
      ${age(card, now)}
    </p>`
}

const holding = (card) => {
  if (card.answeredAt) return 'answered, goes on when its turn comes'
  const sign = card.state === 'auth-required' ? 'needs sign-in, ' : ''
  const who = card.parked ? 'parked' : `held by ${card.claimant ?? 'its agent'}`
  if (card.client === undefined) return `${sign}${who}`
  return `${sign}${who}, for ${card.client ? `client ${card.client}` : 'an operator'}`
}

const form = (card, board) => {
  const { question } = card
  if (!question || !board.me.mayAnswer) return ''
  if (question.plain || isChoice(question.form)) {
    return answerForm({ ...board, id: card.id, question, title: titleOf(card), where: 'card' })
  }
  return html`<p class="answer">
    <a class="button" data-answer=${card.id} href=${`#/todo/${card.id}`}>Open the form to answer</a>
  </p>`
}

const asking = (card, board) => html`
  <div class="row">
    ${card.question ? ring(card.question, card.since, board.now) : ''}
    <div>
      ${heading(card)}
      <p class="said" dir="auto">${holding(card)}</p>
    </div>
  </div>
  <blockquote dir="auto">${card.said}</blockquote>
  ${form(card, board)}
  <p class="meta">${tag(card.queue)}${from(card)}${tag(attempt(card))}${byClock(card)}${spent(card)}</p>`

const ended = (card, { now }) => html`
  <p class="said" dir="auto">${wrong(card.error) || card.said}</p>
  <p class="meta">
    ${tag(card.queue)}${from(card)}<span class="state">${stateWord(card)}</span>${tag(attempt(card))}
    ${byClock(card)}${tag(owes(card.owed))}${spent(card)}
    ${age(card, now, ' ago')}
  </p>`

const heading = (card) =>
  html`<h3><a class="open" href=${`#/todo/${card.id}`} dir="auto">${titleOf(card)}</a></h3>`

const BODIES = { waiting, held, interrupted: asking, ended }

/** Changes as often as the card's text: by the second only while it is young or about to end. */
export const tickOf = (card, now) => {
  const since = now - Date.parse(card.at)
  const coming = [card.retryAt, card.dueAt, card.notBefore, card.question?.deadline]
    .filter(Boolean)
    .map((time) => Date.parse(time) - now)
    .filter((ms) => ms > 0)
  const near = Math.min(since, ...coming)
  return Math.floor(now / (near < 600_000 ? 1000 : 15_000))
}

/** `board` holds what a card cannot know by itself: the time, who looks, and the other cards. */
export const cardView = (card, board) => html`<li
  class=${card.fresh || card.arrived ? 'card new' : 'card'}
  data-id=${card.id}
  data-state=${card.state}
  data-phase=${card.phase}
>
  ${card.phase === 'interrupted' ? '' : heading(card)} ${BODIES[card.phase](card, board)}
</li>`
