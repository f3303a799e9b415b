/**
 * Push notification configs: what a client may do with them, and what an operator may. A config is
 * vetted before anything is written; its secret is made here and shown once.
 */
import { randomUUID } from 'node:crypto'
import { defined } from '../../base/defined.ts'
import { type Caller, readerOf, type Scope, watchScope } from '../../domain/endpoint.ts'
import { invalid, orNotFound, Refusal } from '../../domain/errors.ts'
import type { Delivery, DeliveryFilter, DeliveryPage } from '../../domain/push.ts'
import {
  type KeptPushConfig,
  type NewPushConfig,
  PUSH_CONFIGS_AT_MOST,
  type PushConfig,
} from '../../domain/push.ts'
import type { Session } from '../../store/postgres/database.ts'
import {
  deletePushConfig,
  putPushConfig,
  readPushConfig,
  readPushConfigs,
  rotatePushSecret,
} from '../../store/push/configs.ts'
import { listDeliveries, retryDelivery } from '../../store/push/delivery-log.ts'
import type { Parts } from '../parts.ts'
import { type Sealing, Unreadable } from './sealing.ts'
import { violationsOf } from './violations.ts'

interface PushPage {
  configs: PushConfig[]
  nextPageToken: string
}

export interface PushService {
  /**
   * Makes a config, or replaces the one with its id. A finished todo accepts one, and never calls it.
   * Refuses: not_found, invalid.
   */
  create(
    todoId: string,
    config: NewPushConfig,
    scope: Scope,
    caller: Caller,
  ): Promise<{ config: PushConfig; secret: string }>
  /** Refuses: not_found, for the config or the todo. */
  get(todoId: string, id: string, scope: Scope): Promise<PushConfig>
  list(
    todoId: string,
    page: { pageSize?: number; pageToken?: string },
    scope: Scope,
  ): Promise<PushPage>
  /** A config that is not there counts as deleted. Refuses: not_found, for the todo. */
  delete(todoId: string, id: string, scope: Scope): Promise<void>

  /** For operators: makes a new secret. The one before signs as well, until `previousUntil`. */
  rotateSecret(
    todoId: string,
    id: string,
    overlapSeconds?: number,
  ): Promise<{ secret: string; previousUntil: Date }>
  /** The delivery log, newest first, within what the caller may watch. */
  deliveries(filter: DeliveryFilter, caller: Caller): Promise<DeliveryPage>
  /** Makes a dead delivery due again. Refuses: not_found, wrong_state. */
  retry(id: string): Promise<Delivery>
}

interface PushParts extends Pick<Parts, 'database' | 'pages'> {
  /** What is wrong with a webhook's URL, or null if it may be kept. */
  urlProblem: (url: string) => string | null
  newSecret: () => string
  sealing: Sealing
}

/** What the rest of the services may do with configs. */
export interface Push extends PushService {
  /** The config as it can be kept, with the secret to show. Refuses: invalid. */
  vet(config: NewPushConfig, caller: Caller): KeptPushConfig
  /** Keeps it, inside a transaction. Refuses: not_found, invalid (one too many). */
  put(session: Session, todoId: string, config: KeptPushConfig, scope: Scope): Promise<PushConfig>
}

const OVERLAP_SECONDS = 86_400

/** Only a node with another list of keys, or a row that was changed, comes to this. */
const CANNOT_BE_READ = 'A secret of this config cannot be read by this node'

export const createPush = ({
  database,
  pages,
  urlProblem,
  newSecret,
  sealing,
}: PushParts): Push => {
  const vet: Push['vet'] = (config, caller) => {
    const violations = violationsOf(config, urlProblem)
    if (violations.length > 0) throw new Refusal('invalid', { violations })
    const endpointId = caller.kind === 'endpoint' ? caller.endpoint.id : null
    const id = config.id ?? randomUUID()
    const secret = newSecret()
    const stored = {
      token: sealing.seal(config.token, id, 'token'),
      credentials: sealing.seal(config.authentication?.credentials, id, 'credentials'),
      secret: sealing.seal(secret, id, 'secret'),
    }
    return { ...config, id, secret, endpointId, stored }
  }

  /** With its token as its owner gave it. */
  const shown = (config: PushConfig): PushConfig => {
    try {
      return { ...config, token: sealing.open(config.token, config.id, 'token') }
    } catch (error) {
      if (!(error instanceof Unreadable)) throw error
      throw Object.assign(new Refusal('unavailable', {}, CANNOT_BE_READ), { cause: error })
    }
  }

  const put: Push['put'] = async (session, todoId, config, scope) => {
    const kept = await putPushConfig(session, todoId, config, scope)
    if (kept) return shown(kept)
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
    get: async (todoId, id, scope) =>
      shown(orNotFound(await readPushConfig(database, todoId, id, scope))),
    list: async (todoId, { pageSize, pageToken }, scope) => {
      const limit = Math.min(pageSize ?? PUSH_CONFIGS_AT_MOST, PUSH_CONFIGS_AT_MOST)
      return pages.read(
        { list: 'webhooks', reader: scope },
        { todoId, ...defined({ pageToken }) },
        async ({ pageToken: position = '' }) => {
          const after = Buffer.from(position, 'base64url').toString()
          const found = await readPushConfigs(database, todoId, { after, limit: limit + 1 }, scope)
          const configs = found.slice(0, limit).map(shown)
          const last = configs.at(-1)
          const more = found.length > limit && last
          return { configs, nextPageToken: more ? Buffer.from(last.id).toString('base64url') : '' }
        },
      )
    },
    delete: (todoId, id, scope) => deletePushConfig(database, todoId, id, scope),

    rotateSecret: async (todoId, id, overlapSeconds = OVERLAP_SECONDS) => {
      const secret = newSecret()
      const rotation = { secret: sealing.seal(secret, id, 'secret'), overlapSeconds }
      return {
        secret,
        previousUntil: orNotFound(await rotatePushSecret(database, todoId, id, rotation)),
      }
    },
    deliveries: async (filter, caller) => {
      const scope = watchScope(caller)
      return pages.read({ list: 'deliveries', reader: readerOf(caller) }, filter, (page) =>
        listDeliveries(database, page, scope),
      )
    },
    retry: (id) => retryDelivery(database, id),
  }
}
