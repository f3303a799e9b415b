/**
 * A name for each request, in the answer's X-Request-Id, in the log, and in the answer to a fault.
 * A caller's own id is kept where it is short and plain, so that a trace can be followed through.
 */
import { randomUUID } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { RequestHandler } from 'express'

const HEADER = 'X-Request-Id'
const PLAIN = /^[A-Za-z0-9._-]{1,64}$/

export const nameRequest = (req: IncomingMessage, res: ServerResponse): void => {
  const given = req.headers['x-request-id']
  const id = typeof given === 'string' && PLAIN.test(given) ? given : randomUUID()
  res.setHeader(HEADER, id)
}

export const requestId: RequestHandler = (req, res, next) => {
  nameRequest(req, res)
  next()
}

export const requestIdOf = (res: ServerResponse): string => String(res.getHeader(HEADER))
