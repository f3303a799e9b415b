/**
 * The public documents about agents: their cards, in the form that the client speaks, and the keys
 * that their signatures are checked with. These alone are cacheable and readable from any origin.
 */

import { createHash } from 'node:crypto'
import express, { type Request, type RequestHandler, type Response, type Router } from 'express'
import { exactText } from '../base/exact-json.ts'
import type { Queue } from '../domain/queue.ts'
import { agentCard } from '../protocol/a2a/card.ts'
import { type CardForm, FORMS } from '../protocol/a2a/card-forms.ts'
import { type CardSigner, JWKS_PATH } from '../protocol/a2a/card-signature.ts'
import { askedVersion } from '../protocol/versions.ts'
import type { ReadQueue } from '../service/registry.ts'
import { requestedVersion } from './request/request.ts'

/** Where others reach this node, for a request with this `Host`, or for nobody in particular. */
export type PublicUrl = (host?: string) => string

export interface CardParts {
  readQueue: ReadQueue
  publicUrl: PublicUrl
  signer: CardSigner
  /** What clients get that name no version. */
  plainForm: Exclude<CardForm, '0.3'>
}

const MAX_AGE_SECONDS = 300

const PUBLIC_HEADERS = {
  'Cache-Control': `public, max-age=${MAX_AGE_SECONDS}`,
  'Access-Control-Allow-Origin': '*',
  'Access-Control-Expose-Headers': 'ETag, Last-Modified',
  'Cross-Origin-Resource-Policy': 'cross-origin',
}

/** A strong entity tag of these bytes (RFC 9110 8.8.3). */
export const etagOf = (body: string): string =>
  `"${createHash('sha256').update(body).digest('base64url').slice(0, 27)}"`

/** Whether `If-None-Match` (its raw value) names this tag, by weak comparison (RFC 9110 13.1.2). */
export const isKnown = (ifNoneMatch: string | undefined, etag: string): boolean => {
  const tags = (ifNoneMatch ?? '').split(',').map((tag) => tag.trim().replace(/^W\//, ''))
  return tags.includes('*') || tags.includes(etag.replace(/^W\//, ''))
}

interface Document {
  body: string
  etag: string
}

/** Only the tag is compared: a card also changes with the server, which no stored time shows. */
const send = (req: Request, res: Response, { body, etag }: Document): void => {
  res.set({ ...PUBLIC_HEADERS, ETag: etag })
  if (isKnown(req.headers['if-none-match'], etag)) res.status(304).end()
  else res.type('application/json').send(body)
}

/** A version we do not know is no reason to hide the card, which says which ones we do know. */
const formFor = (req: Request, plainForm: CardForm): CardForm => {
  const [header, query] = requestedVersion(req)
  if (!header?.trim() && query.join('') === '') return plainForm
  const version = askedVersion(header, query)
  return version === '1.0' || version === '0.3' ? version : plainForm
}

/**
 * Only the 1.0 form is signed, because verifiers differ on whether members they do not know were
 * signed. Its tag is weak, because each node and each start signs the same card with other bytes.
 */
const documentOf = async (
  form: CardForm,
  queue: Queue,
  publicUrl: string,
  signer: CardSigner,
): Promise<Document> => {
  const card = agentCard(queue, publicUrl)
  const body = exactText(FORMS[form](card))
  if (form !== '1.0' || signer.kids.length === 0) return { body, etag: etagOf(body) }
  return {
    body: exactText(await signer.sign(card, publicUrl)),
    etag: `W/${etagOf(JSON.stringify([body, signer.kids]))}`,
  }
}

const card =
  ({ readQueue, publicUrl, signer, plainForm }: CardParts): RequestHandler =>
  async (req, res) => {
    const name = req.params.queue
    const queue = await readQueue(typeof name === 'string' ? name : null)
    if (!queue) {
      res.status(404).json({ error: { code: 404, message: 'There is no such agent' } })
      return
    }
    const form = formFor(req, plainForm)
    const document = await documentOf(form, queue, publicUrl(req.headers.host), signer)
    res.vary('A2A-Version').set('Last-Modified', queue.updatedAt.toUTCString())
    send(req, res, document)
  }

const jwks = ({ signer }: CardParts): RequestHandler => {
  const body = JSON.stringify(signer.jwks)
  const etag = etagOf(body)
  return (req, res) => send(req, res, { body, etag })
}

/** Browsers ask first when they want to send A2A-Version or If-None-Match. */
const preflight: RequestHandler = (_req, res) => {
  res
    .set({
      'Access-Control-Allow-Origin': '*',
      'Access-Control-Allow-Methods': 'GET, HEAD',
      'Access-Control-Allow-Headers':
        'A2A-Version, A2A-Extensions, X-A2A-Extensions, If-None-Match',
      'Access-Control-Max-Age': '86400',
    })
    .status(204)
    .end()
}

/** What people paste who were given an agent's address: its card says the rest. */
const AGENT_PATH = '/a2a/:queue'

/** Clients before 0.3 look for `agent.json`, and may not follow a redirect. */
const CARD_PATHS = ['', AGENT_PATH]
  .flatMap((base) => [`${base}/.well-known/agent-card.json`, `${base}/.well-known/agent.json`])
  .concat(AGENT_PATH)

export const cardRouter = (parts: CardParts): Router => {
  const router = express.Router()
  router.get(CARD_PATHS, card(parts))
  router.get(JWKS_PATH, jwks(parts))
  router.options([...CARD_PATHS, JWKS_PATH], preflight)
  return router
}
