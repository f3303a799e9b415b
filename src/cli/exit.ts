/**
 * How a command ends: the exit codes, and which failure has which. A failure is one clear line for
 * a person, and its code is for scripts. The numbers are part of the command line's contract.
 */
import { CommanderError } from 'commander'
import { AgentApiError, ConnectionError } from '../agent-kit/errors.ts'
import { ConfigError } from '../config.ts'

export const EXIT = {
  ok: 0,
  failed: 1,
  usage: 2,
  notFound: 3,
  unreachable: 4,
  refused: 5,
  unauthorized: 6,
  portInUse: 7,
  dataDirInUse: 8,
} as const

export const EXIT_HELP = `
Exit codes:
  0  ok
  1  failed: the task failed, or something went wrong here
  2  wrong usage or configuration
  3  no such thing, or not yours
  4  the server, or its database, cannot be reached
  5  refused: a conflict with how things are
  6  the token is missing, wrong, or does not allow this
  7  the port is in use
  8  the data directory is in use`

/** A failure with its exit code; `message` is shown as it is. */
export class CliError extends Error {
  readonly exitCode: number

  constructor(exitCode: number, message: string) {
    super(message)
    this.name = 'CliError'
    this.exitCode = exitCode
  }
}

const EXIT_OF_STATUS: Record<number, number> = {
  401: EXIT.unauthorized,
  403: EXIT.unauthorized,
  429: EXIT.refused,
  503: EXIT.unreachable,
}

/** By the error codes of the operator API (docs/agents.md, "Without the kit", has their table). */
const EXIT_OF_CODE: Record<number, number> = {
  [-32602]: EXIT.usage,
  [-32010]: EXIT.refused,
  [-32011]: EXIT.unauthorized,
  [-32012]: EXIT.notFound,
}

interface Violation {
  field?: string
  description?: string
}

/** A2A has a list of details as `data`, one of which names the fields. */
const violationsIn = (data: Record<string, unknown>): Violation[] => {
  const given = Array.isArray(data)
    ? data.flatMap(({ fieldViolations }) => fieldViolations ?? [])
    : data.violations
  return Array.isArray(given) ? given : []
}

/** What the server said beside its message: the fields at fault, or the state in the way. */
const detailOf = ({ data }: AgentApiError): string => {
  const lines = violationsIn(data).map(({ field, description }) => `\n  ${field}: ${description}`)
  const state = typeof data.state === 'string' ? ` (it is ${data.state})` : ''
  return state + lines.join('')
}

/** The exit code and the text for stderr. */
export const failureOf = (error: unknown): { code: number; text: string } => {
  if (error instanceof CliError) return { code: error.exitCode, text: error.message }
  if (error instanceof ConfigError) return { code: EXIT.usage, text: error.problems.join('\n') }
  if (error instanceof ConnectionError) {
    const hint = 'Is the server running? Its address comes from --url or SWITCHBOARD_URL.'
    return { code: EXIT.unreachable, text: `${error.message}\n${hint}` }
  }
  if (error instanceof AgentApiError) {
    const code = EXIT_OF_STATUS[error.status] ?? EXIT_OF_CODE[error.code] ?? EXIT.failed
    return { code, text: `${error.message}${detailOf(error)}` }
  }
  if (error instanceof CommanderError) {
    // Commander has already written its message; help and version are no failures.
    return { code: error.exitCode === 0 ? EXIT.ok : EXIT.usage, text: '' }
  }
  return { code: EXIT.failed, text: error instanceof Error ? error.message : String(error) }
}
