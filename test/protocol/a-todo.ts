/** A todo with every member set, for golden shapes; what matters to a test is given by it. */
import type { Attempt, Message, Todo, TodoView } from '../../src/domain/todo.ts'

export const AT = new Date('2026-01-02T03:04:05.006Z')
export const AT_TEXT = '2026-01-02T03:04:05.006Z'

export const aTodo = (given: Partial<Todo> = {}): Todo => ({
  id: 'todo-1',
  queue: 'legal',
  contextId: 'context-1',
  clientId: 'client-1',
  state: 'pending',
  priority: 1,
  attempt: 1,
  maxAttempts: 5,
  attemptsTotal: 2,
  fence: '9007199254740993',
  owner: 'endpoint-1',
  claimant: 'box-1',
  leaseExpiresAt: AT,
  interruptedAt: null,
  interruptHeldUntil: null,
  dueAt: AT,
  nextRetryAt: null,
  progressAt: null,
  seq: 3,
  unread: 1,
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
  author: null,
  budget: null,
  spent: null,
  join: null,
  line: null,
  front: false,
  answeredAt: null,
  retryOf: null,
  notBefore: null,
  schedule: null,
  idleSeconds: null,
  ...given,
})

const ASKED: Message = { messageId: 'm1', role: 'ROLE_USER', parts: [{ text: 'Draft a letter' }] }

/** Its messages have the seqs 1, 3, 5 and so on. */
export const aView = (given: Partial<Todo> = {}, messages: Message[] = [ASKED]): TodoView => ({
  todo: aTodo(given),
  messages: messages.map((message, i) => ({
    seq: 2 * i + 1,
    message,
    receivedAt: AT,
    answers: null,
    secret: false,
    sender: null,
    request: null,
  })),
  metadata: null,
  result: null,
  direct: false,
  waitsBehind: null,
  behindOther: false,
  retriedAs: null,
})

export const anAttempt = (given: Partial<Attempt> = {}): Attempt => ({
  seq: 1,
  attempt: 1,
  endpointId: 'endpoint-1',
  claimant: 'box-1',
  claimedAt: AT,
  lastHeartbeatAt: AT,
  progressAt: null,
  leaseExpiresAt: AT,
  endedAt: AT,
  outcome: 'reaped',
  disposition: 'requeued',
  died: true,
  summary: 'page 14 of 22',
  cause: 'lease_expired',
  ...given,
})
