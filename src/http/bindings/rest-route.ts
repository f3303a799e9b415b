/**
 * The HTTP+JSON binding of every queue: the path says which version's rows may serve, the headers
 * whether they do. That a path is not there, and with OPTIONS what it takes, is told to anyone: the
 * paths are those of the specification, whatever the queue.
 */
import type { ServerResponse } from 'node:http'
import type { Request, RequestHandler } from 'express'
import type { Version } from '../../protocol/versions.ts'
import type { QueueCall } from '../../protocol/wire/method.ts'
import { decodePath, type Found, nothingAt, type Query } from '../../protocol/wire/path.ts'
import { allowOf, type Rest, type Wanted } from '../../rpc/rest.ts'
import { type BodyOptions, hasBody, readText } from '../request/body.ts'
import { readQuery, requestIdOf, targetOf } from '../request/request.ts'
import { type CallFacts, type ExchangeParts, exchange, sendJson } from './exchange.ts'

export interface RestRouteParts extends ExchangeParts {
  rest: Rest
  body: BodyOptions
  /** All that are served, the preferred one first. */
  versions: readonly Version[]
  /** Refuses where the request does not ask for this version. */
  checkVersion(req: Request, query: Query, version: Version): void
  /** What a row is given; may refuse. */
  enter(
    req: Request,
    res: ServerResponse,
    queue: string,
    facts: CallFacts,
    version: Version,
  ): Promise<QueueCall>
}

/** `Accept` names this type itself; a wildcard does not. */
const acceptsOf =
  (req: Request) =>
  (mediaType: string): boolean =>
    (req.headers.accept ?? '').split(',').some((range) => {
      const [type = '', ...parameters] = range.split(';').map((text) => text.trim().toLowerCase())
      return type === mediaType && !parameters.some((each) => /^q=0(\.0*)?$/.test(each))
    })

const wanted = (req: Request, { rest }: Version, requestId: string): Wanted => ({
  binding: rest,
  requestId,
  accepts: acceptsOf(req),
})

/** A path of a version: no two have one in common. */
interface Place {
  version: Version
  found: readonly Found[]
}

const placeOf = (versions: readonly Version[], path: string): Place | null => {
  for (const version of versions) {
    const found = version.rest.paths.at(path)
    if (found.length > 0) return { version, found }
  }
  return null
}

export const restRoute = (parts: RestRouteParts): RequestHandler => {
  const { rest, body, versions, checkVersion, enter } = parts

  const answerAt = ({ version, found }: Place, queue: string) =>
    exchange<Request>(parts, {
      answer: async (req, facts, res) => {
        const query = readQuery(req.url)
        return rest.answer({
          ...wanted(req, version, facts.requestId),
          found,
          verb: req.method,
          query,
          checkVersion: () => checkVersion(req, query, version),
          enter: async () => enter(req, res, decodePath(queue), facts, version),
          readBody: async (optional) =>
            hasBody(req) ? readText(req, { ...body, untyped: optional }) : '',
        })
      },
      refuse: (req, error, requestId) => rest.refuse(error, wanted(req, version, requestId)),
    })

  return async (req, res) => {
    const { queue, path } = targetOf(req.path)
    const place = placeOf(versions, path)
    if (place && req.method === 'OPTIONS') {
      res.set('Allow', allowOf(place.version.rest, place.found)).status(204).end()
    } else if (place) {
      await answerAt(place, queue)(req, res)
    } else {
      const preferred = wanted(req, versions[0]!, requestIdOf(res))
      sendJson(req, res, rest.refuse(nothingAt(path), preferred))
    }
  }
}
