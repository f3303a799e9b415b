/** `show`: everything about one task: state, conversation, artifacts, attempts, deadlines, events. */
import type { Command } from 'commander'
import { localMoment, oneLine, plain, print, printJson, printTable, style } from '../../output.ts'
import { clientCommand, openSession, type SharedOptions } from '../../program.ts'
import {
  type Attempt,
  errorText,
  idleText,
  newestQuestion,
  partsText,
  resolveId,
  type ShownTodo,
  type TodoEvent,
} from '../../todo.ts'
import { eventDetail } from './watch.ts'

export const addShow = (program: Command): void => {
  clientCommand(program, 'show <id>', 'show everything about a task; <id> may be "latest"').action(
    async (given: string, options: SharedOptions) => {
      const { client, json } = openSession(options)
      const id = given === 'latest' ? await newestQuestion(client) : await resolveId(client, given)
      const todo = await client.call<ShownTodo>('todos.show', { id })
      if (json) return printJson(todo)
      printState(todo)
      printConversation(todo)
      printArtifacts(todo)
      printAttempts(todo.attempts)
      printEvents(todo.events)
    },
  )
}

const heading = (text: string): void => print(`\n${style('bold', text)}`)

const printState = (todo: ShownTodo): void => {
  print(`${style('bold', todo.id)}  ${todo.state}`)
  const facts: [string, string][] = [
    ['queue', todo.queue],
    ['context', todo.contextId],
    ['attempt', `${todo.attempt} of ${todo.maxAttempts}`],
    ['held by', todo.claimant ?? '-'],
    ['created', localMoment(todo.createdAt)],
    ['progress', [localMoment(todo.progressAt), idleText(todo)].filter(Boolean).join(', ')],
    ['finished', localMoment(todo.finishedAt)],
    ['error', errorText(todo) || '-'],
    ['retry of', todo.retryOf ?? '-'],
    ['unread', todo.unread === 0 ? '-' : String(todo.unread)],
    ...deadlines(todo),
  ]
  for (const [name, value] of facts) {
    if (value !== '-') print(`  ${name.padEnd(16)}  ${plain(value)}`)
  }
}

/** Whatever ends a wait by itself: the server's list where it gives one, and what the row says. */
const deadlines = (todo: ShownTodo): [string, string][] => [
  ['lease until', localMoment(todo.leaseExpiresAt)],
  ['asked at', localMoment(todo.interruptedAt)],
  ['held until', localMoment(todo.heldUntil)],
  ['due at', localMoment(todo.dueAt)],
  ['retry at', localMoment(todo.nextRetryAt)],
  ...Object.entries(todo.deadlines ?? {}).map(([name, at]): [string, string] => [
    name,
    localMoment(at),
  ]),
]

const printConversation = ({ history }: ShownTodo): void => {
  if (history.length === 0) return
  heading('Conversation')
  for (const message of history) {
    const who = message.role === 'ROLE_AGENT' ? 'agent ' : 'client'
    print(`  ${style('dim', who)}  ${plain(partsText(message)).replaceAll('\n', '\n          ')}`)
  }
}

const printArtifacts = ({ artifacts = [] }: ShownTodo): void => {
  if (artifacts.length === 0) return
  heading('Artifacts')
  for (const artifact of artifacts) {
    print(`  ${oneLine(artifact.name ?? artifact.artifactId)}`)
    print(`    ${plain(partsText(artifact)).replaceAll('\n', '\n    ')}`)
  }
}

const printAttempts = (attempts: Attempt[]): void => {
  if (attempts.length === 0) return
  heading('Attempts')
  printTable(
    ['NO', 'BY', 'CLAIMED', 'ENDED', 'OUTCOME', 'THEN', 'NOTE'],
    attempts.map((attempt) => [
      String(attempt.attempt),
      oneLine(attempt.claimant ?? '-'),
      localMoment(attempt.claimedAt),
      localMoment(attempt.endedAt),
      attempt.outcome ?? 'open',
      attempt.disposition ?? '-',
      oneLine([attempt.died ? 'died' : '', attempt.summary ?? '', attempt.cause ?? ''].join(' ')),
    ]),
  )
}

const printEvents = (events: TodoEvent[]): void => {
  if (events.length === 0) return
  heading('Events')
  printTable(
    ['SEQ', 'AT', 'VERB', 'STATE', 'DETAIL'],
    events.map((event) => [
      String(event.seq),
      localMoment(event.at),
      event.verb,
      event.to,
      eventDetail(event),
    ]),
  )
}
