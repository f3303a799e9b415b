/** `why`: one line for any task: what it waits for, until when, and what would move it. */
import type { Command } from 'commander'
import { print, printJson } from '../../output.ts'
import { clientCommand, openSession, type SharedOptions } from '../../program.ts'
import { resolveId } from '../../todo.ts'

interface Why {
  why: string
  since: string
  until: string | null
}

export const addWhy = (program: Command): void => {
  clientCommand(program, 'why <id>', 'say what a task waits for and what would move it').action(
    async (given: string, options: SharedOptions) => {
      const { client, json } = openSession(options)
      const id = await resolveId(client, given)
      const why = await client.call<Why>('todos.why', { id })
      if (json) printJson({ id, ...why })
      else print(`${id} ${why.why}`)
    },
  )
}
