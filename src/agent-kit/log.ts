/**
 * Where the kit says what it does. The shape is pino's, so that a pino logger can be handed in
 * as it is; without one, warnings and errors go to stderr, a line each.
 */
type LogMethod = (facts: object, text: string) => void

export interface AgentLog {
  debug: LogMethod
  info: LogMethod
  warn: LogMethod
  error: LogMethod
}

const line =
  (level: string): LogMethod =>
  (facts, text) => {
    process.stderr.write(`${level}: ${text} ${JSON.stringify(facts)}\n`)
  }

export const stderrLog: AgentLog = {
  debug: () => {},
  info: () => {},
  warn: line('warning'),
  error: line('error'),
}
