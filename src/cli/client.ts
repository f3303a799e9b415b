/**
 * How the command line reaches a running server: POST /operator and the board's feed. Decides where
 * the address and the token come from. The token that `dev` left in its data directory goes only to
 * the server that `dev` started, never to another address.
 */
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { connect } from '../agent-kit/connection/connection.ts'
import {
  readEvents,
  type StreamedEvent,
  type StreamOptions,
} from '../agent-kit/connection/event-stream.ts'
import { defined } from '../base/defined.ts'
import { CliError, EXIT } from './exit.ts'

const DEFAULT_URL = 'http://127.0.0.1:4100'
const CALL_MS = 30_000

/** What `dev` leaves in its data directory for the commands that come after it. */
export interface DevFile {
  url: string
  adminToken: string
  clientToken: string
  agentToken: string
}

export interface ClientOptions {
  url?: string
  token?: string
}

export interface Client {
  /** A method of the operator API. Rejects with AgentApiError or ConnectionError. */
  call<Result>(method: string, params?: object): Promise<Result>
  /** The board's feed; ends with the signal. The first connection must succeed. */
  feed(
    options: { queue?: string | undefined } & Pick<StreamOptions, 'signal' | 'onBreak' | 'onOpen'>,
  ): AsyncGenerator<StreamedEvent>
}

/** Where `dev` keeps its file, by the data directory that the environment names. */
const devFilePath = (env: NodeJS.ProcessEnv): string =>
  path.resolve(env.SWITCHBOARD_DATA_DIR || './.switchboard', 'dev.json')

/** Null where there is no such file, or none that can be read. */
export const readDevFile = (file: string): DevFile | null => {
  try {
    const value = JSON.parse(readFileSync(file, 'utf8')) as Partial<DevFile>
    return value.url && value.adminToken ? (value as DevFile) : null
  } catch {
    return null
  }
}

/** Throws CliError where the address is no URL or no token can be found. */
export const createClient = (options: ClientOptions, env: NodeJS.ProcessEnv): Client => {
  const dev = readDevFile(devFilePath(env))
  const base = baseUrl(options.url || env.SWITCHBOARD_URL || dev?.url || DEFAULT_URL)
  const token = options.token || env.SWITCHBOARD_TOKEN || env.SWITCHBOARD_ADMIN_TOKEN
  const known = token || (dev && sameServer(dev.url, base) ? dev.adminToken : undefined)
  if (!known) {
    throw new CliError(
      EXIT.usage,
      `No token for ${base}: give --token, or set SWITCHBOARD_TOKEN or SWITCHBOARD_ADMIN_TOKEN`,
    )
  }
  const connection = connect({ url: `${base}/operator`, token: known })
  return {
    call: (method, params = {}) =>
      // One try, since a person waits and can run the command again.
      connection.call(method, params, { retryForMs: 0, timeoutMs: CALL_MS }),
    feed({ queue, ...rest }) {
      // Only what happens from now on: what was there before is for `list`.
      const query = new URLSearchParams(
        defined<Record<string, string>>({ snapshot: 'none', queue }),
      )
      const url = `${base}/board/events?${query}`
      return readEvents({ url, token: known, firstMustSucceed: true, ...rest })
    },
  }
}

const baseUrl = (text: string): string => {
  if (!URL.canParse(text) || !/^https?:$/.test(new URL(text).protocol)) {
    throw new CliError(EXIT.usage, `Not an http or https address: ${text}`)
  }
  return text.replace(/\/+$/, '')
}

/** True for the same address, whichever name of this machine it is written with. */
const sameServer = (one: string, other: string): boolean => {
  const address = (text: string): string => {
    const { protocol, hostname, port } = new URL(text)
    const host = hostname === 'localhost' || hostname === '[::1]' ? '127.0.0.1' : hostname
    return `${protocol}//${host}:${port}`
  }
  return URL.canParse(one) && address(one) === address(other)
}
