/**
 * What an agent may ask: claim or wait, and every verb of a holder. Each names the todo and the
 * fence of its claim; a holder that lost its lease is refused with stale_fence and changes
 * nothing. Refusals: forbidden, not_found, stale_fence, wrong_state, unread_messages, duplicate,
 * limit, unavailable.
 */

import { defined } from '../../base/defined.ts'
import { type Caller, endpointWith, may } from '../../domain/endpoint.ts'
import { isRefusal, orNotFound, Refusal } from '../../domain/errors.ts'
import type { InterruptState, State } from '../../domain/lifecycle.ts'
import type { Amounts } from '../../domain/spend.ts'
import type {
  Artifact,
  ArtifactChunk,
  Attempt,
  Child,
  Failure,
  JoinTerms,
  JsonObject,
  Message,
  StoredMessage,
  Todo,
  TodoFilter,
  TodoPage,
  TodoView,
} from '../../domain/todo.ts'
import type { Change } from '../../store/move/change.ts'
import { readChild } from '../../store/move/children.ts'
import type { Moved } from '../../store/move/move.ts'
import { readAttempts } from '../../store/todos/attempts.ts'
import { listTodos } from '../../store/todos/list.ts'
import { readView } from '../../store/todos/view.ts'
import { type DocumentPage, documentPage } from '../document-page.ts'
import type { Parts } from '../parts.ts'
import type { AnswerSchemas } from '../schemas/answers.ts'
import { type ChildTasks, joining, type NewChild, narrower } from '../tasks/children.ts'
import type { Conversations } from '../tasks/conversations.ts'
import { deadlineOf, longestWaitSeconds } from '../tasks/questions.ts'
import { truncate } from '../tasks/text.ts'
import { type Claim, type ClaimedTodo, createClaim } from './claim.ts'
import type { ClaimCooldown } from './cooldown.ts'
import { createDiscard } from './discard.ts'
import { addArtifact, createFinish, saying } from './finish.ts'
import { createHolder, type Held, type Holder, scopeOf } from './holder.ts'
import { createInbox } from './inbox.ts'
import { createRepeats } from './repeated.ts'
import { createSpend, type Spent } from './spend.ts'
import type { Waiters } from './waiters.ts'
import { createWithdraw } from './withdraw.ts'

type HolderVerb<Params, Result = Todo> = (params: Held & Params, caller: Caller) => Promise<Result>

interface Completion {
  message?: Message
  artifacts?: Artifact[]
  result?: JsonObject
  summary?: string
  acknowledge?: number
  direct?: boolean
}

interface Failed {
  error: Failure
  message?: Message
  retryable: boolean
  retryInSeconds?: number
  summary?: string
}

