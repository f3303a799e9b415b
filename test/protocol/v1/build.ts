/** Todos and events as the services hand them over, complete and with nothing in them. */

import type { Queue, QueueCard } from '../../../src/domain/queue.ts'
import type { Event, Message, Todo, TodoView } from '../../../src/domain/todo.ts'

export const AT = new Date('2026-03-01T08:00:00.120Z')

const todo = (members: Partial<Todo> = {}): Todo => ({
  id: 't-7',
  queue: 'demo',
  contextId: 'c-1',
  clientId: 'e-1',
  author: null,
  state: 'pending',
  priority: 1,
  attempt: 0,
  maxAttempts: 5,
  attemptsTotal: 0,
  fence: '0',
  owner: null,
  claimant: null,
  leaseExpiresAt: null,
  interruptedAt: null,
  interruptHeldUntil: null,
  dueAt: null,
  nextRetryAt: null,
  progressAt: null,
  seq: 1,
  unread: 0,
  statusSeq: 1,
  statusAt: AT,
  createdAt: AT,
  updatedAt: AT,
  finishedAt: null,
  scheduleToStartSeconds: null,
  startToCloseSeconds: null,
  heartbeatSeconds: null,
  closeAt: null,
  startedAt: null,
  parentId: null,
  depth: 0,
  effects: null,
  budget: null,
  spent: null,
  join: null,
  line: null,
  front: false,
  answeredAt: null,
  joinTimedOutAt: null,
  unheardSince: null,
  retryOf: null,
  notBefore: null,
  schedule: null,
  idleSeconds: null,
  ...members,
})

export const said = (role: Message['role'], text: string): Message => ({
  messageId: `m-${text}`,
  role,
  parts: [{ text }],
})

/** Messages get the seqs 1, 2, … unless `at` gives others. */
export const view = (
  members: Partial<Todo> = {},
  messages: Message[] = [said('ROLE_USER', 'hello')],
  rest: Partial<TodoView> & { at?: number[] } = {},
): TodoView => {
  const { at, ...documents } = rest
  return {
    todo: todo(members),
    messages: messages.map((message, index) => ({
      seq: at?.[index] ?? index + 1,
      message,
      receivedAt: AT,
      answers: null,
      secret: false,
      sender: null,
      request: null,
    })),
    artifacts: [],
    metadata: null,
    result: null,
    waitsBehind: null,
    behindOther: false,
    retriedAs: null,
    direct: false,
    ...documents,
  }
}

export const event = (members: Partial<Event> = {}): Event => ({
  todoId: 't-7',
  seq: 2,
  queue: 'demo',
  contextId: 'c-1',
  author: null,
  verb: 'claim',
  from: 'pending',
  to: 'claimed',
  retrying: false,
  attempt: 1,
  fence: '1',
  owner: 'e-2',
  claimant: null,
  ready: null,
  detail: null,
  at: AT,
  message: null,
  artifact: null,
  ...members,
})

export const queue = (card: Partial<QueueCard> = {}): Queue => ({
  name: 'demo',
  card: {
    name: 'Demo',
    description: 'Does what it is told.',
    version: '1.2.3',
    skills: [{ id: 'do', name: 'Do', description: 'Does it.', tags: ['work'] }],
    ...card,
  },
  policy: {
    maxAttempts: 5,
    backoff: { initialSeconds: 1, factor: 2, maxSeconds: 300, jitter: 0.2 },
    contexts: 'serial',
    line: 'client',
    reentry: 'explicit',
    dedupe: 'off',
    timeouts: {},
  },
  createdAt: AT,
  updatedAt: AT,
})
