/**
 * Waiting at the terminal until a todo ends or asks. The feed only says when to look, and the todo
 * itself is what counts, so a lost event costs seconds and never the wait.
 */
import { lookUntil, Waiter } from '../base/wait/waiter.ts'
import type { Client } from './client.ts'
import { EXIT } from './exit.ts'
import { note, oneLine, plain, print, printJson, style } from './output.ts'
import {
  asks,
  errorText,
  hasEnded,
  lastWords,
  partsText,
  type ShownTodo,
  type Todo,
} from './todo.ts'

/** How long a lost event can delay the wait. */
const LOOK_AGAIN_MS = 3000

interface WaitOptions {
  /** The question already answered: only another one ends the wait. */
  answered?: string | null
  json: boolean
}

/**
 * Sends or answers. With `wait` it then waits until the todo ends or asks, prints that, and sets the
 * exit code; without, it shows the todo at once.
 */
export const act = async (
  { client, json }: { client: Client; json: boolean },
  send: () => Promise<Todo>,
  options: { wait: boolean; show: (todo: Todo) => void } & Pick<WaitOptions, 'answered'>,
): Promise<void> => {
  if (options.wait) {
    const { answered = null } = options
    process.exitCode = reportEnd(await sendAndWait(client, send, { answered, json }), json)
    return
  }
  const todo = await send()
  if (json) printJson(todo)
  else options.show(todo)
}

/** Starts listening before it sends, so that nothing between the two is missed. */
const sendAndWait = async (
  client: Client,
  send: () => Promise<Todo>,
  { answered, json }: WaitOptions,
): Promise<ShownTodo> => {
  const ended = new AbortController()
  const waiter = new Waiter()
  const listen = async (): Promise<void> => {
    // The feed does not repeat what happened before it was open, so look once when it is.
    for await (const event of client.feed({ signal: ended.signal, onOpen: () => waiter.wake() })) {
      const about = event.data as { id?: string; from?: string; to?: string }
      if (about.id !== id || event.name !== 'transition') continue
      if (!json) note(style('dim', `  ${about.from ?? 'new'} -> ${about.to}`))
      waiter.wake()
    }
  }
  let id: string | undefined
  // A token that may not watch may still wait: it looks at intervals.
  void listen().catch(() => {})
  try {
    const begun = await send()
    id = begun.id
    if (!json) print(`task ${id}`)
    return await lookUntil(waiter, {
      look: () => client.call<ShownTodo>('todos.show', { id }),
      isEnough: (todo) => hasEnded(todo) || (asks(todo) && todo.interruptedAt !== answered),
      pollMs: LOOK_AGAIN_MS,
      signal: ended.signal,
    })
  } finally {
    ended.abort()
  }
}

/** Prints how the wait ended; returns the exit code. */
const reportEnd = (todo: ShownTodo, json: boolean): number => {
  if (json) printJson(todo)
  else if (!hasEnded(todo)) printQuestion(todo)
  else printEnd(todo)
  return hasEnded(todo) && todo.state !== 'done' ? EXIT.failed : EXIT.ok
}

const printQuestion = (todo: Todo): void => {
  print(`${style('yellow', todo.state)}: ${plain(lastWords(todo))}`)
  note(`Answer it: switchboard answer ${todo.id} '...'`)
}

const printEnd = (todo: ShownTodo): void => {
  const words = plain(lastWords(todo)) || errorText(todo)
  const color = todo.state === 'done' ? 'green' : 'red'
  print(`${style(color, todo.state)}${words === '' ? '' : `: ${words}`}`)
  for (const artifact of todo.artifacts ?? []) {
    print(`\n${style('bold', oneLine(artifact.name ?? artifact.artifactId))}`)
    print(plain(partsText(artifact)))
  }
}
