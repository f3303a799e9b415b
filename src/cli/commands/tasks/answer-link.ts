/** `answer-link`: an address at which somebody without an account answers one question, once. */
import type { Command } from 'commander'
import { defined } from '../../../base/defined.ts'
import { localMoment, note, print } from '../../output.ts'
import { clientCommand, showing, wholeNumber } from '../../program.ts'
import { resolveIdOrLatest } from '../../todo.ts'

const MAX_HOURS = 7 * 24

export const addAnswerLink = (program: Command): void => {
  clientCommand(
    program,
    'answer-link <id>',
    'print an address where anyone answers its question once; <id> may be "latest"',
  )
    .option('--hours <n>', 'how long it is good for (24)', wholeNumber(1, MAX_HOURS))
    .action(
      showing(
        async (client, given: string, { hours }: { hours?: number }) => {
          const id = await resolveIdOrLatest(client, given)
          const params = defined({ id, expiresInSeconds: hours && hours * 3600 })
          const link = await client.call<{ url: string; expiresAt: string }>(
            'todos.answerLink',
            params,
          )
          return { id, ...link }
        },
        (link) => {
          print(link.url)
          note(`Good for one answer, until ${localMoment(link.expiresAt)}.`)
        },
      ),
    )
}
