/**
 * `fork` gives a task a child, `join` parks it until its children have ended, and `children` lists them:
 * what its own agent may do, for whoever helps out.
 */
import type { Command } from 'commander'
import { defined } from '../../../base/defined.ts'
import type { Client } from '../../client.ts'
import { CliError, EXIT } from '../../exit.ts'
import { note, oneLine, print, printTable } from '../../output.ts'
import { clientCommand, list, showing, wholeNumber } from '../../program.ts'
import { resolveId, type ShownTodo, type Todo } from '../../todo.ts'

/** As many as the server takes for any span of time. */
const MAX_SECONDS = 315_360_000
const seconds = wholeNumber(1, MAX_SECONDS)

interface ForkOptions {
  effects?: string[]
  maxAttempts?: number
  startSeconds?: number
  attemptSeconds?: number
  silenceSeconds?: number
  deadlineSeconds?: number
}

const addFork = (program: Command): void => {
  clientCommand(program, 'fork <id> <queue> <text>', 'give a task a child in this queue')
    .option('--effects <names>', 'what the child may do; by default what the task may', list)
    .option('--max-attempts <n>', "by default the queue's", wholeNumber(1, 100))
    .option('--start-seconds <n>', 'claimed within so long, or it fails', seconds)
    .option('--attempt-seconds <n>', 'how long one attempt may take', seconds)
    .option('--silence-seconds <n>', 'how long an attempt may show no progress', seconds)
    .option('--deadline-seconds <n>', 'ended within so long, retries included', seconds)
    .action(
      showing(
        async (client, given: string, queue: string, text: string, options: ForkOptions) => {
          const id = await resolveId(client, given)
          const timeouts = defined({
            scheduleToStart: options.startSeconds,
            startToClose: options.attemptSeconds,
            heartbeat: options.silenceSeconds,
            scheduleToClose: options.deadlineSeconds,
          })
          const child = defined({
            queue,
            message: { parts: [{ text }] },
            effects: options.effects,
            maxAttempts: options.maxAttempts,
            timeouts: Object.keys(timeouts).length > 0 ? timeouts : undefined,
          })
          const made = { id, children: [child] }
          return client.call<{ children: { id: string }[] }>('todos.fork', made)
        },
        ({ children }) => {
          for (const { id } of children) print(id)
        },
      ),
    )
}

interface JoinOptions {
  until: string
  timeoutSeconds?: number
  onTimeout?: string
}

const addJoin = (program: Command): void => {
  clientCommand(
    program,
    'join <id> [children...]',
    'park a task that is held until its children have ended; by default those that live',
  )
    .option('--until <all|any|each>', 'when it goes on: see docs/agents.md', 'all')
    .option('--timeout-seconds <n>', 'then it goes on all the same', seconds)
    .option('--on-timeout <leave|cancel>', 'what becomes then of the children that live')
    .action(
      showing(
        async (client, given: string, named: string[], options: JoinOptions) => {
          const id = await resolveId(client, given)
          const children = named.length > 0 ? named : await liveChildren(client, id)
          const { until, timeoutSeconds, onTimeout } = options
          const terms = defined({ until, timeoutSeconds, onTimeout })
          return client.call<Todo>('todos.join', {
            id,
            children: await Promise.all(children.map((child) => resolveId(client, child))),
            ...terms,
          })
        },
        ({ id, join }) =>
          print(
            join ? `${id} waits for ${join.children.length} of its children` : `${id} may go on`,
          ),
      ),
    )
}

const familyOf = (client: Client, id: string) => client.call<ShownTodo>('todos.show', { id })

const liveChildren = async (client: Client, id: string): Promise<string[]> => {
  const { children } = await familyOf(client, id)
  const live = children.filter(({ state, retrying }) => retrying || !ENDED.has(state))
  if (live.length > 0) return live.map((child) => child.id)
  throw new CliError(EXIT.usage, `${id} has no children that live; name those to wait for`)
}

const ENDED = new Set(['done', 'failed', 'canceled', 'rejected'])

/** As many as `todos.show` tells. */
const MOST_SHOWN = 100

const addChildren = (program: Command): void => {
  clientCommand(program, 'children <id>', 'list the children of a task').action(
    showing(
      async (client, given: string) =>
        (await familyOf(client, await resolveId(client, given))).children,
      (children) => {
        printTable(
          ['ID', 'QUEUE', 'STATE', 'RESULT'],
          children.map(({ id, queue, state, retrying, result }) => [
            id,
            queue,
            retrying ? `${state}, retries` : state,
            result === null ? '' : oneLine(JSON.stringify(result)),
          ]),
        )
        if (children.length === MOST_SHOWN) note('there may be more: these are the oldest')
      },
    ),
  )
}

export const addFamily = (program: Command): void => {
  addFork(program)
  addJoin(program)
  addChildren(program)
}
