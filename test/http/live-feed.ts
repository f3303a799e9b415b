/**
 * A feed that lives in memory, and an express server around whatever is mounted: what the routes
 * of feeds and board need to be tried for real. Events are committed with `tell`; readers get what
 * lies after their position, then wait.
 */
import { EventEmitter, once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { createParser, type EventSourceMessage } from 'eventsource-parser'
import express, { type Router } from 'express'
import type { Caller, Endpoint } from '../../src/domain/endpoint.ts'
import type { FeedEvent } from '../../src/domain/todo.ts'
import { nameRequest } from '../../src/http/request/request.ts'
import type { Gap } from '../../src/service/watch/subscription.ts'
import type { Watch } from '../../src/service/watch/watch.ts'

const AT = new Date('2026-01-02T03:04:05.006Z')

export const anEvent = (given: Partial<FeedEvent> & { position: number }): FeedEvent => ({
  todoId: 'todo-1',
  seq: given.position,
  queue: 'a',
  contextId: 'context-1',
  author: null,
  verb: 'send',
  from: null,
  to: 'pending',
  retrying: false,
  attempt: 0,
  fence: '0',
  owner: null,
  claimant: null,
  ready: null,
  detail: null,
  at: AT,
  ...given,
})

export const createLiveFeed = () => {
  const kept: (FeedEvent | Gap)[] = []
  const bell = new EventEmitter()
  let readers = 0

  const feed: Watch['feed'] = async (after, queues, signal) => {
    const last = kept.findLast((item): item is FeedEvent => 'position' in item)
    return {
      from: after === 'now' ? (last?.position ?? 0) + 1 : after,
      events: follow(after === 'now' ? kept.length : 0, after, queues, signal),
    }
  }

  async function* follow(
    from: number,
    after: number | 'now',
    queues: readonly string[] | null,
    signal: AbortSignal,
  ) {
    readers += 1
    try {
      let next = from
      while (!signal.aborted) {
        const item = kept[next]
        if (item === undefined) {
          await once(bell, 'told', { signal }).catch(() => undefined)
          continue
        }
        next += 1
        if ('gap' in item) yield item
        else if (after !== 'now' && item.position + 1 <= after) continue
        else if (queues === null || queues.includes(item.queue)) yield item
      }
    } finally {
      readers -= 1
    }
  }

  return {
    watch: { feed } satisfies Pick<Watch, 'feed'>,
    readers: () => readers,
    tell(...items: (FeedEvent | Gap)[]): void {
      kept.push(...items)
      bell.emit('told')
    },
  }
}

export const anEndpoint = (given: Partial<Endpoint>): Endpoint => ({
  id: 'endpoint-1',
  name: 'somebody',
  queues: ['a'],
  verbs: ['watch', 'work'],
  defaultLeaseSeconds: 300,
  interruptTtlSeconds: null,
  effects: null,
  sendPerMinute: null,
  concurrency: null,
  highestPriority: null,
  lowestPriority: null,
  createdAt: AT,
  expiresAt: null,
  revokedAt: null,
  ...given,
})

/** Tokens and whose they are; revoked by deleting one. */
export const createTokens = (endpoints: Record<string, Endpoint>) => {
  const tokens = new Map<string, Caller>(
    Object.entries(endpoints).map(([token, endpoint]) => [token, { kind: 'endpoint', endpoint }]),
  )
  return {
    adminToken: 'admin-token',
    authenticate: async (token: string) => tokens.get(token) ?? null,
    revoke: (token: string) => tokens.delete(token),
  }
}

export const silent = { debug: () => undefined, warn: () => undefined, error: () => undefined }

/** Listens on a free port. */
export const serve = async (...routers: Router[]) => {
  const app = express()
  app.use(
    (req, res, next) => {
      nameRequest(req, res)
      next()
    },
    ...routers,
  )
  const server = app.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    /** Cuts every connection; the server goes on. */
    drop: () => server.closeAllConnections(),
    close: async () => {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}

/** The first `count` events of a stream, after which it is hung up. */
export const readEvents = async (
  url: string,
  headers: Record<string, string>,
  count: number,
): Promise<{ events: EventSourceMessage[]; retry: number | undefined }> => {
  const hangUp = new AbortController()
  const response = await fetch(url, { headers, signal: hangUp.signal })
  if (response.status !== 200) throw new Error(`answered ${response.status}`)
  const events: EventSourceMessage[] = []
  let retry: number | undefined
  const parser = createParser({
    onEvent: (event) => events.push(event),
    onRetry: (ms) => {
      retry = ms
    },
  })
  const decoder = new TextDecoder()
  for await (const chunk of response.body!) {
    parser.feed(decoder.decode(chunk, { stream: true }))
    if (events.length >= count) break
  }
  hangUp.abort()
  return { events: events.slice(0, count), retry }
}

export const bearer = (token: string) => ({ authorization: `Bearer ${token}` })