export interface AgentService {
  claim(
    claim: Claim,
    caller: Caller,
    signal: AbortSignal,
    /** Asked before todos are handed over. Absent: the claimant is there until the signal fires. */
    isPeerThere?: () => boolean | Promise<boolean>,
  ): Promise<ClaimedTodo[]>
  heartbeat: HolderVerb<{ leaseSeconds?: number; holdSeconds?: number }>
  progress: HolderVerb<{ note?: string; percent?: number; metadata?: JsonObject }>
  say: HolderVerb<{ message: Message; metadata?: JsonObject }>
  artifact: HolderVerb<ArtifactChunk>
  /** Drops what earlier attempts left unfinished, or what is named of it; the ids of what is gone. */
  discardArtifacts: HolderVerb<{ artifactIds?: string[] }, string[]>
  interrupt: HolderVerb<
    { state: InterruptState; message: Message; hold: boolean; schema?: JsonObject },
    { todo: Todo; deadline: Date | null }
  >
  /** Waits up to waitMs, by `rest`, for a message after `after`, or for the todo to leave the holder. */
  messages(
    held: Held & { after: number; waitMs: number },
    caller: Caller,
    signal: AbortSignal,
    rest?: (wait: Promise<void>) => Promise<void>,
  ): Promise<{ state: State; messages: StoredMessage[] }>
  /** Takes the open question back: `claimed`, or still interrupted until the todo's turn in line. */
  withdraw: HolderVerb<{ message?: Message }>
  acknowledge: HolderVerb<{ through: number }>
  complete: HolderVerb<Completion>
  fail: HolderVerb<Failed>
  release: HolderVerb<{ summary?: string; inSeconds?: number }>
  reject: HolderVerb<{ message?: Message }>
  /** Ends the todo as canceled, and all that lives below it. */
  cancel: HolderVerb<{ message?: Message }>
  /**
   * Counts what was spent, for the todo and all above it. Past a budget the todo ends; refuses then:
   * budget_exhausted.
   */
  spend: HolderVerb<Amounts & { key?: string }, Spent>
  /** Adds children within the budget of the held todo. */
  fork: HolderVerb<{ children: NewChild[]; key?: string }, { id: string; queue: string }[]>
  /** Parks the held todo until the condition holds. */
  join: HolderVerb<{ children: string[] } & JoinTerms>
  get(id: string, caller: Caller): Promise<{ view: TodoView; attempts: Attempt[] }>
  /**
   * A page of a todo's documents, for what a claim or `get` has left out; with a fence it is refused to
   * whoever does not hold the todo any more.
   */
  documents(
    page: { id: string; fence?: string; after: number },
    caller: Caller,
  ): Promise<DocumentPage>
  /** A child of the held todo, for a result that its claim had no room for. */
  child: HolderVerb<{ child: string }, Child>
  list(filter: TodoFilter, caller: Caller): Promise<TodoPage>
}

export interface AgentParts extends Parts {
  waiters: Waiters
  cooldown: ClaimCooldown
  childTasks: ChildTasks
  schemas: Pick<AnswerSchemas, 'checkSchema'>
  conversations: Pick<Conversations, 'recheckSoon'>
}

/** Under this key of a question's metadata its sender finds what the answer must look like. */
const ANSWER_SCHEMA = 'urn:switchboard:answer-schema'

const withSchema = (question: Message, schema: JsonObject | undefined): Message =>
  schema ? { ...question, metadata: { ...question.metadata, [ANSWER_SCHEMA]: schema } } : question

const MAX_ATTEMPTS = 100
const HEARTBEAT_TRIES = 3

const todoOf = async (moving: Promise<Moved>): Promise<Todo> => (await moving).todo

/** A heartbeat extends the lease, or the wait of a todo that is interrupted. */
const createHeartbeat =
  ({ registry, move }: Pick<Parts, 'registry'> & Holder): AgentService['heartbeat'] =>
  async ({ leaseSeconds, holdSeconds, ...held }, caller) => {
    const { defaultLeaseSeconds } = endpointWith(caller, 'work')
    const changeFor = async (verb: 'heartbeat' | 'hold'): Promise<Change> =>
      verb === 'hold'
        ? {
            holdSeconds: holdSeconds ?? defaultLeaseSeconds,
            maxWaitSeconds: longestWaitSeconds(await registry.settings()),
            ...defined({ leaseSeconds }),
          }
        : defined({ leaseSeconds })
    let verb: 'heartbeat' | 'hold' = 'heartbeat'
    for (let tries = 1; ; tries += 1) {
      try {
        return await todoOf(move(verb, held, caller, await changeFor(verb)))
      } catch (error) {
        if (!isRefusal(error, 'wrong_state') || tries >= HEARTBEAT_TRIES) throw error
        // The todo waits for an answer; or its answer has come between the two.
        verb = error.detail.state === 'claimed' ? 'heartbeat' : 'hold'
      }
    }
  }

