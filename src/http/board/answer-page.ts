/**
 * `/answer/:secret`: one question and a plain form, for a person without an account. It works
 * without scripts. Opening it changes nothing, so a mail program's preview spends no link.
 */

import { type ErrorRequestHandler, type Request, type Response, Router } from 'express'
import { exactText } from '../../base/exact-json.ts'
import type { Log } from '../../base/log.ts'
import { invalid, Refusal } from '../../domain/errors.ts'
import type { Message, Part } from '../../domain/todo.ts'
import { type Field, formOf, NotOfKind, readForm } from '../../protocol/json/answer-form.ts'
import { unkeepable } from '../../protocol/wire/params.ts'
import type { AnswerLinks, LinkedQuestion } from '../../service/board/answer-links.ts'
import { readText } from '../request/body.ts'
import { answerRefusal } from '../request/refusal.ts'
import { boardHeaders } from './page.ts'

/** What is put into a page is text, unless the `html` tag below made it. */
class Html {
  readonly text: string
  constructor(text: string) {
    this.text = text
  }
}

const ENTITIES: Record<string, string> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}

const escaped = (text: string): string => text.replace(/[&<>"']/g, (found) => ENTITIES[found]!)

type Value = Html | string | number | null | false | readonly Value[]

const render = (value: Value): string => {
  if (value instanceof Html) return value.text
  if (value === null || value === false) return ''
  if (typeof value === 'string' || typeof value === 'number') return escaped(String(value))
  return value.map(render).join('')
}

const html = (strings: TemplateStringsArray, ...values: Value[]): Html =>
  new Html(strings.reduce((text, string, i) => text + render(values[i - 1] ?? null) + string))

const BODY = { mediaTypes: ['application/x-www-form-urlencoded'], limitBytes: 256 * 1024 }
const NAME_LENGTH = 100

const page = (title: string, content: Html): string =>
  html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width,initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="robots" content="noindex">
<title>${title}</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="../board/base.css">
<link rel="stylesheet" href="../board/letter.css">
</head>
<body class="letter"><main class="sheet">${content}</main></body>
</html>
`.text

const partHtml = ({ text, url, data, filename, mediaType }: Part): Html => {
  if (text !== undefined) return html`<p class="words" dir="auto">${text}</p>`
  if (data !== undefined) return html`<pre>${exactText(data, 2)}</pre>`
  return html`<p class="words" dir="auto">${filename ?? url ?? mediaType ?? 'a file'}</p>`
}

const words = (message: Message): Html[] => message.parts.map(partHtml)

const moment = (at: Date): Html =>
  html`<time datetime="${at.toISOString()}">${at.toISOString().replace('T', ' ').slice(0, 16)} UTC</time>`

/** What was typed into each field, to be shown again where it was refused. */
type Typed = (name: string) => string | null

type Choice = readonly [value: string, label: string]

const YES_NO: readonly Choice[] = [
  ['true', 'Yes'],
  ['false', 'No'],
]

const choiceOf = (choice: unknown, i: number): Choice => [
  String(i),
  typeof choice === 'string' ? choice : exactText(choice),
]

const control = (field: Field, i: number, typed: string | null): Html => {
  const name = `f${i}`
  const needed = field.required ? html` required` : ''
  if (field.kind === 'choice' || field.kind === 'boolean') {
    const choices = field.kind === 'choice' ? field.choices.map(choiceOf) : YES_NO
    return html`<fieldset><legend>${field.label}</legend>${choices.map(
      ([value, label]) =>
        html`<label class="choice"><input type="radio" name="${name}" value="${value}"${needed}${
          typed === value && html` checked`
        }> <span dir="auto">${label}</span></label>`,
    )}</fieldset>`
  }
  const long = field.long || field.kind === 'json'
  return html`<label for="${name}">${field.label}</label>${
    long
      ? html`<textarea id="${name}" name="${name}" rows="4" dir="auto"${needed}>${typed ?? ''}</textarea>`
      : html`<input id="${name}" name="${name}" value="${typed ?? ''}" dir="auto"${
          field.kind !== 'text' && html` inputmode="decimal"`
        }${needed}>`
  }`
}

const controls = (schema: LinkedQuestion['schema'], typed: Typed): Html[] =>
  schema === null
    ? [
        html`<label for="text">Your answer</label>
<textarea id="text" name="text" rows="4" dir="auto" required>${typed('text') ?? ''}</textarea>`,
      ]
    : formOf(schema).map(
        (field, i) =>
          html`<div class="field">${control(field, i, typed(`f${i}`))}${
            field.help !== null && html`<p class="help" dir="auto">${field.help}</p>`
          }</div>`,
      )

const form = ({ schema, until }: LinkedQuestion, typed: Typed, wrong: readonly string[]): Html =>
  html`<form method="post" class="answering">
${wrong.length > 0 && html`<div role="alert" class="wrong">${wrong.map((text) => html`<p>${text}</p>`)}</div>`}
${controls(schema, typed)}
<label for="by">Your name</label>
<input id="by" name="by" autocomplete="name" maxlength="${NAME_LENGTH}" value="${typed('by') ?? ''}" dir="auto" required>
<button type="submit">Answer</button>
<p class="help">This link answers this one question, once, until ${moment(until)}.</p>
</form>`

const answeredBy = (answered: NonNullable<LinkedQuestion['answered']>): Html =>
  html`<p role="status"><strong>Answered by <bdi>${
    answered.by ?? (answered.here ? 'somebody with this link' : 'an operator')
  }</bdi></strong> at ${moment(answered.at)}.</p>`

const outcome = (question: LinkedQuestion, accepted: boolean): Html => {
  const { status, answered } = question
  if (answered) {
    return html`${answeredBy(answered)}<p>${
      accepted
        ? 'Thank you. The agent goes on with it; you can close this page.'
        : 'A question is answered once. Nothing was changed.'
    }</p>`
  }
  if (status === 'expired')
    return html`<p role="status"><strong>This link has expired.</strong> Ask for a new one.</p>`
  return html`<p role="status"><strong>This is not asked any more.</strong> The task went on, ended, or asks something else.</p>`
}

const whole = (question: LinkedQuestion, rest: Html): string =>
  page(
    `${question.agent} asks`,
    html`<h1><bdi>${question.agent}</bdi> asks</h1>
<blockquote>${words(question.asked)}</blockquote>
${question.task && html`<details><summary>What it was sent to do</summary>${words(question.task)}</details>`}
${rest}`,
  )

const lost = (): string =>
  page(
    'No such question',
    html`<h1>No such question</h1><p>This address is not, or not any more, that of a question.</p>`,
  )

const send = (res: Response, status: number, text: string): void => {
  res.status(status).set('Cache-Control', 'no-store').type('html').send(text)
}

const NOTHING: Typed = () => null

/** Shows the question, or with 410 that it is over: programs read the status, people the page. */
const show = (res: Response, question: LinkedQuestion | null): void => {
  if (!question) {
    send(res, 404, lost())
    return
  }
  const open = question.status === 'open'
  const rest = open ? form(question, NOTHING, []) : outcome(question, false)
  send(res, open || question.status === 'answered' ? 200 : 410, whole(question, rest))
}

const partsOf = ({ schema }: LinkedQuestion, typed: Typed): Part[] => {
  if (schema !== null) return [{ data: readForm(formOf(schema), (i) => typed(`f${i}`)) }]
  const text = typed('text')?.trim()
  if (!text) throw new NotOfKind('An answer is needed')
  return [{ text }]
}

/** What has to be corrected, for a person to read. Any other refusal is thrown on. */
const wrongs = (error: unknown): string[] => {
  if (error instanceof NotOfKind) return [error.message]
  if (!(error instanceof Refusal && error.kind === 'invalid')) throw error
  const { violations = [] } = error.detail
  return violations.map(({ field, description }) => {
    const name = field.replace(/^message\.parts\[\d+\]\.data\/?/, '')
    return name === '' ? description : `${name}: ${description}`
  })
}

export interface AnswerPageParts {
  links: Pick<AnswerLinks, 'open' | 'answer'>
  log: Pick<Log, 'error'>
}

const secretOf = (req: Request): string => {
  const { secret } = req.params
  if (typeof secret !== 'string') throw invalid('secret', 'is missing')
  return secret
}

/** An address with half an escape holds no secret of ours. */
const undecodable: ErrorRequestHandler = (error, _req, res, next) => {
  if (error instanceof URIError) show(res, null)
  else next(error)
}

export const createAnswerPage = ({ links, log }: AnswerPageParts): Router => {
  const router = Router()
  router.use('/answer', boardHeaders)

  router.get('/answer/:secret', async (req, res) => {
    show(res, await links.open(secretOf(req)))
  })

  router.post('/answer/:secret', async (req, res) => {
    const secret = secretOf(req)
    const question = await links.open(secret)
    if (question?.status === 'answered') {
      return send(res, 409, whole(question, outcome(question, false)))
    }
    if (question?.status !== 'open') return show(res, question)
    const body = new URLSearchParams(await readText(req, BODY))
    const typed: Typed = (name) => body.get(name)
    try {
      const by = typed('by')?.trim().slice(0, NAME_LENGTH) ?? ''
      if (by === '') throw new NotOfKind('Your name is needed')
      const given = { parts: partsOf(question, typed), by }
      const fault = unkeepable(given)
      if (fault) throw new NotOfKind(`An answer ${fault.description}`)
      const answered = await links.answer(secret, given)
      if (!answered) return show(res, null)
      const { question: now, taken } = answered
      if (now.status === 'open') throw new Refusal('unavailable')
      const status = taken ? 200 : now.status === 'answered' ? 409 : 410
      send(res, status, whole(now, outcome(now, taken)))
    } catch (error) {
      send(res, 422, whole(question, form(question, typed, wrongs(error))))
    }
  })

  router.use(undecodable, answerRefusal(log))
  return router
}
