/**
 * What the board shows: lanes of todos, a page at a time, each todo as a card with what it asks and
 * whom. A lane is a phase of life (domain/lifecycle.ts), so no state is named here but `failed`,
 * which is in two lanes and, as dead letters, in one of its own.
 */

import { defined } from '../../base/defined.ts'
import { type Caller, watchScope } from '../../domain/endpoint.ts'
import type { Phase } from '../../domain/lifecycle.ts'
import {
  ENDED_STATES,
  HELD_STATES,
  INTERRUPT_STATES,
  phaseOf,
  STATE_NAMES,
  STATES,
  type State,
} from '../../domain/lifecycle.ts'
import type { EventDetail, TodoFilter, TodoView } from '../../domain/todo.ts'
import { readEndpointsById } from '../../store/admin/endpoints.ts'
import { listTodos } from '../../store/todos/list.ts'
import { readNotes } from '../../store/todos/questions.ts'
import type { Parts } from '../parts.ts'
import type { Registry } from '../registry.ts'
import type { Question } from '../tasks/questions.ts'
import { questionsOf } from '../tasks/questions.ts'

/** A todo with what a card shows. */
export interface BoardCard {
  view: TodoView
  /** What it asks; null if it asks nothing. */
  question: Question | null
  /** The name of the endpoint that sent it; null if an operator did. */
  client: string | null
  /** The last report of its progress, while it is held. */
  progress: Pick<EventDetail, 'note' | 'percent'> | null
}

/** A lane is a phase of life; `dead` holds the dead letters among those that have ended. */
export type BoardLane = Phase | 'dead'

export interface BoardPage {
  cards: BoardCard[]
  /** How many there are, counted only up to {@link BoardService.countedTo}. */
  total: number
  nextPageToken: string
}

/** A member that is null does not narrow. */
export interface BoardFilter {
  queues: readonly string[] | null
  states: readonly State[] | null
  contextId: string | null
}

export interface BoardService {
  countedTo: number
  lane(
    lane: BoardLane,
    filter: BoardFilter,
    page: { size: number; token?: string },
    caller: Caller,
  ): Promise<BoardPage>
  /** Those of these todos that the caller may watch. */
  cards(ids: readonly string[], caller: Caller): Promise<BoardCard[]>
  /** The names of the queues that the caller may watch. */
  queues(caller: Caller): Promise<string[]>
}

const LANES: Record<
  BoardLane,
  { states: readonly State[]; retrying?: TodoFilter['retrying'] & string }
> = {
  waiting: {
    states: [...STATE_NAMES.filter((state) => STATES[state] === 'waiting'), 'failed'],
    retrying: 'only',
  },
  held: { states: HELD_STATES },
  interrupted: { states: INTERRUPT_STATES },
  ended: { states: ENDED_STATES, retrying: 'never' },
  dead: { states: ['failed'], retrying: 'never' },
}

/** A lane of millions is not counted to the end just for the number in its heading. */
const COUNTED_TO = 10_000

interface BoardParts extends Pick<Parts, 'database' | 'pages'> {
  registry: Pick<Registry, 'queue' | 'queues' | 'settings'>
}

export const createBoardService = ({ database, registry, pages }: BoardParts): BoardService => {
  const toCards = async (views: readonly TodoView[]): Promise<BoardCard[]> => {
    if (views.length === 0) return []
    const todos = views.map(({ todo }) => todo)
    const held = todos.filter((todo) => phaseOf(todo) === 'held').map(({ id }) => id)
    const clients = new Set(todos.flatMap(({ clientId }) => clientId ?? []))
    const [questions, notes, senders] = await Promise.all([
      questionsOf(database, registry, todos),
      readNotes(database, held),
      readEndpointsById(database, [...clients]),
    ])
    return views.map((view, i) => ({
      view,
      question: questions[i] ?? null,
      client: senders.get(view.todo.clientId ?? '')?.name ?? null,
      progress: notes.get(view.todo.id) ?? null,
    }))
  }

  return {
    countedTo: COUNTED_TO,

    lane: async (lane, { queues, states: requested, contextId }, { size, token }, caller) => {
      const scope = watchScope(caller)
      const { states, ...rest } = LANES[lane]
      const shown = requested ? states.filter((state) => requested.includes(state)) : states
      if (shown.length === 0) return { cards: [], total: 0, nextPageToken: '' }
      const wanted: TodoFilter = {
        ...rest,
        states: shown,
        ...defined({
          queues: queues ?? undefined,
          contextId: contextId ?? undefined,
          pageToken: token,
        }),
        pageSize: size,
        countTo: COUNTED_TO,
        includeArtifacts: false,
      }
      // Boards with the same right share a snapshot, and so its tokens.
      const { todos, totalSize, nextPageToken } = await pages.read(
        { list: lane, reader: scope },
        wanted,
        (page) => listTodos(database, { ...page, documents: 'ends' }, scope),
      )
      return { cards: await toCards(todos), total: totalSize, nextPageToken }
    },

    cards: async (ids, caller) => {
      const filter = {
        ids,
        pageSize: ids.length,
        includeArtifacts: false,
        documents: 'ends' as const,
      }
      const { todos } = await listTodos(database, filter, watchScope(caller))
      return toCards(todos)
    },

    queues: async (caller) =>
      caller.kind === 'operator'
        ? [...(await registry.queues()).keys()]
        : [...caller.endpoint.queues],
  }
}
