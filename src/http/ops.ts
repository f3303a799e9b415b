/** What can be asked without speaking a protocol: alive, ready, metrics. */
import express, { type RequestHandler, type Router } from 'express'
import { bearerToken, challengeFor, isSameToken } from './request/auth.ts'

interface Readiness {
  ok: boolean
  /** Why not, one line each. */
  reasons: readonly string[]
}

export interface OpsParts {
  /** The version of this server, as /healthz shows it. */
  version: string
  ready: () => Promise<Readiness>
  metrics: { contentType: string; metrics(): Promise<string> }
  /** Null: /metrics is open. */
  metricsToken: string | null
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

export const opsRouter = (parts: OpsParts): Router => {
  const router = express.Router()
  router.get('/healthz', health(parts))
  router.get('/readyz', readiness(parts))
  router.get('/metrics', metricsText(parts))
  return router
}
