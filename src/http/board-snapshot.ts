/**
 * What the board shows when it opens: for each lane how many todos there are and the newest of
 * them as cards. A lane is a phase of life (domain/lifecycle.ts), so no state is named here but
 * `failed`, which is in two of them. All lanes or none: a list that fails is an error, not a
 * shorter board.
 */
import {
  ENDED_STATES,
  HELD_STATES,
  INTERRUPT_STATES,
  type Phase,
  phaseOf,
  STATE_NAMES,
  STATES,
} from '../domain/lifecycle.ts'
import type { Caller } from '../domain/scope.ts'
import type { Failure, JsonObject, Message, TodoFilter, TodoView } from '../domain/todo.ts'
import { fromTime, fromTimeOrNull } from '../protocol/todo.ts'
import type { OperatorService } from '../service/contract.ts'

/** As many as the page keeps. */
const CARDS = 50
const TITLE_LENGTH = 160
const SAID_LENGTH = 600

const LANES: Record<Phase, Pick<TodoFilter, 'states' | 'retrying'>> = {
  waiting: {
    states: [...STATE_NAMES.filter((state) => STATES[state] === 'waiting'), 'failed'],
    retrying: 'only',
  },
  held: { states: HELD_STATES },
  interrupted: { states: INTERRUPT_STATES },
  ended: { states: ENDED_STATES, retrying: 'never' },
}

/** Cut to length, but not through a character. */
const cut = (text: string, length: number): string =>
  text.length <= length ? text : `${text.slice(0, length).replace(/[\ud800-\udbff]$/, '')}…`

/** A line for a person: its text, or what there is instead. */
const lineOf = (message: Message): string => {
  const texts = message.parts.flatMap(({ text }) => (text === undefined ? [] : [text]))
  if (texts.length > 0) return texts.join(' ')
  return message.parts.map(({ filename, mediaType }) => filename ?? mediaType ?? 'data').join(', ')
}

/** The server leaves a code and a detail, an agent a failure of its own. */
const failureOf = (result: JsonObject | null): Failure | null => {
  const { error, detail } = result ?? {}
  if (typeof error === 'string') {
    return { code: error, message: typeof detail === 'string' ? cut(detail, SAID_LENGTH) : '' }
  }
  if (typeof error !== 'object' || error === null || Array.isArray(error)) return null
  const { code, message } = error
  return { code: String(code ?? ''), message: cut(String(message ?? ''), SAID_LENGTH) }
}

const fromView = ({ todo, messages, result }: TodoView) => {
  const first = messages[0]?.message
  const status = messages.find(({ seq }) => seq === todo.statusSeq)?.message
  return {
    id: todo.id,
    queue: todo.queue,
    contextId: todo.contextId,
    state: todo.state,
    phase: phaseOf(todo),
    seq: todo.seq,
    attempt: todo.attempt,
    maxAttempts: todo.maxAttempts,
    claimant: todo.claimant,
    title: first ? cut(lineOf(first), TITLE_LENGTH) : '',
    said: status?.role === 'ROLE_AGENT' ? cut(lineOf(status), SAID_LENGTH) : '',
    error: todo.state === 'failed' ? failureOf(result) : null,
    retryAt: fromTimeOrNull(todo.nextRetryAt),
    progressAt: fromTimeOrNull(todo.progressAt),
    at: fromTime(todo.statusAt),
  }
}

type Operator = Pick<OperatorService, 'list' | 'listQueues'>

const readLane = async (operator: Operator, phase: Phase, queue: string | null, caller: Caller) => {
  const { todos, totalSize } = await operator.list(
    { ...LANES[phase], ...(queue !== null && { queue }), pageSize: CARDS, includeArtifacts: false },
    caller,
  )
  return { total: totalSize, todos: todos.map(fromView) }
}

const readQueueNames = async (operator: Operator, caller: Caller): Promise<string[]> =>
  caller.kind === 'operator'
    ? (await operator.listQueues()).map(({ name }) => name)
    : caller.endpoint.queues

/** The board of all the caller may watch, or of one queue of it. Refuses: forbidden. */
export const readSnapshot = async (operator: Operator, queue: string | null, caller: Caller) => {
  const lane = (phase: Phase) => readLane(operator, phase, queue, caller)
  const [waiting, held, interrupted, ended, queues] = await Promise.all([
    lane('waiting'),
    lane('held'),
    lane('interrupted'),
    lane('ended'),
    readQueueNames(operator, caller),
  ])
  return { lanes: { waiting, held, interrupted, ended }, queues }
}
