/**
 * What must be true at the end, whatever was killed: the log explains every row, and agrees with
 * what the clients were told and read, and with what the board was shown. What the agents wrote down
 * is judged in verdict-steps.ts, the webhooks in hooks.ts.
 */
import { isTransition } from '../../src/domain/lifecycle.ts'
import { checkLog, checkTold, type Log, shownAfter, type Told } from '../support/checker.ts'
import type { Answer } from '../support/clients/actors.ts'
import type { BoardReader } from './board.ts'
import { ASKS, DIALECTS, ENDED } from './dialect.ts'
import type { Record_ } from './order.ts'
import type { Violations } from './violations.ts'

/** A todo's state as it looks from outside. */
const seenAs = ({ state, next_retry_at, join_until }: Answer): string => {
  if (state === 'pending') return join_until ? 'WORKING' : 'SUBMITTED'
  if (state === 'claimed') return 'WORKING'
  if (state === 'done') return 'COMPLETED'
  if (state === 'failed') return next_retry_at ? 'SUBMITTED' : 'FAILED'
  return state.replaceAll('-', '_').toUpperCase()
}

const byTodo = (rows: readonly Answer[]): Map<string, Answer[]> => {
  const map = new Map<string, Answer[]>()
  for (const row of rows) {
    const own = map.get(row.todo_id) ?? []
    map.set(row.todo_id, own)
    own.push(row)
  }
  return map
}

/** The log by itself. One todo at a time, so that one which is wrong does not hide the others. */
export const judgeLog = (log: Log, violations: Violations): void => {
  const [events, messages, attempts] = [log.events, log.messages, log.attempts].map(byTodo)
  const lines = new Map<string, Answer[]>()
  for (const todo of log.todos) {
    if (todo.line) lines.set(todo.line, [...(lines.get(todo.line) ?? []), todo])
  }
  const lone = log.todos.filter(({ line }) => !line).map((todo) => [todo])
  for (const todos of [...lines.values(), ...lone]) {
    const of = (rows: Map<string, Answer[]> | undefined): Answer[] =>
      todos.flatMap(({ id }) => rows?.get(id) ?? [])
    const part = { todos, events: of(events), messages: of(messages), attempts: of(attempts) }
    violations.check('the log', () => checkLog({ ...part, artifacts: [] }, 'log'))
    violations.check('turns', () => checkTurns(part))
  }
  for (const chunks of byArtifact(log.artifacts).values()) {
    // One that replaces the artifact may be repeated; one that is appended may not.
    const from = chunks.findLastIndex(({ append }) => !append)
    const texts = chunks.slice(from).map(({ artifact }) => artifact.parts[0].text)
    if (from < 0 || texts.some((text, n) => text !== String(n))) {
      violations.add('chunks', `${chunks[0].todo_id} ${chunks[0].artifact_id}: ${texts}`)
    }
  }
}

const byArtifact = (artifacts: readonly Answer[]): Map<string, Answer[]> => {
  const map = new Map<string, Answer[]>()
  for (const chunk of artifacts.toSorted((a, b) => a.seq - b.seq)) {
    const key = `${chunk.todo_id} ${chunk.artifact_id}`
    map.set(key, [...(map.get(key) ?? []), chunk])
  }
  return map
}

/** The tasks of a conversation come to their first claim in the order in which they were taken. */
const checkTurns = ({ todos, events }: Pick<Log, 'todos' | 'events'>): void => {
  const first = new Map<string, number>()
  for (const { id, todo_id, verb } of events) {
    if (verb === 'claim' && !first.has(todo_id)) first.set(todo_id, Number(id))
  }
  const turns = todos
    .toSorted((a, b) => a.lined_at - b.lined_at)
    .flatMap(({ id }) => first.get(id) ?? [])
  if (turns.some((turn, n) => n > 0 && turn < turns[n - 1]!)) {
    throw new Error(`out of turn: ${todos.map(({ id }) => id)}`)
  }
}

