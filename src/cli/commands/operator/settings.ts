/** `settings`: what an operator may change while everything runs. */
import type { Command } from 'commander'
import { CliError, EXIT } from '../../exit.ts'
import { print, printJson, printTable } from '../../output.ts'
import { clientCommand, openSession, type SharedOptions } from '../../program.ts'

type Settings = Record<string, string | null>

export const addSettings = (program: Command): void => {
  const settings = program.command('settings').description('read and change settings')

  clientCommand(settings, 'get [key]', 'print all settings, or the value of one').action(
    async (key: string | undefined, options: SharedOptions) => {
      const { client, json } = openSession(options)
      const { settings: all } = await client.call<{ settings: Settings }>('settings.get')
      if (key === undefined) {
        if (json) return printJson(all)
        return printTable(['KEY', 'VALUE'], Object.entries(all).map(row))
      }
      if (!(key in all)) throw new CliError(EXIT.notFound, `No setting ${key}`)
      if (json) printJson({ key, value: all[key] })
      else print(all[key] ?? '(unset)')
    },
  )

  clientCommand(settings, 'set <key> <value>', 'set a setting').action(
    async (key: string, value: string, options: SharedOptions) => {
      const { client, json } = openSession(options)
      const set = await client.call('settings.set', { key, value })
      if (json) printJson(set)
      else print(`${key} = ${value}`)
    },
  )

  clientCommand(settings, 'unset <key>', 'go back to the default').action(
    async (key: string, options: SharedOptions) => {
      const { client, json } = openSession(options)
      const unset = await client.call('settings.unset', { key })
      if (json) printJson(unset)
      else print(`${key} is unset`)
    },
  )
}

const row = ([key, value]: [string, string | null]): string[] => [key, value ?? '(unset)']
