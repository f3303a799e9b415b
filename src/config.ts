/**
 * Reads the environment into a frozen, typed config; nothing else in the server reads it
 * (docs/configuration.md, "Environment"). All problems are reported at once, a line for each, and
 * no line shows a value, which may be a secret or hold one. An empty variable counts as unset.
 */
import { isIP } from 'node:net'
import path from 'node:path'
import { z } from 'zod'
import { type CardKey, readCardKeys } from './config/card-keys.ts'
import { readSecretKeys, type SecretKey } from './config/secret-keys.ts'

/**
 * An idle connection is kept for longer than the common load balancers keep theirs (60 s), so that
 * they close first: one that we close while they send a request over it is a 502 to their client.
 */
export const KEEP_ALIVE_SECONDS = 75

export interface Config {
  /** Null: an embedded PostgreSQL in `dataDir` is used. */
  databaseUrl: string | null
  /** The same database without its pooler, for what a pooled connection cannot do. */
  directUrl: string | null
  /** Null: wakes go through the database. */
  natsUrl: string | null
  dataDir: string
  host: string
  /** 0: any free port. */
  port: number
  /** How long an idle connection is kept. Default: KEEP_ALIVE_SECONDS. */
  keepAliveSeconds?: number
  /** Has no trailing slash. Null: the address that is listened on. */
  publicUrl: string | null
  /** The form of the agent card for clients that name no version. */
  card: 'hybrid' | '1.0'
  /** Each key signs every card. */
  cardKeys: readonly CardKey[]
  adminToken: string | null
  metricsToken: string | null
  /** How long an answer of /metrics is given again. */
  metricsCacheSeconds: number
  /** How many JSON values the body of one request may hold. */
  maxBodyValues: number
  /** How many calls one endpoint may have in progress on a node, and how many event streams. */
  maxCallsPerEndpoint: number
  maxStreamsPerEndpoint: number
  /** What bodies and undrained answers may take of memory. Null: a share of the heap's limit. */
  inFlightMegabytes: number | null
  /** Whether webhooks may be plain http. */
  webhookAllowHttp: boolean
  /** CIDRs, addresses and host names that webhooks may lead to although they are not public. */
  webhookAllow: readonly string[]
  /** The first seals the secrets of webhooks, all open them. None: they are stored plain. */
  secretKeys?: readonly SecretKey[]
  /** Origins whose pages may call the APIs from a browser; `*` stands for all. */
  corsOrigins?: readonly string[]
  /**
   * Which proxies are believed about where a request came from: how many of them there are, or their
   * addresses. Absent or null: none is.
   */
  trustProxy?: number | readonly string[] | null
  logLevel: 'fatal' | 'error' | 'warn' | 'info' | 'debug' | 'trace' | 'silent'
}

export class ConfigError extends Error {
  override name = 'ConfigError'
  readonly problems: string[]

  constructor(problems: string[]) {
    super(`The environment is not right:\n${problems.map((line) => `  ${line}`).join('\n')}`)
    this.problems = problems
  }
}

const decodes = (text: string): boolean => {
  try {
    decodeURIComponent(text)
    return true
  } catch {
    return false
  }
}

