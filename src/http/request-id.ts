/**
 * A name for each request, in the answer's X-Request-Id, in the log, and in the answer to a fault.
 * A caller's own id is kept where it is short and plain, so that a trace can be followed through.
 */
import { randomUUID } from 'node:crypto'
import type { RequestHandler, Response } from 'express'

const PLAIN = /^[A-Za-z0-9._-]{1,64}$/

export const requestId: RequestHandler = (req, res, next) => {
  const given = req.headers['x-request-id']
  const id = typeof given === 'string' && PLAIN.test(given) ? given : randomUUID()
  res.locals.requestId = id
  res.set('X-Request-Id', id)
  next()
}

export const requestIdOf = (res: Response): string => String(res.locals.requestId)
