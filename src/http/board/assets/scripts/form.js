/**
 * Answering, by a line of text, by buttons where there are few choices, or by the form that the
 * server made of the question's schema. It is the same on a card and in the drawer. An answer names
 * its question, so that one typed too late never answers another.
 */
import { keyed } from 'lit/directives/keyed.js'
import { html } from 'lit/html.js'
import { call, digitsOf, parseJson } from './api.js'

const MAX_BUTTONS = 4
const FATES_KEPT = 500

const YES_NO = [
  { typed: 'true', label: 'Yes' },
  { typed: 'false', label: 'No' },
]

/** What may be picked, and how a form spells it; null where the answer is typed. */
const choicesOf = ({ kind, choices }) => {
  if (kind === 'boolean') return YES_NO
  if (kind !== 'choice') return null
  return choices.map((choice, i) => ({
    typed: String(i),
    label: typeof choice === 'string' ? choice : JSON.stringify(choice),
  }))
}

/** Whether every possible answer is a button. */
export const isChoice = (form) =>
  form?.length === 1 && (choicesOf(form[0])?.length ?? Infinity) <= MAX_BUTTONS

const typedValue = (field, typed) => {
  if (typed === null || typed === '') return undefined
  if (field.kind === 'text') return typed
  if (field.kind === 'boolean') return typed === 'true'
  if (field.kind === 'choice') return field.choices[Number(typed)]
  const isJson = field.kind === 'json'
  try {
    const value = parseJson(typed)
    if (isJson || typeof value === 'number' || digitsOf(value)) return value
  } catch {
    // It is refused below, as what is no number is.
  }
  throw new Error(`${field.label} is not ${isJson ? 'JSON' : 'a number'}`)
}

/** The data of an answer from what stands in each field. */
const readForm = (form, typed) => {
  const values = form.map((field, i) => [field.name, typedValue(field, typed(i))])
  if (values[0]?.[0] === null) return values[0][1] ?? null
  return Object.fromEntries(values.filter(([, value]) => value !== undefined))
}

/** How the answer to each question fares, by todo and question. */
const fates = new Map()
const keyOf = (id, question) => `${id} ${question.seq}`

const send = async (id, question, part, changed) => {
  const key = keyOf(id, question)
  if (fates.get(key)?.sending) return
  fates.set(key, { sending: true })
  if (fates.size > FATES_KEPT) fates.delete(fates.keys().next().value)
  changed()
  try {
    await call('todos.answer', { id, question: question.seq, message: { parts: [part] } })
    fates.set(key, { sent: true })
  } catch (error) {
    const late = error.data?.reason === 'wrong_state'
    fates.set(key, { error: late ? 'It does not ask this any more.' : error.message })
  }
  changed()
}

const control = (field, i, prefix) => {
  const id = `${prefix}-${i}`
  const choices = choicesOf(field)
  if (choices) {
    return html`<fieldset>
      <legend dir="auto">${field.label}</legend>
      ${choices.map(
        ({ typed, label }) =>
          html`<label class="choice"
            ><input type="radio" name=${`f${i}`} value=${typed} ?required=${field.required} />
            <span dir="auto">${label}</span></label
          >`,
      )}
    </fieldset>`
  }
  const long = field.long || field.kind === 'json'
  return html`<label for=${id} dir="auto">${field.label}</label>
    ${
      long
        ? html`<textarea id=${id} name=${`f${i}`} rows="2" dir="auto" ?required=${field.required}></textarea>`
        : html`<input
            id=${id}
            name=${`f${i}`}
            dir="auto"
            inputmode=${field.kind === 'text' ? 'text' : 'decimal'}
            ?required=${field.required}
          />`
    }
    ${field.help ? html`<p class="help" dir="auto">${field.help}</p>` : ''}`
}

export const alertOf = (error) => (error ? html`<p class="wrong" role="alert">${error}</p>` : '')

const fateLine = (fate) =>
  fate?.sent ? html`<p class="sent" role="status">Answered.</p>` : alertOf(fate?.error)

const formFor = ({ id, question, title, where, changed }) => {
  const fate = fates.get(keyOf(id, question))
  const busy = Boolean(fate?.sending || fate?.sent)
  const { form } = question
  const label = `Answer to ${title}`

  const submit = (read) => (event) => {
    event.preventDefault()
    const data = new FormData(event.target)
    const typed = (name) => data.get(name)
    try {
      void send(id, question, read(typed), changed)
    } catch (error) {
      fates.set(keyOf(id, question), { error: error.message })
      changed()
    }
  }

  if (question.plain) {
    const read = (typed) => ({ text: typed('text').trim() })
    return html`<form class="answer" @submit=${submit(read)}>
        <input name="text" aria-label=${label} placeholder="Answer as operator" autocomplete="off" dir="auto" required ?disabled=${busy} data-answer=${id} />
        <button type="submit" ?disabled=${busy}>Answer</button>
      </form>
      ${fateLine(fate)}`
  }
  if (isChoice(form)) {
    const pick = (typed) => send(id, question, { data: readForm(form, () => typed) }, changed)
    return html`<div class="answer" role="group" aria-label=${label}>
        ${choicesOf(form[0]).map(
          ({ typed, label }, i) =>
            html`<button
              type="button"
              class=${i === 0 ? '' : 'second'}
              dir="auto"
              ?disabled=${busy}
              data-answer=${i === 0 ? id : ''}
              @click=${() => pick(typed)}
            >
              ${label}
            </button>`,
        )}
      </div>
      ${fateLine(fate)}`
  }
  const read = (typed) => ({ data: readForm(form, (i) => typed(`f${i}`)) })
  return html`<form class="answering" aria-label=${label} @submit=${submit(read)}>
      ${form.map((field, i) => html`<div class="field">${control(field, i, `${where}-${id}`)}</div>`)}
      <button type="submit" ?disabled=${busy}>Answer</button>
    </form>
    ${fateLine(fate)}`
}

/**
 * `where` tells a card's form from the drawer's. `changed` is called when the form's fate changes.
 * Each question has fields of its own, so what was typed for one does not stand in the next one's.
 */
export const answerForm = (given) => keyed(keyOf(given.id, given.question), formFor(given))