/** What is wrong with a database URL, without its values; null when it can be used. */
const databaseUrlProblem = (url: string): string | null => {
  const parts = /^postgres(?:ql)?:\/\/([^/?#]*)(\/[^?#]*)?(\?[^#]*)?(#.*)?$/.exec(url)
  if (!parts) return 'must start with postgres:// or postgresql://'
  const [, authority = '', database = '', query = '', fragment] = parts
  if (fragment !== undefined) return "holds a raw '#', which must be written %23"

  const at = authority.lastIndexOf('@')
  const login = authority.slice(0, Math.max(0, at))
  const [user = '', ...rest] = login.split(':')
  const address = authority.slice(at + 1)
  const host = /^(\[[^\]]+\]|[^:,[\]]*)(?::\d+)?$/.exec(address)?.[1]
  if (host === undefined) {
    return (
      "has a host and port that cannot be read: one host is meant, and a '/', '?' or '@' in a " +
      'user or password must be percent-encoded'
    )
  }
  const named = { user, password: rest.join(':'), host, database, 'query string': query }
  for (const [part, text] of Object.entries(named)) {
    if (!decodes(text)) return `has a ${part} with a raw '%', which must be written %25`
  }
  if (host === '' && !/[?&]host=./.test(query)) return 'names no host'
  // The driver fills in a missing host too, and then reads the whole as a URL.
  return URL.canParse(url.replace('@/', '@host/').replace(':///', '://host/'))
    ? null
    : 'cannot be read as a URL'
}

const natsUrlProblem = (text: string): string | null => {
  const url = URL.canParse(text) ? new URL(text) : null
  if (!url || !/^(nats|tls):$/.test(url.protocol)) return 'must be a URL with nats:// or tls://'
  if (url.host === '' || url.search || url.hash)
    return "must name a host, and hold no '?' and no '#'"
  if (!decodes(url.username) || !decodes(url.password))
    return "has a raw '%' in its user or password"
  return /^(\/[\w-]+)*\/?$/.test(url.pathname)
    ? null
    : 'has a path with other than letters, digits, _ and -'
}

const publicUrlProblem = (text: string): string | null => {
  const url = URL.canParse(text) ? new URL(text) : null
  // The parser would mend what has one slash or three.
  if (!url || !/^https?:\/\/[^/]/i.test(text)) return 'must be a URL with http:// or https://'
  if (url.username || url.password) return 'must hold no user and no password'
  return url.search || url.hash ? "must hold no '?' and no '#'" : null
}

const withoutSlash = (url: string): string => url.replace(/\/+$/, '')

/** A string in which `problem` finds nothing wrong, and the value that is made of it. */
const sound = <T = string>(
  problem: (text: string) => string | null,
  convert: (text: string) => T = (text) => text as T,
) =>
  z
    .string()
    .superRefine((text, context) => {
      const message = problem(text)
      if (message !== null) context.addIssue({ code: 'custom', message })
    })
    .transform(convert)

/** A URL, read without the blanks and line breaks that a file or a shell leaves at its ends. */
const urlOf = (
  problem: (text: string) => string | null,
  convert: (text: string) => string = (text) => text,
) =>
  sound(
    (text) =>
      /\s/.test(text.trim()) ? 'holds a blank or a line break inside' : problem(text.trim()),
    (text) => convert(text.trim()),
  )

const token = (minLength: number) =>
  sound((text) => {
    if (text.length < minLength) return `must have at least ${minLength} characters`
    return /^[\x21-\x7e]+$/.test(text) ? null : 'must hold printable ASCII without spaces only'
  })

const oneOf = <const T extends readonly string[]>(...values: T) =>
  z.enum(values, { error: `must be one of ${values.join(', ')}` })

const cardKeys = z.string().transform((text, context) => {
  const { keys, problems } = readCardKeys(text)
  for (const message of problems) context.addIssue({ code: 'custom', message })
  return keys
})

const secretKeys = z.string().transform((text, context) => {
  const { keys, problems } = readSecretKeys(text)
  for (const message of problems) context.addIssue({ code: 'custom', message })
  return keys
})

const hostProblem = (text: string): string | null =>
  /^[\w.:-]+$/.test(text) ? null : 'must be a host name or an IP address alone'

const portProblem = (text: string): string | null =>
  /^\d{1,5}$/.test(text) && Number(text) <= 65_535 ? null : 'must be a number from 0 to 65535'

const wholeNumber = (min: number, max: number) =>
  sound(
    (text) =>
      /^\d{1,9}$/.test(text) && Number(text) >= min && Number(text) <= max
        ? null
        : `must be a whole number from ${min} to ${max}`,
    Number,
  )

/** Whether the entry is a CIDR, an address or a host name. */
const isTarget = (entry: string): boolean => {
  const [address = '', bits, ...more] = entry.split('/')
  if (bits === undefined) return isIP(entry) !== 0 || /^[a-z0-9_-]+(\.[a-z0-9_-]+)*$/i.test(entry)
  const most = { 0: -1, 4: 32, 6: 128 }[isIP(address)] ?? -1
  return more.length === 0 && /^\d{1,3}$/.test(bits) && Number(bits) <= most
}

const listOf = (text: string): string[] =>
  text
    .split(',')
    .map((entry) => entry.trim())
    .filter((entry) => entry !== '')

const targetsProblem = (text: string): string | null =>
  listOf(text).every(isTarget)
    ? null
    : 'must be a list of CIDRs, addresses and host names, with commas between'

const flag = z
  .enum(['true', 'false'], { error: 'must be true or false' })
  .transform((text) => text === 'true')

/** Whether this is an origin just as a browser would write it, or stands for all of them. */
const isOrigin = (entry: string): boolean =>
  entry === '*' ||
  (/^https?:[^*]*$/.test(entry) && URL.canParse(entry) && new URL(entry).origin === entry)

const originsProblem = (text: string): string | null =>
  listOf(text).length > 0 && listOf(text).every(isOrigin)
    ? null
    : "must be a list of origins such as https://app.example:8443, with commas between and no '/' at their end, or *"

/** Whether the entry is a CIDR, an address, or one of the names that express knows for some. */
const isProxy = (entry: string): boolean =>
  ['loopback', 'linklocal', 'uniquelocal'].includes(entry) ||
  (isTarget(entry) && isIP(entry.split('/')[0] ?? '') !== 0)

const MAX_PROXIES = 10

const proxiesProblem = (text: string): string | null => {
  const isCount = /^\d+$/.test(text) && Number(text) >= 1 && Number(text) <= MAX_PROXIES
  const entries = listOf(text)
  if (isCount || (entries.length > 0 && entries.every(isProxy))) return null
  return (
    `must be the number of proxies from 1 to ${MAX_PROXIES}, or a list of their addresses and ` +
    'CIDRs with commas between, in which loopback, linklocal and uniquelocal may stand'
  )
}

const proxies = (text: string): number | readonly string[] =>
  /^\d+$/.test(text) ? Number(text) : listOf(text)

/** Each member's variable, its value where that is unset, and how it is read. */
const MEMBERS: { readonly [K in keyof Config]-?: [string, Config[K], z.ZodType<Config[K]>] } = {
  databaseUrl: ['DATABASE_URL', null, urlOf(databaseUrlProblem)],
  directUrl: ['DATABASE_DIRECT_URL', null, urlOf(databaseUrlProblem)],
  natsUrl: ['SWITCHBOARD_NATS_URL', null, urlOf(natsUrlProblem)],
  dataDir: ['SWITCHBOARD_DATA_DIR', './.switchboard', z.string()],
  host: ['HOST', '127.0.0.1', sound(hostProblem)],
  port: ['PORT', 4100, sound(portProblem, Number)],
  keepAliveSeconds: ['SWITCHBOARD_KEEP_ALIVE_SECONDS', KEEP_ALIVE_SECONDS, wholeNumber(1, 3600)],
  publicUrl: ['SWITCHBOARD_PUBLIC_URL', null, urlOf(publicUrlProblem, withoutSlash)],
  card: ['SWITCHBOARD_CARD', 'hybrid', oneOf('hybrid', '1.0')],
  cardKeys: ['SWITCHBOARD_CARD_KEYS', [], cardKeys],
  adminToken: ['SWITCHBOARD_ADMIN_TOKEN', null, token(16)],
  metricsToken: ['SWITCHBOARD_METRICS_TOKEN', null, token(1)],
  metricsCacheSeconds: ['SWITCHBOARD_METRICS_CACHE_SECONDS', 5, wholeNumber(0, 60)],
  maxBodyValues: ['SWITCHBOARD_MAX_BODY_VALUES', 200_000, wholeNumber(1000, 10_000_000)],
  maxCallsPerEndpoint: ['SWITCHBOARD_MAX_CALLS_PER_ENDPOINT', 1000, wholeNumber(1, 100_000)],
  maxStreamsPerEndpoint: ['SWITCHBOARD_MAX_STREAMS_PER_ENDPOINT', 1000, wholeNumber(1, 10_000)],
  inFlightMegabytes: ['SWITCHBOARD_IN_FLIGHT_MB', null, wholeNumber(32, 65_536)],
  webhookAllowHttp: ['SWITCHBOARD_WEBHOOK_ALLOW_HTTP', false, flag],
  secretKeys: ['SWITCHBOARD_SECRET_KEYS', [], secretKeys],
  webhookAllow: ['SWITCHBOARD_WEBHOOK_ALLOW_CIDRS', [], sound(targetsProblem, listOf)],
  corsOrigins: ['SWITCHBOARD_CORS_ORIGINS', [], sound(originsProblem, listOf)],
  trustProxy: ['SWITCHBOARD_TRUST_PROXY', null, sound(proxiesProblem, proxies)],
  logLevel: [
    'LOG_LEVEL',
    'info',
    oneOf('fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'),
  ],
}

/** Each variable, with what holds where it is unset. */
export const VARIABLES: readonly (readonly [name: string, unset: unknown])[] = Object.values(
  MEMBERS,
).map(([name, unset]) => [name, unset])

/** Read by the command line, not by the server. */
const TOLERATED = ['SWITCHBOARD_URL', 'SWITCHBOARD_TOKEN', 'SWITCHBOARD_TOKEN_FILE']

/**
 * What Kubernetes sets in every container beside a service named switchboard: its address, in the
 * forms that Docker's links had.
 */
const OF_KUBERNETES =
  /^SWITCHBOARD_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)$/

