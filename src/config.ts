/**
 * Reads the environment into a frozen, typed config; nothing else in the server reads it
 * (docs/configuration.md, "Environment"). All problems are reported at once, a line for each, and
 * no line shows a value, which may be a secret or hold one. An empty variable counts as unset.
 */
import { isIP } from 'node:net'
import path from 'node:path'
import { z } from 'zod'
import { type CardKey, readCardKeys } from './config/card-keys.ts'

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
  /** Has no trailing slash. Null: the address that is listened on. */
  publicUrl: string | null
  /** The form of the agent card for clients that name no version. */
  card: 'hybrid' | '1.0'
  /** Each key signs every card. */
  cardKeys: readonly CardKey[]
  adminToken: string | null
  metricsToken: string | null
  /** Whether webhooks may be plain http. */
  webhookAllowHttp: boolean
  /** CIDRs, addresses and host names that webhooks may lead to although they are not public. */
  webhookAllow: readonly string[]
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
  if (!url || !/^https?:$/.test(url.protocol)) return 'must be a URL with http:// or https://'
  if (url.username || url.password) return 'must hold no user and no password'
  return url.search || url.hash ? "must hold no '?' and no '#'" : null
}

/** A string in which `problem` finds nothing wrong. */
const sound = (problem: (text: string) => string | null) =>
  z.string().superRefine((text, context) => {
    const message = problem(text)
    if (message !== null) context.addIssue({ code: 'custom', message })
  })

const token = (minLength: number) =>
  sound((text) => {
    if (text.length < minLength) return `must have at least ${minLength} characters`
    return /^[\x21-\x7e]+$/.test(text) ? null : 'must hold printable ASCII without spaces only'
  })

const CARD_FORMS = ['hybrid', '1.0'] as const

const cardKeys = z.string().transform((text, context) => {
  const { keys, problems } = readCardKeys(text)
  for (const message of problems) context.addIssue({ code: 'custom', message })
  return keys
})

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

const LEVELS = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'] as const

const VARIABLES = z.object({
  DATABASE_URL: sound(databaseUrlProblem).nullable().default(null),
  DATABASE_DIRECT_URL: sound(databaseUrlProblem).nullable().default(null),
  SWITCHBOARD_NATS_URL: sound(natsUrlProblem).nullable().default(null),
  SWITCHBOARD_DATA_DIR: z.string().default('./.switchboard'),
  HOST: sound((text) =>
    /^[\w.:-]+$/.test(text) ? null : 'must be a host name or an IP address alone',
  ).default('127.0.0.1'),
  PORT: sound((text) =>
    /^\d{1,5}$/.test(text) && Number(text) <= 65_535 ? null : 'must be a number from 0 to 65535',
  ).default('4100'),
  SWITCHBOARD_PUBLIC_URL: sound(publicUrlProblem).nullable().default(null),
  SWITCHBOARD_CARD: z
    .enum(CARD_FORMS, { error: `must be one of ${CARD_FORMS.join(', ')}` })
    .default('hybrid'),
  SWITCHBOARD_CARD_KEYS: cardKeys.default([]),
  SWITCHBOARD_ADMIN_TOKEN: token(16).nullable().default(null),
  SWITCHBOARD_METRICS_TOKEN: token(1).nullable().default(null),
  SWITCHBOARD_WEBHOOK_ALLOW_HTTP: z
    .enum(['true', 'false'], { error: 'must be true or false' })
    .default('false'),
  SWITCHBOARD_WEBHOOK_ALLOW_CIDRS: sound((text) =>
    listOf(text).every(isTarget)
      ? null
      : 'must be a list of CIDRs, addresses and host names, with commas between',
  ).default(''),
  LOG_LEVEL: z.enum(LEVELS, { error: `must be one of ${LEVELS.join(', ')}` }).default('info'),
})

/** Read by the command line, not by the server. */
const TOLERATED = ['SWITCHBOARD_URL', 'SWITCHBOARD_TOKEN']

/** Otherwise a variable with a typo in its name would do nothing, and say nothing. */
const unknownVariables = (names: string[]): string[] => {
  const known = [...Object.keys(VARIABLES.shape), ...TOLERATED]
  const ours = known.filter((name) => name.startsWith('SWITCHBOARD_'))
  return names
    .filter((name) => name.startsWith('SWITCHBOARD_') && !known.includes(name))
    .map((name) => `${name} is not a variable of switchboard, which has ${ours.join(', ')}`)
}

/** Throws ConfigError. */
export const readConfig = (env: NodeJS.ProcessEnv): Readonly<Config> => {
  const set = Object.fromEntries(Object.entries(env).filter(([, value]) => value))
  const read = VARIABLES.safeParse(set)
  const problems = [
    ...(read.error?.issues ?? []).map(({ path: [name], message }) => `${String(name)} ${message}`),
    ...unknownVariables(Object.keys(set)),
  ]
  if (!read.success || problems.length > 0) throw new ConfigError(problems)
  const { data } = read
  return Object.freeze({
    databaseUrl: data.DATABASE_URL,
    directUrl: data.DATABASE_DIRECT_URL,
    natsUrl: data.SWITCHBOARD_NATS_URL,
    dataDir: path.resolve(data.SWITCHBOARD_DATA_DIR),
    host: data.HOST,
    port: Number(data.PORT),
    publicUrl: data.SWITCHBOARD_PUBLIC_URL?.replace(/\/+$/, '') ?? null,
    card: data.SWITCHBOARD_CARD,
    cardKeys: data.SWITCHBOARD_CARD_KEYS,
    adminToken: data.SWITCHBOARD_ADMIN_TOKEN,
    metricsToken: data.SWITCHBOARD_METRICS_TOKEN,
    webhookAllowHttp: data.SWITCHBOARD_WEBHOOK_ALLOW_HTTP === 'true',
    webhookAllow: listOf(data.SWITCHBOARD_WEBHOOK_ALLOW_CIDRS),
    logLevel: data.LOG_LEVEL,
  })
}
