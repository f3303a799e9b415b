/**
 * How the commands are put together: the program, and what all commands that talk to a running
 * server have in common.
 */
import { Command, InvalidArgumentError } from 'commander'
import { type Client, createClient } from './client.ts'
import { EXIT_HELP } from './exit.ts'
import { note, printJson, printTable } from './output.ts'

interface SharedOptions {
  url?: string
  token?: string
  tokenFile?: string
  json?: boolean
}

/** Adds a command that talks to a server, with the options of every such command. */
export const clientCommand = (parent: Command, usage: string, description: string): Command =>
  parent
    .command(usage)
    .description(description)
    .option('--url <url>', 'address of the server (SWITCHBOARD_URL)')
    .option(
      '--token-file <file>',
      'file with the token (SWITCHBOARD_TOKEN_FILE; or the token itself in SWITCHBOARD_TOKEN, SWITCHBOARD_ADMIN_TOKEN)',
    )
    .option('--token <token>', 'the token, where nobody else can read command lines')
    .option('--json', 'print JSON and nothing else on stdout')

/**
 * The action of a client command. It gets the command's arguments and then its options. Throws
 * CliError where address or token are missing or wrong.
 */
export const withClient =
  <Given extends unknown[]>(
    act: (session: { client: Client; json: boolean }, ...given: Given) => Promise<void>,
  ) =>
  (...given: unknown[]): Promise<void> => {
    // Commander adds the options and the command itself.
    const { json = false, ...options } = given.at(-2) as SharedOptions
    return act({ client: createClient(options, process.env), json }, ...(given as Given))
  }

/** The action of a command whose answer is printed as it came with --json, else by `show`. */
export const showing = <Given extends unknown[], Answer>(
  ask: (client: Client, ...given: Given) => Promise<Answer>,
  show: (answer: Answer, ...given: Given) => void,
) =>
  withClient<Given>(async ({ client, json }, ...given) => {
    const answer = await ask(client, ...given)
    if (json) printJson(answer)
    else show(answer, ...given)
  })

export interface PageOptions {
  limit: number
  page?: string
}

/** Adds the options of a command that prints one page of a long list. */
export const pageOptions = (command: Command): Command =>
  command
    .option('--limit <n>', 'at most so many', wholeNumber(1, 100), 50)
    .option('--page <token>', 'the page after, by the token that the page before gave')

/** A page of a list as a table, and how to get the next one. */
export const printPage = (
  head: readonly string[],
  rows: readonly (readonly string[])[],
  nextPageToken: string,
): void => {
  printTable(head, rows)
  if (nextPageToken !== '') note(`more: --page ${nextPageToken}`)
}

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

export interface LingerOption {
  lingerSeconds: number
}

export const lingerOption = (command: Command): Command =>
  command.option(
    '--linger-seconds <n>',
    'how long idle connections stay open after a signal, so that their clients are told to leave',
    wholeNumber(0, 60),
    2,
  )

/** Collects an option that may be given more than once, or with commas. */
export const list = (text: string, before: string[] | undefined): string[] => [
  ...(before ?? []),
  ...text.split(',').filter((word) => word !== ''),
]