/** The variables of this environment that are not ours, and are ignored. */
export const kubernetesVariables = (env: NodeJS.ProcessEnv): string[] =>
  Object.keys(env).filter((name) => OF_KUBERNETES.test(name))

/** Otherwise a variable with a typo in its name would do nothing, and say nothing. */
const unknownVariables = (names: string[]): string[] => {
  const known = [...Object.values(MEMBERS).map(([name]) => name), ...TOLERATED]
  const ours = known.filter((name) => name.startsWith('SWITCHBOARD_'))
  return names
    .filter(
      (name) =>
        name.startsWith('SWITCHBOARD_') && !known.includes(name) && !OF_KUBERNETES.test(name),
    )
    .map((name) => `${name} is not a variable of switchboard, which has ${ours.join(', ')}`)
}

/** A node that listens on this, however it is written, has no address of its own to name. */
export const isEveryAddress = (host: string): boolean => {
  const bare = host.replace(/^\[(.*)\]$/, '$1')
  const url = `http://${bare.includes(':') ? `[${bare}]` : bare}`
  if (!URL.canParse(url)) return false
  const { hostname } = new URL(url)
  return ['0.0.0.0', '[::]', '[::ffff:0:0]'].includes(hostname)
}

/** Throws ConfigError. */
export const readConfig = (env: NodeJS.ProcessEnv): Readonly<Config> => {
  const set = Object.fromEntries(Object.entries(env).filter(([, value]) => value))
  const problems: string[] = []
  const members = Object.entries(MEMBERS).map(([member, [name, unset, type]]) => {
    if (set[name] === undefined) return [member, unset]
    const { data, error } = type.safeParse(set[name])
    problems.push(...(error?.issues ?? []).map(({ message }) => `${name} ${message}`))
    return [member, data]
  })
  problems.push(...unknownVariables(Object.keys(set)))
  if (problems.length > 0) throw new ConfigError(problems)
  const config = Object.fromEntries(members) as Config
  return Object.freeze({ ...config, dataDir: path.resolve(config.dataDir) })
}
