/**
 * How the command line reaches a running server: POST /operator and the board's feed. Decides where
 * the address and the token come from. The token that `dev` left in its data directory goes only to
 * the server that `dev` started, never to another address; and where that directory is another user's,
 * nothing in it is believed.
 */
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { serverAddress } from '../agent-kit/connection/address.ts'
import { connect } from '../agent-kit/connection/connection.ts'
import {
  readEvents,
  type StreamedEvent,
  type StreamOptions,
} from '../agent-kit/connection/event-stream.ts'
import { defined } from '../base/defined.ts'
import { foreignOwner, ownedByAnother } from '../embedded/owner.ts'
import { CliError, EXIT } from './exit.ts'
import { note } from './output.ts'

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
  tokenFile?: string
}

export interface Client {
  /** A method of the operator API. Rejects with AgentApiError or ConnectionError. */
  call<Result>(method: string, params?: object): Promise<Result>
  /** Methods of A2A 1.0 on this queue, for a client's token. Reject as `call` does. */
  a2a(queue: string): <Result>(method: string, params: object) => Promise<Result>
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

/** What `dev` left, if it may be believed. Throws CliError where it may not. */
const readOwnDevFile = (env: NodeJS.ProcessEnv): DevFile | null => {
  const file = devFilePath(env)
  const owner = foreignOwner(path.dirname(file))
  if (owner === null) return readDevFile(file)
  const text = ownedByAnother(path.dirname(file), owner)
  throw new CliError(EXIT.usage, `${text}; or give both address and token`)
}

/** The first line's worth of a file; a line break at its end is not part of it. */
const readToken = (file: string): string => {
  let text: string
  try {
    text = readFileSync(file, 'utf8').trim()
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    throw new CliError(EXIT.usage, `The token file ${file} cannot be read (${code})`)
  }
  if (/^[\x21-\x7e]+$/.test(text)) return text
  throw new CliError(EXIT.usage, `The token file ${file} holds no token, or more than one`)
}

/** The token that was given; undefined where none was. What stands nearer to the command counts. */
const givenToken = (options: ClientOptions, env: NodeJS.ProcessEnv): string | undefined => {
  if (options.token && options.tokenFile) {
    throw new CliError(EXIT.usage, 'Give --token or --token-file, not both')
  }
  if (options.token) {
    note(
      'switchboard: warning: everybody on this machine can read the token in a command line; use --token-file or SWITCHBOARD_TOKEN',
    )
    return options.token
  }
  if (options.tokenFile) return readToken(options.tokenFile)
  if (env.SWITCHBOARD_TOKEN) return env.SWITCHBOARD_TOKEN
  if (env.SWITCHBOARD_TOKEN_FILE) return readToken(env.SWITCHBOARD_TOKEN_FILE)
  return env.SWITCHBOARD_ADMIN_TOKEN || undefined
}

/** Throws CliError where the address is no URL or no token can be found. */
export const createClient = (options: ClientOptions, env: NodeJS.ProcessEnv): Client => {
  const url = options.url || env.SWITCHBOARD_URL
  const token = givenToken(options, env)
  const dev = url && token ? null : readOwnDevFile(env)
  const base = baseUrl(url || dev?.url || DEFAULT_URL)
  const known = token || (dev && sameServer(dev.url, base) ? dev.adminToken : undefined)
  if (!known) {
    throw new CliError(
      EXIT.usage,
      `No token for ${base}: set SWITCHBOARD_TOKEN or SWITCHBOARD_ADMIN_TOKEN, or give --token-file`,
    )
  }
  const connection = connect({ url: `${base}/operator`, token: known })
  return {
    call: (method, params = {}) =>
      // One try, since a person waits and can run the command again.
      connection.call(method, params, { retryForMs: 0, timeoutMs: CALL_MS }),
    a2a(queue) {
      const url = `${base}/a2a/${encodeURIComponent(queue)}/?A2A-Version=1.0`
      const asClient = connect({ url, token: known })
      return (method, params) =>
        asClient.call(method, params, { retryForMs: 0, timeoutMs: CALL_MS })
    },
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
  const address = serverAddress(text)
  if (address !== null) return address
  throw new CliError(EXIT.usage, `Not an http or https address: ${text}`)
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
