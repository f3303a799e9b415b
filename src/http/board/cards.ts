/**
 * What the board is told of its todos: cards with what a line needs, lane by lane, and the
 * snapshot that its feed begins with. Who connects in the same moment with the same right shares
 * one reading of it.
 */

import type { Caller } from '../../domain/endpoint.ts'
import { PHASES, type Phase, phaseOf } from '../../domain/lifecycle.ts'
import type { Failure, JsonObject, Message } from '../../domain/todo.ts'
import { withoutSecrets } from '../../protocol/json/secrets.ts'
import { fromTime, fromTimeOrNull } from '../../protocol/json/todo.ts'
import { fromQuestion } from '../../protocol/operator/translate.ts'
import type {
  BoardCard,
  BoardFilter,
  BoardLane,
  BoardPage,
  BoardService,
} from '../../service/board/lanes.ts'
import type { ReadSnapshot } from '../stream/feeds.ts'
import type { Frame } from '../stream/sse.ts'

/** How many cards of a lane come with a snapshot; more are asked for as one scrolls. */
export const CARDS = 50
const TITLE_LENGTH = 160
const SAID_LENGTH = 600
/** A form that is longer is left to the drawer. */
const FORM_LENGTH = 4000

/** Cut to length, but not through a character. */
const cut = (text: string, length: number): string =>
  text.length <= length ? text : `${text.slice(0, length - 1).toWellFormed()}…`

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

const questionOf = (question: NonNullable<BoardCard['question']>) => {
  const { seq, deadline, form } = fromQuestion(question)
  const short = JSON.stringify(form).length <= FORM_LENGTH
  return { seq, deadline, form: short ? form : null, plain: form === null }
}

const saidBy = (status: Message | undefined): string =>
  status?.role === 'ROLE_AGENT' ? cut(lineOf(status), SAID_LENGTH) : ''

const progressLine = (progress: BoardCard['progress']): string => {
  const { note, percent } = progress ?? {}
  return [note, percent === undefined ? undefined : `${percent} %`].filter(Boolean).join(', ')
}

export const fromCard = ({ view, question, client, progress }: BoardCard) => {
  const { todo, messages, result, waitsBehind } = withoutSecrets(view)
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
    client,
    title: first ? cut(lineOf(first), TITLE_LENGTH) : '',
    said: progressLine(progress) || saidBy(status),
    error: todo.state === 'failed' ? failureOf(result) : null,
    retryAt: fromTimeOrNull(todo.nextRetryAt),
    dueAt: fromTimeOrNull(todo.dueAt),
    waitsBehind,
    joining: todo.join !== null,
    parentId: todo.parentId,
    parked: phaseOf(todo) === 'interrupted' && todo.owner === null,
    since: fromTimeOrNull(todo.interruptedAt),
    answeredAt: fromTimeOrNull(todo.answeredAt),
    question: question && questionOf(question),
    progressAt: fromTimeOrNull(todo.progressAt),
    idleSeconds: todo.idleSeconds === null ? null : Math.floor(todo.idleSeconds),
    at: fromTime(todo.statusAt),
    createdAt: fromTime(todo.createdAt),
  }
}

const fromPage = ({ cards, total, nextPageToken }: BoardPage) => ({
  total,
  todos: cards.map(fromCard),
  nextPageToken,
})

type Board = Pick<BoardService, 'lane' | 'countedTo'>

export const readLane = async (
  board: Board,
  lane: BoardLane,
  filter: BoardFilter,
  page: { size: number; token?: string },
  caller: Caller,
) => fromPage(await board.lane(lane, filter, page, caller))

/** All lanes or none: a list that fails is an error, not a shorter board. Refuses: forbidden. */
export const readSnapshot = async (board: Board, filter: BoardFilter, caller: Caller) => {
  const read = async <Lane extends BoardLane>(lane: Lane, size: number) =>
    [lane, await readLane(board, lane, filter, { size }, caller)] as const
  const [dead, ...lanes] = await Promise.all([
    read('dead', 1),
    ...PHASES.map((phase) => read(phase, CARDS)),
  ])
  return {
    lanes: Object.fromEntries(lanes) as Record<Phase, (typeof dead)[1]>,
    dead: dead[1].total,
    countedTo: board.countedTo,
  }
}

/**
 * Reads the frame of a snapshot; its id is a cursor that was read before it, so that it holds
 * everything up to there. One that was begun before is too old for who comes now; who comes while
 * one is being read shares the next one.
 */
export const createSnapshots = (board: Board, position: () => Promise<number>): ReadSnapshot => {
  const reading = new Map<
    string,
    { now: Promise<unknown>; next: Promise<readonly Frame[]> | null }
  >()

  const begin = (key: string, of: BoardFilter, caller: Caller): Promise<readonly Frame[]> => {
    const read = async (): Promise<readonly Frame[]> => {
      const at = await position()
      const snapshot = await readSnapshot(board, of, caller)
      return [{ id: String(at), event: 'snapshot', data: { position: at, ...snapshot } }]
    }
    const now = read()
    const entry = { now: now as Promise<unknown>, next: null }
    reading.set(key, entry)
    const done = (): void => {
      if (reading.get(key) === entry && entry.next === null) reading.delete(key)
    }
    now.then(done, done)
    return now
  }

  return (of, caller) => {
    const rights = caller.kind === 'operator' ? null : caller.endpoint.queues
    const key = JSON.stringify([of.queues, of.states, of.contextId, rights])
    const entry = reading.get(key)
    if (!entry) return begin(key, of, caller)
    entry.next ??= entry.now.catch(() => undefined).then(() => begin(key, of, caller))
    return entry.next
  }
}
