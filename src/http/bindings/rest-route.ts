/**
 * The HTTP+JSON binding of every queue: the path says which version's rows may serve, the headers
 * whether they do. Anyone may learn that a path does not exist, or by OPTIONS what it takes, since
 * the paths are those of the specification, whatever the queue.
 */
import type { ServerResponse } from 'node:http'
import type { Request, RequestHandler } from 'express'
import type { Version } from '../../protocol/versions.ts'
import type { QueueCall } from '../../protocol/wire/method.ts'
import { decodePath, type Found, nothingAt } from '../../protocol/wire/path.ts'
import { allowOf, type Rest, type Wanted } from '../../rpc/rest.ts'
import { prefers } from '../request/accept.ts'
import { type BodyOptions, hasBody, readText } from '../request/body.ts'
import { readQuery, requestIdOf, targetOf } from '../request/request.ts'
import { type CallFacts, type ExchangeParts, exchange, sendJson } from './exchange.ts'

export interface RestRouteParts extends ExchangeParts {
  rest: Rest
  body: BodyOptions
  /** All versions that are served, the preferred one first. */
  versions: readonly Version[]
  /** Throws where the request does not ask for this version. */
  checkVersion(req: Request, version: Version): void
  /** What a method row is given; may refuse. */
  enter(
    req: Request,
    res: ServerResponse,
    queue: string,
    facts: CallFacts,
    version: Version,
  ): Promise<QueueCall>
}

const wanted = (req: Request, { rest }: Version, requestId: string): Wanted => ({
  binding: rest,
  requestId,
  accepts: (mediaType) => prefers(req.headers.accept, mediaType, 'application/json'),
})

/** A path of a version. No two versions share one. */
interface VersionPath {
  version: Version
  found: readonly Found[]
}

const findPath = (versions: readonly Version[], path: string): VersionPath | null => {
  for (const version of versions) {
    const found = version.rest.paths.at(path)
    if (found.length > 0) return { version, found }
  }
  return null
}

export const restRoute = (parts: RestRouteParts): RequestHandler => {
  const { rest, body, versions, checkVersion, enter } = parts

  const answerAt = ({ version, found }: VersionPath, queue: string) =>
    exchange<Request>(parts, {
      answer: async (req, facts, res, admission) => {
        const query = readQuery(req.url)
        return rest.answer({
          ...wanted(req, version, facts.requestId),
          found,
          verb: req.method,
          query,
          checkVersion: () => checkVersion(req, version),
          enter: async () => enter(req, res, decodePath(queue), facts, version),
          readBody: async (optional) =>
            hasBody(req) ? readText(req, { ...body, untyped: optional }, admission) : '',
          begin: (row) => admission.begin(row),
        })
      },
      refuse: (req, error, requestId) => rest.refuse(error, wanted(req, version, requestId)),
      queueOf: () => decodePath(queue),
    })

  return async (req, res) => {
    const { queue, path } = targetOf(req.path)
    const known = findPath(versions, path)
    if (known && req.method === 'OPTIONS') {
      res.set('Allow', allowOf(known.version.rest, known.found)).status(204).end()
    } else if (known) {
      await answerAt(known, queue)(req, res)
    } else {
      const preferred = wanted(req, versions[0]!, requestIdOf(res))
      sendJson(req, res, rest.refuse(nothingAt(path), preferred))
    }
  }
}
