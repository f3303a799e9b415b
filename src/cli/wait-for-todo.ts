/**
 * Waiting at the terminal until a todo ends or asks. The feed only says when to look; what is
 * believed is the todo itself, so a lost event costs seconds and never the wait.
 */
import { sleep } from '../base/time.ts'
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

export interface WaitOptions {
  /** The question already answered: only another one ends the wait. */
  answered?: string | null
  json?: boolean
}

/** Starts listening before `act` is done, so that nothing between the two is missed. */
export const actAndWait = async (
  client: Client,
  act: () => Promise<Todo>,
  { answered = null, json = false }: WaitOptions,
): Promise<ShownTodo> => {
  const bell = new AbortController()
  let ring = () => {}
  const hear = async (): Promise<void> => {
    // What happened before the feed was open is not told again: look once when it is.
    for await (const event of client.feed({ signal: bell.signal, onOpen: () => ring() })) {
      const about = event.data as { id?: string; from?: string; to?: string }
      if (about.id !== id || event.name !== 'transition') continue
      if (!json) note(style('dim', `  ${about.from ?? 'new'} -> ${about.to}`))
      ring()
    }
  }
  let id: string | undefined
  // A token that may not watch still may wait: it looks at intervals.
  void hear().catch(() => {})
  try {
    const begun = await act()
    id = begun.id
    if (!json) print(`task ${id}`)
    for (;;) {
      const rung = new AbortController()
      ring = () => rung.abort()
      const todo = await client.call<ShownTodo>('todos.show', { id })
      if (hasEnded(todo) || (asks(todo) && todo.interruptedAt !== answered)) return todo
      await sleep(LOOK_AGAIN_MS, rung.signal).catch(() => {})
    }
  } finally {
    bell.abort()
  }
}

/** Prints how the wait ended, and says with which exit code. */
export const reportEnd = (todo: ShownTodo, json: boolean): number => {
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
  const colour = todo.state === 'done' ? 'green' : 'red'
  print(`${style(colour, todo.state)}${words === '' ? '' : `: ${words}`}`)
  for (const artifact of todo.artifacts ?? []) {
    print(`\n${style('bold', oneLine(artifact.name ?? artifact.artifactId))}`)
    print(plain(partsText(artifact)))
  }
}