/** Every accepted task is there once, and has ended as its client saw, or visibly waits. */
export const judgeTasks = (
  log: Log,
  firsts: readonly Answer[],
  records: readonly Record_[],
  violations: Violations,
): void => {
  const todos = new Map(log.todos.map((todo) => [todo.id, todo]))
  const byMessage = new Map<string, string[]>()
  for (const { message_id, todo_id } of firsts) {
    byMessage.set(message_id, [...(byMessage.get(message_id) ?? []), todo_id])
  }
  const known = new Set<string>()
  for (const { order, id, twinId, final, cancel } of records) {
    const made = byMessage.get(order.messageId) ?? []
    const what = `${order.messageId} (${order.work}, ${order.how}, ${order.key ?? 'no key'})`
    for (const one of made) known.add(one)
    if (made.length > 1) violations.add('one send, several tasks', `${what}: ${made}`)
    if (id === null) {
      if (made.length > 0) violations.add('a task that cannot be found', `${what}: ${made}`)
      continue
    }
    const todo = todos.get(id)
    if (!todo || !made.includes(id)) {
      violations.add('an accepted task is lost', `${what}: ${id}`)
      continue
    }
    if (order.twin && twinId !== id) violations.add('twins', `${what}: ${id} and ${twinId}`)
    const state = seenAs(todo)
    const waits = !order.answers && ASKS.includes(state)
    if (!ENDED.includes(state) && !waits) violations.add('not ended', `${what}: ${id} is ${state}`)
    const saw = final?.status.state.replace('TASK_STATE_', '').replaceAll('-', '_')
    if (saw?.toUpperCase() !== state) violations.add('not as seen', `${what}: ${saw}, ${state}`)
    if (cancel !== null && (cancel === 'canceled') !== (state === 'CANCELED')) {
      violations.add('not as canceled', `${what}: ${cancel}, ${state}`)
    }
  }
  for (const todo of log.todos) {
    if (todo.parent_id === null && !known.has(todo.id)) violations.add('a task of nobody', todo.id)
    if (todo.parent_id !== null && todo.finished_at === null) {
      violations.add('a child has not ended', `${todo.id} is ${seenAs(todo)}`)
    }
  }
}

/** What was read from streams, put together over all their connections, is what the log shows. */
export const judgeStreams = (
  log: Log,
  records: readonly Record_[],
  violations: Violations,
): void => {
  for (const { id, frames, version, order } of records) {
    if (id === null || !frames) continue
    const [first, ...rest] = frames.map(DIALECTS[version].shown)
    const what = `${id} (${version})`
    if (first?.kind !== 'task' || first.id !== id) {
      violations.add('a stream without its task', `${what}: ${JSON.stringify(first)}`)
      continue
    }
    // 0.3 repeats a task that asks already as its last event.
    const read = rest.flatMap((shown) => {
      if (shown.kind === 'task' || shown.seq === first.seq) return []
      const { seq } = shown
      return [shown.kind === 'chunk' ? { seq, chunk: shown.chunk } : pick(shown)]
    })
    const last = rest.at(-1)?.seq ?? first.seq
    const due = shownAfter(log, id, first.seq)
      .filter(({ seq }) => order.answers || seq <= last)
      .map(({ chunk, ...event }) =>
        chunk ? { seq: event.seq, chunk: [chunk[0], chunk[1], chunk[2][0].text] } : event,
      )
    if (JSON.stringify(read) !== JSON.stringify(due)) {
      const [got, logged] = [read, due].map((shown) => JSON.stringify(shown))
      violations.add('a stream', `${what} from ${first.seq}: ${got}; logged ${logged}`)
    }
  }
}

const pick = ({ seq, state, said }: { seq: number; state: string; said: string | null }) => ({
  seq,
  state,
  said,
})

/** Receipts of messages, each against the log. */
export const judgeTold = (log: Log, told: readonly Told[], violations: Violations): void => {
  violations.check('receipts', () => checkTold(log, told, 'told'))
}

/** The board, put together over its connections: each transition and each ready hook, once, in order. */
export const judgeBoard = (log: Log, board: BoardReader, violations: Violations): void => {
  const due = log.events
    .filter(({ position }) => position !== null)
    .toSorted((a, b) => Number(a.position) - Number(b.position))
    .flatMap(({ position, todo_id, verb, ready }) => [
      ...(isTransition(verb) ? [`${position} transition ${todo_id}`] : []),
      ...(ready ? [`${Number(position) + 1} ready ${todo_id}`] : []),
    ])
  const read = board.frames.map(({ id, event, data }) => `${id} ${event} ${data.id}`)
  const at = due.findIndex((line, n) => read[n] !== line)
  if (read.length === due.length && at < 0) return
  const seen = `${read.length} of ${due.length} frames; at ${at}: ${read[at]}, not ${due[at]}`
  violations.add('the board', seen)
}
