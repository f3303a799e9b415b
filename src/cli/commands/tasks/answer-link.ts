/** `answer-link`: an address at which somebody without an account answers one question, once. */
import type { Command } from 'commander'
import { localMoment, note, print, printJson } from '../../output.ts'
import { clientCommand, openSession, type SharedOptions, wholeNumber } from '../../program.ts'
import { newestQuestion, resolveId } from '../../todo.ts'

const MAX_HOURS = 7 * 24

interface Options extends SharedOptions {
  hours?: number
}

export const addAnswerLink = (program: Command): void => {
  clientCommand(
    program,
    'answer-link <id>',
    'print an address where anyone answers its question once; <id> may be "latest"',
  )
    .option('--hours <n>', 'how long it is good for (24)', wholeNumber(1, MAX_HOURS))
    .action(async (given: string, { hours, ...options }: Options) => {
      const { client, json } = openSession(options)
      const id = given === 'latest' ? await newestQuestion(client) : await resolveId(client, given)
      const link = await client.call<{ url: string; expiresAt: string }>('todos.answerLink', {
        id,
        ...(hours !== undefined && { expiresInSeconds: hours * 3600 }),
      })
      if (json) return printJson({ id, ...link })
      print(link.url)
      note(`Good for one answer, until ${localMoment(link.expiresAt)}.`)
    })
}
