/** `answer`: answers a task's question, and waits until the next question or the end. */
import type { Command } from 'commander'
import { CliError, EXIT } from '../../exit.ts'
import { printJson } from '../../output.ts'
import { clientCommand, openSession, type SharedOptions } from '../../program.ts'
import { asks, newestQuestion, resolveId, type Todo } from '../../todo.ts'
import { actAndWait, reportEnd } from '../../wait-for-todo.ts'

interface Options extends SharedOptions {
  wait: boolean
}

export const addAnswer = (program: Command): void => {
  clientCommand(program, 'answer <id> <text>', 'answer a question; <id> may be "latest"')
    .option('--no-wait', 'return at once')
    .action(async (given: string, text: string, options: Options) => {
      const { client, json } = openSession(options)
      const id = given === 'latest' ? await newestQuestion(client) : await resolveId(client, given)
      const todo = await client.call<Todo>('todos.show', { id })
      if (!asks(todo)) {
        throw new CliError(
          EXIT.refused,
          `Task ${id} asks nothing at the moment: it is ${todo.state}`,
        )
      }
      const message = { parts: [{ text }] }
      const send = () => client.call<Todo>('todos.answer', { id, message })
      if (options.wait) {
        const answered = todo.interruptedAt
        process.exitCode = reportEnd(await actAndWait(client, send, { answered, json }), json)
        return
      }
      const sent = await send()
      if (json) printJson(sent)
    })
}
