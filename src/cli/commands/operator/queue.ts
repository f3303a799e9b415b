/** `queue`: the queues, each with its card and its policy. */

import { readFileSync } from 'node:fs'
import type { Command } from 'commander'
import { defined } from '../../../base/defined.ts'
import { parseExact } from '../../../base/exact-json.ts'
import { CliError, EXIT } from '../../exit.ts'
import { note, oneLine, plain, print, printTable } from '../../output.ts'
import { clientCommand, showing } from '../../program.ts'

interface Queue {
  name: string
  card: { description: string }
  policy: { maxAttempts: number; contexts: string; retentionDays?: number }
}

/** An older server says nothing of what it does not read. */
interface PutQueue extends Queue {
  warnings?: { field: string; description: string }[]
}

export const addQueue = (program: Command): void => {
  const queue = program.command('queue').description('make, list and remove queues')

  clientCommand(queue, 'put <name>', 'make a queue, or change its card and policy')
    .option('--card <json>', 'its agent card: JSON, or @file', jsonObject)
    .option('--policy <json>', 'its policy: JSON, or @file', jsonObject)
    .action(
      showing(
        (client, name: string, { card, policy }: { card?: object; policy?: object }) =>
          client.call<PutQueue>('queues.put', defined({ name, card, policy })),
        ({ name, warnings = [] }) => {
          for (const { field, description } of warnings) {
            note(plain(`warning: ${field} ${description}`))
          }
          print(`queue ${name} is there`)
        },
      ),
    )

  clientCommand(queue, 'list', 'list the queues').action(
    showing(
      (client) => client.call<{ queues: Queue[] }>('queues.list'),
      ({ queues }) =>
        printTable(['NAME', 'CONTEXTS', 'ATTEMPTS', 'KEPT', 'DESCRIPTION'], queues.map(row)),
    ),
  )

  clientCommand(queue, 'remove <name>', 'remove a queue that has no live tasks').action(
    showing(
      async (client, name: string) => {
        await client.call('queues.remove', { name })
        return { name, removed: true }
      },
      ({ name }) => print(`queue ${name} is removed`),
    ),
  )
}

const row = ({ name, card, policy }: Queue): string[] => [
  name,
  policy.contexts,
  String(policy.maxAttempts),
  policy.retentionDays ? `${policy.retentionDays} d` : 'for ever',
  oneLine(card.description),
]

/** Reads JSON as typed, or from the file named after `@`. Throws CliError. */
const jsonObject = (text: string): object => {
  try {
    const value: unknown = parseExact(
      text.startsWith('@') ? readFileSync(text.slice(1), 'utf8') : text,
    )
    if (typeof value === 'object' && value !== null) return value
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error)
    throw new CliError(EXIT.usage, `Not JSON: ${oneLine(text)} (${why})`)
  }
  throw new CliError(EXIT.usage, `Not a JSON object: ${oneLine(text)}`)
}
