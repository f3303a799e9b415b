/**
 * Nobody keeps count while things go wrong; afterwards the log of events must explain every row,
 * and every row the log. And what somebody was told must stand in it.
 */
import { expect } from 'vitest'
import type { Receipt } from '../../src/domain/todo.ts'
import { type Answer, type Frame, seqOf } from './clients/actors.ts'

/** Rows as the database has them. */
export interface Log {
  todos: Answer[]
  /** Of all todos, each one's by seq. */
  events: Answer[]
  /** Agents' and clients', but for those that made a todo. */
  messages: Answer[]
  artifacts: Answer[]
  attempts: Answer[]
}

export const readLog = async (sql: (text: string) => Promise<unknown[]>): Promise<Log> => ({
  todos: (await sql('select * from todos')) as Answer[],
  events: (await sql('select * from events order by todo_id, seq')) as Answer[],
  messages: (await sql('select * from messages where seq > 1 order by todo_id, seq')) as Answer[],
  artifacts: (await sql('select * from artifacts')) as Answer[],
  attempts: (await sql('select * from attempts')) as Answer[],
})

const ENDS = ['done', 'canceled', 'rejected']
const OPEN = ['claimed', 'input-required', 'auth-required']
const AGENTS_VERBS = ['progress', 'say', 'artifact', 'interrupt', 'complete', 'fail', 'release']
AGENTS_VERBS.push('reject', 'fork', 'join')
const ANSWERING_VERBS = ['resume', 'answer', 'defer']

const eventsById = ({ events }: Log): Map<string, Answer[]> => {
  const byId = new Map<string, Answer[]>()
  for (const event of events) {
    const own = byId.get(event.todo_id) ?? []
    byId.set(event.todo_id, own)
    own.push(event)
  }
  return byId
}

/** What must hold at any quiet moment. */
export const checkLog = (log: Log, hint: string): void => {
  const events = eventsById(log)
  for (const row of log.todos) checkTodo(log, row, events.get(row.id) ?? [], `${hint}, ${row.id}`)
  checkLines(log, hint)
}

const checkTodo = (log: Log, row: Answer, own: Answer[], what: string): void => {
  expect(
    own.map(({ seq }) => seq),
    what,
  ).toEqual(own.map((_, at) => at + 1))
  expect(row.seq, what).toBe(own.length)
  expect(own.at(-1).to_state, what).toBe(row.state)
  for (const [at, event] of own.entries()) {
    expect(event.from_state, `${what} ${event.seq}`).toBe(at === 0 ? null : own[at - 1].to_state)
  }
  checkFences(own, what)

  // Ended once, and for good.
  const endings = own.filter(({ to_state }) => ENDS.includes(to_state))
  expect(endings.length, what).toBe(ENDS.includes(row.state) ? 1 : 0)
  expect(own.filter(({ verb }) => verb === 'complete').length, what).toBeLessThanOrEqual(1)

  // Every todo that goes on has something that will move it, if only who stands before it, or
  // its children.
  const ended = ENDS.includes(row.state) || (row.state === 'failed' && !row.next_retry_at)
  const ahead =
    row.line && !row.front && log.todos.some((other) => other.line === row.line && other.front)
  const alarm =
    {
      pending: row.due_at ?? row.join_until ?? ahead,
      claimed: row.lease_expires_at,
      failed: row.next_retry_at,
    }[row.state as 'pending'] ?? row.interrupted_at
  expect(Boolean(alarm), what).toBe(!ended)
  expect(row.finished_at !== null, what).toBe(ended)

  const open = log.attempts.filter((each) => each.todo_id === row.id && each.ended_at === null)
  expect(open.length, what).toBe(OPEN.includes(row.state) ? 1 : 0)
  if (row.owner) expect(open[0].endpoint_id, what).toBe(row.owner)
  expect(row.attempt, what).toBeLessThanOrEqual(row.max_attempts)
  expect(row.attempts_total, what).toBe(own.filter(({ verb }) => verb === 'claim').length)

  // Each question is answered at most once, by a message of its own; the rest are owed, or read.
  const inbox = log.messages.filter((each) => each.todo_id === row.id && each.role === 'user')
  const owed = inbox.filter((each) => each.owed && each.seq > row.acknowledged_seq)
  expect(row.unread, what).toBe(owed.length)
  if (row.state === 'done') expect(owed, what).toEqual([])
  const answers = inbox.filter((each) => each.answers !== null)
  expect(new Set(answers.map((each) => each.answers)).size, what).toBe(answers.length)
  const takes = own.filter(({ verb }) => ANSWERING_VERBS.includes(verb))
  expect(answers.map(({ seq }) => seq).sort(), what).toEqual(takes.map(({ seq }) => seq).sort())
  for (const { seq, answers: question } of answers) {
    expect(own[question - 1], what).toMatchObject({ verb: 'interrupt' })
    // Meanwhile its holder may be found to be gone, and nothing else happens.
    const between = own.slice(question, seq - 1).filter(({ verb }) => verb !== 'park')
    expect(between, what).toEqual([])
  }
}

/**
 * No write by a stale fence: an agent's word comes only from whoever claimed last, and only while
 * the todo is claimed.
 */
