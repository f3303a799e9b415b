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
  /** Null: /metrics is open, unless `metricsClosed`. */
  metricsToken: string | null
  /** Whether others than this machine can reach /metrics, which is then not open without a token. */
  metricsClosed?: boolean
  /** How long the text of /metrics is given again, in milliseconds. */
  metricsCacheMs?: number
}

const METRICS_CACHE_MS = 5000

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

/** Each text costs a few queries, so those who ask at once, or soon after, are given the same. */
const shared = (read: () => Promise<string>, cacheMs: number): (() => Promise<string>) => {
  let text: Promise<string> | null = null
  const forget = (): void => {
    text = null
  }
  return () => {
    text ??= read().finally(() => {
      if (cacheMs > 0) setTimeout(forget, cacheMs).unref()
      else forget()
    })
    return text
  }
}

const metricsText = (parts: OpsParts): RequestHandler => {
  const { metrics, metricsToken, metricsClosed = false } = parts
  const read = shared(metrics.metrics, parts.metricsCacheMs ?? METRICS_CACHE_MS)
  return async (req, res) => {
    if (metricsToken === null && metricsClosed) {
      const message =
        'Set SWITCHBOARD_METRICS_TOKEN: without it, /metrics is open only where HOST is a loopback address'
      res.status(403).json({ error: { code: 403, message } })
      return
    }
    const token = bearerToken(req.headers.authorization)
    if (metricsToken !== null && (token === null || !isSameToken(token, metricsToken))) {
      res
        .set('WWW-Authenticate', challengeFor(req))
        .status(401)
        .json({ error: { code: 401, message: 'The metrics token is required' } })
      return
    }
    res.set({ 'Content-Type': metrics.contentType, 'Cache-Control': 'no-store' })
    res.send(await read())
  }
}

export const opsRouter = (parts: OpsParts): Router => {
  const router = express.Router()
  router.get('/healthz', health(parts))
  router.get('/readyz', readiness(parts))
  router.get('/metrics', metricsText(parts))
  return router
}
