/**
 * What the board is told of its todos: cards, lane by lane, and the snapshot that its feed begins
 * with. Boards that connect at the same moment with the same right share one reading of it.
 */
import type { Caller } from '../../domain/endpoint.ts'
import { isDeadLetter, PHASES, type Phase, phaseOf } from '../../domain/lifecycle.ts'
import { spendText } from '../../domain/spend.ts'
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

/** How many cards of a lane come with a snapshot. The page asks for more as one scrolls. */
export const CARDS = 50
const TITLE_LENGTH = 160
const SAID_LENGTH = 600
/** A longer form is left to the drawer. */
const FORM_LENGTH = 4000

/** The text cut to length, but not through a character. */
const cut = (text: string, length: number): string =>
  text.length <= length ? text : `${text.slice(0, length - 1).toWellFormed()}…`

/** A message as text for a person: its text parts, else the names of what it holds. */
const textOf = (message: Message): string => {
  const texts = message.parts.flatMap(({ text }) => (text === undefined ? [] : [text]))
  if (texts.length > 0) return texts.join(' ')
  return message.parts.map(({ filename, mediaType }) => filename ?? mediaType ?? 'data').join(', ')
}

/** The server stores a code and a detail, an agent a failure of its own. */
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
  status?.role === 'ROLE_AGENT' ? cut(textOf(status), SAID_LENGTH) : ''

const progressText = (progress: BoardCard['progress']): string => {
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
    author: todo.author,
    title: first ? cut(textOf(first), TITLE_LENGTH) : '',
    said: progressText(progress) || saidBy(status),
    error: todo.state === 'failed' ? failureOf(result) : null,
    spent: todo.budget ? spendText(todo.budget, todo.spent) : '',
    owed: isDeadLetter(todo) ? todo.unread : 0,
    retryAt: fromTimeOrNull(todo.nextRetryAt),
    dueAt: fromTimeOrNull(todo.dueAt),
    notBefore: fromTimeOrNull(todo.notBefore),
    schedule: todo.schedule,
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
const readSnapshot = async (board: Board, filter: BoardFilter, caller: Caller) => {
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
 * Reads the frame of a snapshot. Its id is a cursor that was read before it, so the snapshot holds
 * everything up to there. A reading under way began too early for whoever comes now, so all who
 * come during it share the next one.
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
