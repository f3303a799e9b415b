/**
 * Push notification configs: what a client may ask of them, and what an operator may. A config is
 * vetted before anything is written; its secret is made here and shown once.
 */

import { randomUUID } from 'node:crypto'
import { type Caller, type Scope, watchScope } from '../../domain/endpoint.ts'
import { invalid, Refusal, type Violation } from '../../domain/errors.ts'
import type { Delivery, DeliveryFilter, DeliveryPage } from '../../domain/push.ts'
import {
  type KeptPushConfig,
  type NewPushConfig,
  PUSH_CONFIGS_AT_MOST,
  type PushConfig,
} from '../../domain/push.ts'
import type { Database, Session } from '../../store/postgres/database.ts'
import {
  deletePushConfig,
  putPushConfig,
  readPushConfig,
  readPushConfigs,
  rotatePushSecret,
} from '../../store/push/configs.ts'
import { listDeliveries, retryDelivery } from '../../store/push/delivery-log.ts'

interface PushPage {
  configs: PushConfig[]
  nextPageToken: string
}

export interface PushService {
  /**
   * Makes a config, or replaces the one with its id. A finished todo takes one, and never tells it.
   * Refuses: not_found, invalid.
   */
  create(
    todoId: string,
    config: NewPushConfig,
    scope: Scope,
    caller: Caller,
  ): Promise<{ config: PushConfig; secret: string }>
  /** Refuses: not_found, for the config as for the todo. */
  get(todoId: string, id: string, scope: Scope): Promise<PushConfig>
  list(
    todoId: string,
    page: { pageSize?: number; pageToken?: string },
    scope: Scope,
  ): Promise<PushPage>
  /** One that is not there is as good as deleted. Refuses: not_found, for the todo. */
  delete(todoId: string, id: string, scope: Scope): Promise<void>

  /** For operators: another secret; the one before signs, too, until the moment that is told. */
  rotateSecret(
    todoId: string,
    id: string,
    overlapSeconds?: number,
  ): Promise<{ secret: string; previousUntil: Date }>
  /** The delivery log, newest first, within what the caller may watch. */
  deliveries(filter: DeliveryFilter, caller: Caller): Promise<DeliveryPage>
  /** Owes a dead delivery again. Refuses: not_found, wrong_state. */
  retry(id: string): Promise<Delivery>
}

export interface PushParts {
  database: Database
  /** What is wrong with a webhook's URL; null for one that may be kept. */
  urlProblem: (url: string) => string | null
  newSecret: () => string
}

/** What the rest of the services may do with configs. */
export interface Push extends PushService {
  /** The config as it may be kept, with the secret to show. Refuses: invalid. */
  vet(config: NewPushConfig, caller: Caller): KeptPushConfig
  /** Inside a transaction. Refuses: not_found, invalid (one too many). */
  put(session: Session, todoId: string, config: KeptPushConfig, scope: Scope): Promise<PushConfig>
}

const TOKEN_AT_MOST = 4096
const CREDENTIALS_AT_MOST = 8192
const SCHEME_AT_MOST = 64

/** Sent as the value of a header: visible ASCII, with spaces between. */
const isHeaderValue = (text: string): boolean =>
  /^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/.test(text)
const isHeaderToken = (text: string): boolean => /^[!#$%&'*+.^_`|~\w-]+$/.test(text)

const textProblem = (text: string | undefined, atMost: number, ok: (text: string) => boolean) => {
  if (text === undefined) return null
  if (text.length > atMost) return `must be at most ${atMost} characters`
  return ok(text) ? null : 'must hold only what an HTTP header can carry'
}

const OVERLAP_SECONDS = 86_400

export const createPush = ({ database, urlProblem, newSecret }: PushParts): Push => {
  const faultsOf = (config: NewPushConfig): Violation[] => {
    const { url, token, authentication, path } = config
    const faults: [string, string | null][] = [
      ['url', urlProblem(url)],
      ['token', textProblem(token, TOKEN_AT_MOST, isHeaderValue)],
      ['authentication.scheme', textProblem(authentication?.scheme, SCHEME_AT_MOST, isHeaderToken)],
      [
        'authentication.credentials',
        textProblem(authentication?.credentials, CREDENTIALS_AT_MOST, isHeaderValue),
      ],
    ]
    return faults.flatMap(([name, description]) =>
      description === null ? [] : [{ field: path ? `${path}.${name}` : name, description }],
    )
  }

  const vet: Push['vet'] = (config, caller) => {
    const violations = faultsOf(config)
    if (violations.length > 0) throw new Refusal('invalid', { violations })
    const endpointId = caller.kind === 'endpoint' ? caller.endpoint.id : null
    return { ...config, id: config.id ?? randomUUID(), secret: newSecret(), endpointId }
  }

  const put: Push['put'] = async (session, todoId, config, scope) => {
    const kept = await putPushConfig(session, todoId, config, scope)
    if (kept) return kept
    const limit = `the task has ${PUSH_CONFIGS_AT_MOST} push notification configs, which is the limit`
    throw invalid(config.path ? `${config.path}.id` : 'id', limit)
  }

  return {
    vet,
    put,
    create: async (todoId, config, scope, caller) => {
      const kept = vet(config, caller)
      const made = await database.transaction((session) => put(session, todoId, kept, scope))
      return { config: made, secret: kept.secret }
    },
    get: async (todoId, id, scope) => {
      const config = await readPushConfig(database, todoId, id, scope)
      if (!config) throw new Refusal('not_found')
      return config
    },
    list: async (todoId, { pageSize, pageToken }, scope) => {
      const limit = Math.min(pageSize ?? PUSH_CONFIGS_AT_MOST, PUSH_CONFIGS_AT_MOST)
      const after = pageToken === undefined ? '' : decodeToken(pageToken)
      const found = await readPushConfigs(database, todoId, { after, limit: limit + 1 }, scope)
      const configs = found.slice(0, limit)
      const last = configs.at(-1)
      const more = found.length > limit && last
      return { configs, nextPageToken: more ? encodeToken(last.id) : '' }
    },
    delete: (todoId, id, scope) => deletePushConfig(database, todoId, id, scope),

    rotateSecret: async (todoId, id, overlapSeconds = OVERLAP_SECONDS) => {
      const secret = newSecret()
      const rotation = { secret, overlapSeconds }
      const previousUntil = await rotatePushSecret(database, todoId, id, rotation)
      if (!previousUntil) throw new Refusal('not_found')
      return { secret, previousUntil }
    },
    deliveries: (filter, caller) => listDeliveries(database, filter, watchScope(caller)),
    retry: (id) => retryDelivery(database, id),
  }
}

/** The last id of the page before; marked, so that not every text is one of ours. */
const MARK = 'push '
const encodeToken = (id: string): string => Buffer.from(`${MARK}${id}`).toString('base64url')
const decodeToken = (token: string): string => {
  const text = Buffer.from(token, 'base64url').toString()
  if (text.startsWith(MARK) && encodeToken(text.slice(MARK.length)) === token) {
    return text.slice(MARK.length)
  }
  throw invalid('pageToken', 'is not a token this server gave out')
}