const checkFences = (own: Answer[], what: string): void => {
  let holder: { fence: string; owner: string } | null = null
  let fence = 0
  for (const event of own) {
    if (event.verb === 'claim') {
      expect(Number(event.fence), `${what} ${event.seq}`).toBe(fence + 1)
      fence += 1
      holder = { fence: event.fence, owner: event.owner }
    } else if (AGENTS_VERBS.includes(event.verb)) {
      expect(event.from_state, `${what} ${event.seq}`).toBe('claimed')
      expect({ fence: event.fence, owner: event.owner }, `${what} ${event.seq}`).toEqual(holder)
    }
    if (!OPEN.includes(event.to_state)) holder = null
  }
}

/** Never two claimed todos of one serial conversation, at any moment of the log. */
const checkLines = ({ todos, events }: Log, hint: string): void => {
  const lines = new Map(todos.map(({ id, line }) => [id, line as string | null]))
  const working = new Map<string, string>()
  for (const event of events.toSorted((a, b) => Number(a.id) - Number(b.id))) {
    const line = lines.get(event.todo_id)
    if (!line) continue
    const at = working.get(line)
    if (event.to_state === 'claimed') {
      expect(at ?? event.todo_id, `${hint}, two at once ${event.seq}`).toBe(event.todo_id)
      working.set(line, event.todo_id)
    } else if (at === event.todo_id) working.delete(line)
  }
}

/** What somebody was told of a message to a todo: a receipt, or the kind of the refusal. */
export interface Told {
  id: string
  messageId: string
  told: Receipt | string
}

const OUTCOME_OF = { resume: 'resumed', answer: 'requeued', defer: 'deferred', message: 'inbox' }

/**
 * What a sender was told is what became of its message, and no message is there that nobody was
 * told of. Answers with the messages of which somebody was told how they were taken.
 */
export const checkTold = (log: Log, told: readonly Told[], hint: string): Set<string> => {
  const events = eventsById(log)
  const messages = log.messages.filter(({ role }) => role === 'user')
  const stored = new Map(messages.map((each) => [`${each.todo_id} ${each.message_id}`, each]))
  expect(stored.size, hint).toBe(messages.length)
  const taken = new Set<string>()
  const known = new Set<string>()
  for (const { id, messageId, told: receipt } of told) {
    const key = `${id} ${messageId}`
    if (typeof receipt === 'string') {
      expect(['finished', 'wrong_state'], `${hint}, ${key}`).toContain(receipt)
      continue
    }
    const message = stored.get(key)
    expect(message, `${hint}, lost ${key}`).toBeDefined()
    expect(receipt, hint).toMatchObject({ seq: message.seq, answers: message.answers })
    known.add(key)
    if (receipt.outcome === 'repeated') continue
    const verb = events.get(id)![message.seq - 1].verb as 'resume'
    expect(receipt.outcome, `${hint}, ${key}`).toBe(OUTCOME_OF[verb])
    expect(taken.has(key), `${hint}, applied twice ${key}`).toBe(false)
    taken.add(key)
  }
  expect(
    [...stored.keys()].filter((key) => !known.has(key)),
    hint,
  ).toEqual([])
  return taken
}

/** Verbs of which a stream says nothing. */
const UNSEEN = [
  'progress',
  'message',
  'defer',
  'unblock',
  'fork',
  'adopt',
  'join',
  'joined',
  'comeDue',
  'enterLine',
]

const SEEN_AS: Record<string, string> = {
  pending: 'SUBMITTED',
  claimed: 'WORKING',
  'input-required': 'INPUT_REQUIRED',
  'auth-required': 'AUTH_REQUIRED',
  done: 'COMPLETED',
  failed: 'FAILED',
  canceled: 'CANCELED',
  rejected: 'REJECTED',
}

/** What a stream has to show of a todo after the event `after`. */
export const shownAfter = (log: Log, id: string, after: number): Answer[] => {
  const of = ({ todo_id }: Answer): boolean => todo_id === id
  const wordsAt = new Map(log.messages.filter(of).map((each) => [each.seq, each]))
  const chunksAt = new Map(log.artifacts.filter(of).map((each) => [each.seq, each]))
  return log.events
    .filter((event) => of(event) && event.seq > after && !UNSEEN.includes(event.verb))
    .map(({ seq, to_state, retrying }) => {
      const chunk = chunksAt.get(seq)
      if (chunk) return { seq, chunk: [chunk.artifact_id, chunk.append, chunk.artifact.parts] }
      const words = wordsAt.get(seq)
      const state = retrying ? 'SUBMITTED' : SEEN_AS[to_state]
      // A failure that its agent said nothing of is put into words.
      const unsaid = state === 'FAILED' ? `failure-${seq}` : null
      const said = words?.role === 'agent' ? words.message_id : unsaid
      return { seq, state, said }
    })
}

/**
 * The frames of one task, as a client put them together over however many connections, are what
 * the log has to show from the first of them to its end.
 */
export const checkStream = (log: Log, id: string, frames: readonly Frame[], hint: string): void => {
  const [first, ...rest] = frames
  expect(first!.json.result.task?.id, hint).toBe(id)
  const shown = shownAfter(log, id, seqOf(first!.id))
  const read = rest.map(({ id: eventId, json: { result } }) => {
    const seq = seqOf(eventId)
    const { artifactUpdate: update, statusUpdate } = result
    if (update) {
      const { artifactId, parts } = update.artifact
      return { seq, chunk: [artifactId, update.append ?? false, parts] }
    }
    const { state, message } = statusUpdate.status
    return {
      seq,
      state: state.replace('TASK_STATE_', ''),
      said: message?.messageId ?? null,
    }
  })
  expect(read, `${hint}, the stream of ${id}`).toEqual(shown)
}
