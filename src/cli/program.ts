/**
 * How the commands are put together: the program, and the options that every command shares that
 * talks to a running server.
 */
import { Command, InvalidArgumentError } from 'commander'
import { type Client, createClient } from './client.ts'
import { EXIT_HELP } from './exit.ts'

/** What a client command's action works with. */
export interface Session {
  client: Client
  json: boolean
}

export interface SharedOptions {
  url?: string
  token?: string
  json?: boolean
}

/** Adds the options of a command that talks to a server. */
export const clientCommand = (parent: Command, usage: string, description: string): Command =>
  parent
    .command(usage)
    .description(description)
    .option('--url <url>', 'address of the server (SWITCHBOARD_URL)')
    .option('--token <token>', 'token (SWITCHBOARD_TOKEN, SWITCHBOARD_ADMIN_TOKEN)')
    .option('--json', 'print JSON and nothing else on stdout')

/** Throws CliError where address or token are missing or wrong. */
export const openSession = ({ json = false, ...options }: SharedOptions): Session => ({
  client: createClient(options, process.env),
  json,
})

export const createProgram = (version: string): Command =>
  new Command('switchboard')
    .description('A durable A2A task server on PostgreSQL: run one, and work with one that runs.')
    .version(version)
    .showHelpAfterError('(switchboard --help lists the commands; add --help to one for its usage)')
    .exitOverride()
    .addHelpText(
      'after',
      `${EXIT_HELP}

Commands that talk to a server take its address from --url, SWITCHBOARD_URL, or what
"switchboard dev" left in the data directory; else http://127.0.0.1:4100.`,
    )

/** Parses a whole number within bounds; for commander's option and argument parsers. */
export const wholeNumber =
  (min: number, max: number) =>
  (text: string): number => {
    const number = /^-?\d+$/.test(text) ? Number(text) : Number.NaN
    if (number >= min && number <= max) return number
    throw new InvalidArgumentError(`It must be a whole number from ${min} to ${max}.`)
  }

export interface DrainOption {
  drainSeconds: number
}

/** Adds the option of a command that serves. */
export const drainOption = (command: Command): Command =>
  command.option(
    '--drain-seconds <n>',
    'how long calls under way may keep it from ending after a signal',
    wholeNumber(3, 3600),
    15,
  )

/** Gathers an option that may be given more than once, or with commas. */
export const list = (text: string, before: string[] | undefined): string[] => [
  ...(before ?? []),
  ...text.split(',').filter((word) => word !== ''),
]
