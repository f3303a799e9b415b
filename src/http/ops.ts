/**
 * What is asked without speaking a protocol: alive, ready, metrics, and the public agent cards.
 * Cards are public documents, readable from any origin and cacheable; nothing else here is.
 */
import express, { type Request, type RequestHandler, type Response, type Router } from 'express'
import { agentCard, etagOf, isKnown } from '../protocol/card.ts'
import { SERVED_VERSIONS } from '../protocol/versions.ts'
import type { Queue, ReadQueue } from '../service/contract.ts'
import { bearerToken, challengeFor, isSameToken } from './auth.ts'

interface Readiness {
  ok: boolean
  /** Why not, one line each. */
  reasons: readonly string[]
}

export interface OpsParts {
  readQueue: ReadQueue
  publicUrl: () => string
  /** Of this server, as /healthz shows it. */
  version: string
  ready: () => Promise<Readiness>
  metrics: { contentType: string; metrics(): Promise<string> }
  /** Null: /metrics is open. */
  metricsToken: string | null
}

const CARD_MAX_AGE_SECONDS = 300

const CARD_HEADERS = {
  'Cache-Control': `public, max-age=${CARD_MAX_AGE_SECONDS}`,
  Vary: 'A2A-Version',
  'Access-Control-Allow-Origin': '*',
  'Access-Control-Expose-Headers': 'ETag, Last-Modified',
  'Cross-Origin-Resource-Policy': 'cross-origin',
}

const sendCard = (req: Request, res: Response, queue: Queue, publicUrl: string): void => {
  const body = JSON.stringify(agentCard(queue, { publicUrl, versions: SERVED_VERSIONS }))
  const etag = etagOf(body)
  res.set({ ...CARD_HEADERS, ETag: etag, 'Last-Modified': queue.updatedAt.toUTCString() })
  // Only the tag is asked: the card also changes with the server, which no stored time tells.
  if (isKnown(req.headers['if-none-match'], etag)) res.status(304).end()
  else res.type('application/json').send(body)
}

const card =
  ({ readQueue, publicUrl }: OpsParts): RequestHandler =>
  async (req, res) => {
    const name = req.params.queue
    const queue = await readQueue(typeof name === 'string' ? name : null)
    if (queue) sendCard(req, res, queue, publicUrl())
    else res.status(404).json({ error: { code: 404, message: 'There is no such agent' } })
  }

/** A browser asks first, when it means to send A2A-Version or If-None-Match. */
const cardPreflight: RequestHandler = (_req, res) => {
  res
    .set({
      'Access-Control-Allow-Origin': '*',
      'Access-Control-Allow-Methods': 'GET, HEAD',
      'Access-Control-Allow-Headers': 'A2A-Version, If-None-Match',
      'Access-Control-Max-Age': '86400',
    })
    .status(204)
    .end()
}

const health =
  ({ version }: OpsParts): RequestHandler =>
  (_req, res) => {
    res.set('Cache-Control', 'no-store').json({ status: 'ok', version })
  }

const readiness =
  ({ ready }: OpsParts): RequestHandler =>
  async (_req, res) => {
    const { ok, reasons } = await ready()
    res
      .set('Cache-Control', 'no-store')
      .status(ok ? 200 : 503)
      .json({ status: ok ? 'ready' : 'not ready', reasons })
  }

const metricsText =
  ({ metrics, metricsToken }: OpsParts): RequestHandler =>
  async (req, res) => {
    const token = bearerToken(req.headers.authorization)
    if (metricsToken !== null && (token === null || !isSameToken(token, metricsToken))) {
      res
        .set('WWW-Authenticate', challengeFor(req))
        .status(401)
        .json({ error: { code: 401, message: 'The metrics token is required' } })
      return
    }
    res.set({ 'Content-Type': metrics.contentType, 'Cache-Control': 'no-store' })
    res.send(await metrics.metrics())
  }

const CARD_PATHS = ['/.well-known/agent-card.json', '/a2a/:queue/.well-known/agent-card.json']

export const opsRouter = (parts: OpsParts): Router => {
  const router = express.Router()
  router.get('/healthz', health(parts))
  router.get('/readyz', readiness(parts))
  router.get('/metrics', metricsText(parts))
  router.get(CARD_PATHS, card(parts))
  router.options(CARD_PATHS, cardPreflight)
  return router
}
