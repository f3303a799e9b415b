/** `settings`: what an operator may change while everything runs. */
import type { Command } from 'commander'
import { CliError, EXIT } from '../../exit.ts'
import { print, printTable } from '../../output.ts'
import { clientCommand, showing } from '../../program.ts'

type Settings = Record<string, string | null>

export const addSettings = (program: Command): void => {
  const settings = program.command('settings').description('read and change settings')

  clientCommand(settings, 'get [key]', 'print all settings, or the value of one').action(
    showing(
      async (client, key: string | undefined) => {
        const { settings: all } = await client.call<{ settings: Settings }>('settings.get')
        if (key === undefined) return all
        if (!(key in all)) throw new CliError(EXIT.notFound, `No setting ${key}`)
        return { key, value: all[key] ?? null }
      },
      (found, key) => {
        if (key !== undefined) return print(found.value ?? UNSET)
        printTable(
          ['KEY', 'VALUE'],
          Object.entries(found).map(([name, value]) => [name, value ?? UNSET]),
        )
      },
    ),
  )

  clientCommand(settings, 'set <key> <value>', 'set a setting').action(
    showing(
      (client, key: string, value: string) => client.call('settings.set', { key, value }),
      (_, key, value) => print(`${key} = ${value}`),
    ),
  )

  clientCommand(settings, 'unset <key>', 'go back to the default').action(
    showing(
      (client, key: string) => client.call('settings.unset', { key }),
      (_, key) => print(`${key} is unset`),
    ),
  )
}

const UNSET = '(unset)'
