/** `send`: gives a queue a task, and by default waits until the task ends or asks. */
import type { Command } from 'commander'
import { print, printJson } from '../../output.ts'
import { clientCommand, openSession, type SharedOptions, wholeNumber } from '../../program.ts'
import type { Todo } from '../../todo.ts'
import { actAndWait, reportEnd } from '../../wait-for-todo.ts'

interface Options extends SharedOptions {
  wait: boolean
  priority?: number
  context?: string
}

export const addSend = (program: Command): void => {
  clientCommand(program, 'send <queue> <text>', 'send a task; waits until it ends or asks')
    .option('--no-wait', 'print the task id and return at once')
    .option('--priority <0-2>', '0 is first, 1 the default, 2 last', wholeNumber(0, 2))
    .option('--context <id>', 'go on in this conversation')
    .action(async (queue: string, text: string, options: Options) => {
      const { client, json } = openSession(options)
      const params = {
        queue,
        message: {
          parts: [{ text }],
          ...(options.context === undefined ? {} : { contextId: options.context }),
        },
        ...(options.priority === undefined ? {} : { priority: options.priority }),
      }
      const send = () => client.call<Todo>('todos.send', params)
      if (options.wait) {
        process.exitCode = reportEnd(await actAndWait(client, send, { json }), json)
        return
      }
      const todo = await send()
      if (json) printJson(todo)
      else print(todo.id)
    })
}
