/**
 * The one structured logger: a JSON line for a fact, ids as fields, on stderr, since stdout belongs
 * to data. What could be a secret is struck out by its field's name, two levels deep; never put one
 * into the message itself.
 */
import pino, { type DestinationStream, type Level, type Logger } from 'pino'

export type Log = Logger
export type LogLevel = Level | 'silent'

const SECRETS = [
  'token',
  'adminToken',
  'metricsToken',
  'authorization',
  'Authorization',
  'credentials',
  'password',
  'databaseUrl',
  'connectionString',
]

/** `*` stands for one level, so each depth has its own path. */
const everywhere = (field: string): string[] => [field, `*.${field}`, `*.*.${field}`]

/** Written at once rather than gathered: the last line before a crash is the one that matters. */
const stderr = (): DestinationStream => pino.destination({ fd: 2, sync: true })

export const createLog = (level: LogLevel, destination: DestinationStream = stderr()): Log =>
  pino(
    {
      level,
      base: { pid: process.pid },
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      serializers: { err: pino.stdSerializers.err, error: pino.stdSerializers.err },
      redact: { paths: SECRETS.flatMap(everywhere), censor: '[redacted]' },
    },
    destination,
  )
