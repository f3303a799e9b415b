/**
 * The one structured logger. It writes each fact as a JSON line with ids as fields, to stderr,
 * since stdout belongs to data. Fields whose names suggest a secret are redacted, two levels deep;
 * never put a secret into the message itself. What an outage makes everybody say is said once a second.
 */
import pino, { type DestinationStream, type Level, type Logger } from 'pino'
import { createOutageGate } from './outages.ts'

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
  'secretKeys',
  'databaseUrl',
  'connectionString',
]

/** `*` stands for one level, so each depth needs its own path. */
const everywhere = (field: string): string[] => [field, `*.${field}`, `*.*.${field}`]

/** Written at once rather than buffered, since the last line before a crash matters most. */
const stderr = (): DestinationStream => pino.destination({ fd: 2, sync: true })

export const createLog = (level: LogLevel, destination: DestinationStream = stderr()): Log => {
  const gate = createOutageGate()
  return pino(
    {
      level,
      hooks: {
        logMethod(args, method) {
          const [fields, message] = args as [unknown, unknown]
          const write = (briefly: object, text: string): void => method.call(this, briefly, text)
          if (typeof fields === 'object' && fields !== null && typeof message === 'string') {
            if (gate(fields, message, write)) return
          }
          method.apply(this, args)
        },
      },
      base: { pid: process.pid },
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      serializers: { err: pino.stdSerializers.err, error: pino.stdSerializers.err },
      redact: { paths: SECRETS.flatMap(everywhere), censor: '[redacted]' },
    },
    destination,
  )
}
