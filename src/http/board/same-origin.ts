/**
 * Whether a request comes from the board's own pages. Browsers say where a request comes from, so
 * one that says nothing is not from a browser. This stands beside the cookie's SameSite=Strict, not
 * instead of it.
 */
import type { Request, RequestHandler } from 'express'
import { Refusal } from '../../domain/errors.ts'

/** A header that another site can send only after a preflight, which is refused. */
const OWN_HEADER = 'x-switchboard-board'

const createIsOwn =
  (publicUrl: () => string) =>
  (req: Request): boolean => {
    const site = req.get('sec-fetch-site')
    if (site !== undefined) return site === 'same-origin'
    const origin = req.get('origin')
    if (origin === undefined) return true
    if (!URL.canParse(origin)) return false
    return [req.get('host'), new URL(publicUrl()).host].includes(new URL(origin).host)
  }

const refused = () => new Refusal('forbidden', {}, 'Only the board may ask for this')

export const createSameOrigin = (publicUrl: () => string): RequestHandler => {
  const isOwn = createIsOwn(publicUrl)
  return (req, _res, next) => next(isOwn(req) ? undefined : refused())
}

/** The same with the page's own header, for what acts in the name of whoever is logged in. */
export const createSameOriginCalls = (publicUrl: () => string): RequestHandler => {
  const isOwn = createIsOwn(publicUrl)
  return (req, _res, next) =>
    next(isOwn(req) && req.get(OWN_HEADER) !== undefined ? undefined : refused())
}