export const createAgentService = (parts: AgentParts): AgentService => {
  const { database, registry, pages, metrics, childTasks, conversations, schemas } = parts
  const holder = createHolder(parts)
  const inbox = createInbox(parts)
  const repeats = createRepeats(parts)
  const { move } = holder

  return {
    claim: createClaim({ ...parts, holder }),
    heartbeat: createHeartbeat({ registry, ...holder }),
    messages: inbox.messages,
    ...createFinish({ database, registry, metrics, holder, inbox, repeats }),
    discardArtifacts: createDiscard({ database, holder, inbox }),
    spend: createSpend({ database, holder }),
    withdraw: createWithdraw({ database, holder, inbox, conversations }),

    progress: ({ note, percent, metadata, ...held }, caller) => {
      const text = note === undefined ? note : truncate(note)
      const detail = defined({ note: text, percent, metadata })
      return todoOf(move('progress', held, caller, { detail }))
    },
    say: ({ message, metadata, ...held }, caller) => {
      const change = saying(message, held.id, metadata)
      const moving = todoOf(move('say', held, caller, change))
      return repeats.orRepeated(moving, 'say', held, caller, { message: change.message })
    },
    artifact: ({ id, fence, ...chunk }, caller) => {
      const held = { id, fence }
      const moving = todoOf(
        chunk.append
          ? database.transaction((session) => addArtifact(holder, held, caller, chunk, session))
          : addArtifact(holder, held, caller, chunk),
      )
      return repeats.orSameChunk(moving, held, caller, chunk)
    },
    interrupt: async ({ state, message, hold, schema, ...held }, caller) => {
      const { id: owner } = endpointWith(caller, 'work')
      if (schema) await schemas.checkSchema({ schema, owner, subject: held.id })
      const question = withSchema({ ...message, taskId: held.id }, schema)
      const moving = todoOf(
        move('interrupt', held, caller, {
          ...saying(message, held.id),
          message: question,
          asked: state,
          park: !hold,
          ...defined({ schema }),
        }),
      )
      const brought = { message: question }
      const todo = await repeats.orRepeated(moving, 'interrupt', held, caller, brought)
      return { todo, deadline: await deadlineOf(registry, todo, endpointWith(caller, 'work')) }
    },
    acknowledge: ({ through, ...held }, caller) =>
      todoOf(move('acknowledge', held, caller, { through })),

    fork: async ({ children, key, ...held }, caller) => {
      const endpoint = endpointWith(caller, 'work')
      for (const { queue } of children) {
        if (!may(caller, 'send', queue)) {
          throw new Refusal('forbidden', { refused: [queue] }, `You may not send to ${queue}`)
        }
      }
      const once =
        key === undefined ? undefined : { parentId: held.id, key: `${held.fence}/${key}` }
      return childTasks.fork(children, once, async (session) => {
        const { todo } = await move('fork', held, caller, {}, session)
        // Nobody can give by a fork what it cannot give by a send.
        const parent = { ...todo, effects: narrower(todo.effects, endpoint.effects) }
        return { parent, clientId: endpoint.id }
      })
    },
    join: async ({ children, until, timeoutSeconds, onTimeout, ...held }, caller) => {
      const parking = async (): Promise<Todo> => {
        await inbox.readOwn(held, endpointWith(caller, 'work'))
        const change = { children, ...joining({ until, timeoutSeconds, onTimeout }) }
        return childTasks.join(held.id, children, () => move('join', held, caller, change))
      }
      return repeats.orRepeated(parking(), 'join', held, caller)
    },

    get: async (id, caller) => {
      const view = orNotFound(await readView(database, id, scopeOf(endpointWith(caller, 'work'))))
      return { view, attempts: await readAttempts(database, id, MAX_ATTEMPTS) }
    },
    documents: async ({ id, fence, after }, caller) => {
      const endpoint = endpointWith(caller, 'work')
      if (fence !== undefined) await inbox.readOwn({ id, fence }, endpoint)
      return documentPage(database, id, after, scopeOf(endpoint))
    },
    child: async ({ child, ...held }, caller) => {
      await inbox.readOwn(held, endpointWith(caller, 'work'))
      return orNotFound(await readChild(database, held.id, child))
    },
    list: async (filter, caller) => {
      const endpoint = endpointWith(caller, 'work')
      return pages.read({ list: 'work', reader: endpoint.id }, filter, (page) =>
        listTodos(database, page, scopeOf(endpoint)),
      )
    },
  }
}
