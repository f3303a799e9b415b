/** `show`: one task's state, conversation, artifacts, attempts, deadlines and events. */
import type { Command } from 'commander'
import { spendText } from '../../../domain/spend.ts'
import { localMoment, oneLine, plain, print, printTable, style } from '../../output.ts'
import { clientCommand, showing } from '../../program.ts'
import {
  type Attempt,
  errorText,
  idleText,
  partsText,
  resolveIdOrLatest,
  type ShownTodo,
  type TodoEvent,
} from '../../todo.ts'
import { eventDetail } from './watch.ts'

export const addShow = (program: Command): void => {
  clientCommand(program, 'show <id>', 'show everything about a task; <id> may be "latest"').action(
    showing(
      async (client, given: string) =>
        client.call<ShownTodo>('todos.show', { id: await resolveIdOrLatest(client, given) }),
      (todo) => {
        printState(todo)
        printConversation(todo)
        printArtifacts(todo)
        printAttempts(todo.attempts)
        printEvents(todo.events)
      },
    ),
  )
}

const heading = (text: string): void => print(`\n${style('bold', text)}`)

const printState = (todo: ShownTodo): void => {
  print(`${style('bold', todo.id)}  ${todo.state}`)
  const facts: [string, string][] = [
    ['queue', todo.queue],
    ['context', todo.contextId],
    ['author', todo.author ?? '-'],
    ['attempt', `${todo.attempt} of ${todo.maxAttempts}`],
    ['held by', todo.claimant ?? '-'],
    ['created', localMoment(todo.createdAt)],
    ['progress', [localMoment(todo.progressAt), idleText(todo)].filter(Boolean).join(', ')],
    ['finished', localMoment(todo.finishedAt)],
    ['error', errorText(todo) || '-'],
    ['retry of', todo.retryOf ?? '-'],
    ['schedule', todo.schedule ?? '-'],
    ['spent', spendText(todo.budget ?? null, todo.spent ?? null) || '-'],
    ['unread', todo.unread === 0 ? '-' : String(todo.unread)],
    ...deadlines(todo),
  ]
  for (const [name, value] of facts) {
    if (value !== '-') print(`  ${name.padEnd(16)}  ${plain(value)}`)
  }
}

/** Until when its open question may be answered; an older server says nothing of it. */
const answerUntil = ({ question }: ShownTodo): string => {
  if (!question) return '-'
  return question.deadline === null ? 'no deadline' : localMoment(question.deadline)
}

/** Everything that ends a wait by itself, from the row and from the server's list if it has one. */
const deadlines = (todo: ShownTodo): [string, string][] => [
  ['lease until', localMoment(todo.leaseExpiresAt)],
  ['asked at', localMoment(todo.interruptedAt)],
  ['answer until', answerUntil(todo)],
  ['held until', localMoment(todo.heldUntil)],
  ['due at', localMoment(todo.dueAt)],
  ['not before', localMoment(todo.notBefore)],
  ['retry at', localMoment(todo.nextRetryAt)],
  ['waits until', localMoment(todo.join?.timeoutAt)],
  ['join ran out at', localMoment(todo.joinTimedOutAt)],
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
