/**
 * What a handler is given: the todo, a signal to stop, and its verbs. A question waits here; how
 * a todo that the handler leaves is ended is decided in attempt.ts.
 */
import { randomUUID } from 'node:crypto'
import { defined } from '../base/defined.ts'
import { sleep } from '../base/time.ts'
import { describe } from './described.ts'
import { type AgentApiError, BudgetExhausted, isForGood, isRefusal } from './errors.ts'
import type { Inbox, Listener } from './inbox.ts'
import type { Hold } from './lease/holding.ts'
import { runTool, type ToolOptions } from './timeouts.ts'
import {
  type Amounts,
  type Artifact,
  type ClaimedTodo,
  type JsonObject,
  type Message,
  type Sayable,
  toMessage,
} from './wire.ts'

/** How often it is asked whether the turn of a todo has come that took its question back. */
const TURN_MS = 1000

export interface AskOptions {
  /** JSON Schema of the data part the answer should carry. */
  schema?: JsonObject
  /** When to give up waiting; the question stays open at the server. Default: never. */
  timeoutMs?: number
  /** How far each heartbeat moves the end of the wait while the handler waits, in seconds. */
  holdSeconds?: number
}

/** A child to be made; what it leaves out comes from its queue, or from the todo that forks it. */
export interface NewChild {
  queue: string
  message: Sayable
  /** Among those of the todo that forks it; all of them unless said otherwise. */
  effects?: string[]
  /** Within what that todo has left, which its children share; that, unless said otherwise. */
  budget?: Amounts
  /** The same as `timeouts.scheduleToClose`. */
  deadlineSeconds?: number
  /** In seconds; none is longer than that of the todo that forks it. */
  timeouts?: {
    scheduleToStart?: number
    startToClose?: number
    scheduleToClose?: number
    heartbeat?: number
  }
  maxAttempts?: number
}

export interface JoinOptions {
  /** How long to wait at most. The todo then comes back with `joinTimedOutAt`. */
  timeoutSeconds?: number
  /** What becomes then of the children that live: they go on (the default), or are canceled. */
  onTimeout?: 'leave' | 'cancel'
}

const spoken = (message: Sayable | undefined): Message | undefined =>
  message === undefined ? undefined : toMessage(message)

/** To its child a parent is the client. */
const asClient = (said: Sayable): Message => ({ ...toMessage(said), role: 'ROLE_USER' })

export interface ArtifactChunk extends Omit<Artifact, 'artifactId'> {
  artifactId?: string
  append?: boolean
  lastChunk?: boolean
  /** Of the event that brings the chunk; `metadata` is the artifact's own. */
  eventMetadata?: JsonObject
}

export interface EventOptions {
  /** Of the event, for clients that follow the task; a message's own goes into the message. */
  metadata?: JsonObject
}

/** What a handler may return; the todo is then complete. A string is the final message. */
export type Outcome =
  // biome-ignore lint/suspicious/noConfusingVoidType: a handler without a return statement is fine
  | void
  | string
  | {
      message?: Sayable
      /** The final message, unless there is another one, and an artifact of the same parts. */
      answer?: Sayable
      artifacts?: (Omit<Artifact, 'artifactId'> & { artifactId?: string })[]
      result?: JsonObject
      summary?: string
      /** A blocking send that still waits is answered with the bare message. */
      direct?: boolean
    }

/**
 * What a handler is given. Every call rejects with AttemptAborted once `signal` has fired, and
 * with AttemptEnded after the handler has ended the todo itself.
 */
export interface Context {
  readonly todo: ClaimedTodo
  /** Fires when the handler has to stop; its reason is an AttemptAborted. */
  readonly signal: AbortSignal
  /** A working status update that carries this message. */
  say(what: Sayable, options?: EventOptions): Promise<void>
  /** Sends an artifact or a chunk of one; resolves with its id, for the chunks to follow. */
  artifact(chunk: ArtifactChunk): Promise<string>
  /**
   * Drops the artifacts that earlier attempts left without a last chunk, or those of them that are
   * named; the ids of what is gone. Streams are told that each was replaced by nothing.
   */
  discardArtifacts(artifactIds?: readonly string[]): Promise<string[]>
  /** Shows that the work moves; `percent` is 0..100. */
  progress(note?: string, percent?: number, options?: EventOptions): Promise<void>
  /** Asks the client and waits for the answer. Rejects with AnswerTimeout. */
  requireInput(prompt: Sayable, options?: AskOptions): Promise<Message>
  /** The same, for a credential that has to be arranged out of band. */
  requireAuth(prompt: Sayable, options?: AskOptions): Promise<Message>
  /**
   * Asks without waiting: the todo is given up and comes back as a new claim once answered, its
   * answer in `unread`. The handler should return at once.
   */
  park(
    prompt: Sayable,
    options?: { state?: 'input-required' | 'auth-required'; schema?: JsonObject },
  ): Promise<void>
  /**
   * Takes the open question back and goes on working, as where the credential came by another way. A
   * `requireInput` or `requireAuth` that still waits rejects with QuestionWithdrawn; an answer that
   * comes later is a message. In a conversation where another todo is at work it waits for its turn.
   */
  resume(message?: Sayable): Promise<void>
  /** Makes children within this todo's budget; their ids, in order. */
  fork(children: readonly NewChild[]): Promise<string[]>
  /**
   * Waits for children without holding the todo: it comes back as a new claim once all or any have
   * ended (`each`: whenever one more has), or its time is up, with all of them in `children`. The
   * handler should return at once.
   */
  join(
    children: readonly string[],
    until?: 'all' | 'any' | 'each',
    options?: JoinOptions,
  ): Promise<void>
  /** Messages of the client that the handler was not given yet. */
  messages(): Promise<Message[]>
  /** From now on messages go to this listener, one at a time; what it throws fails the todo. */
  onMessage(listener: Listener): void
  /**
   * Runs a tool under a time limit of its own, whatever the tool does; progress is stamped at both
   * ends, and with `heartbeatMs` in between. Rejects with TimedOut, and with EffectDenied where the
   * todo's effects lack the tool's name, or the `effect` that it names. A number stands for
   * `timeoutMs`.
   */
  tool<Result>(
    name: string,
    limits: number | ToolOptions,
    run: (signal: AbortSignal) => Promise<Result>,
  ): Promise<Result>
  /**
   * Counts what was spent, once, however often its call is made; what is left of each kind that has a
   * limit. Past the budget the todo ends, and it rejects with BudgetExhausted.
   */
  spend(amounts: Amounts): Promise<{ spent: Amounts; left: Amounts }>
  /** Ends the todo as failed. The handler should return at once, as after the two below. */
  fail(
    error: unknown,
    options?: { retryable?: boolean; retryInSeconds?: number; message?: Sayable },
  ): Promise<void>
  /** Declines the task for good. */
  reject(message?: Sayable): Promise<void>
  /** Ends the todo, and its children, as canceled: those it was done for have canceled it elsewhere. */
  cancel(message?: Sayable): Promise<void>
  /** Hands the todo back unharmed; no attempt is used up. */
  release(options?: { summary?: string; inSeconds?: number }): Promise<void>
}

/** Whether it is this member that the server does not take. */
const blames = ({ data }: AgentApiError, member: string): boolean =>
  ((data.violations ?? []) as { field: string }[]).some(({ field }) => field === member)

export const contextOf = (todo: ClaimedTodo, hold: Hold, inbox: Inbox): Context => {
  /** The question that is on its way to the server. Its client may know of it before this handler does. */
  let asking: Promise<unknown> | null = null

  const ask = async (state: string, prompt: Sayable, options: AskOptions = {}) => {
    const { schema, timeoutMs, holdSeconds } = options
    const params = defined({ state, message: toMessage(prompt), schema })
    const asked = hold.verb<{ fence: string; interruptedAt: string }>('todos.interrupt', params, {
      repeatable: true,
    })
    asking = asked
    const question = await asked
    hold.waiting(question.fence, holdSeconds)
    const answer = await inbox.answer(question.interruptedAt, timeoutMs)
    hold.working()
    return answer
  }

  /**
   * A call that the server does once, however often it is made: it carries a key. A server of before
   * knows no keys, and there it is repeated only where that does no harm.
   */
  const once = async <Result>(method: string, params: object, harmless: boolean) => {
    const keyed = { ...params, key: randomUUID() }
    try {
      return await hold.verb<Result>(method, keyed, { repeatable: true })
    } catch (error) {
      if (!isRefusal(error, 'invalid') || !blames(error, 'key')) throw error
      return hold.verb<Result>(method, params, { repeatable: harmless })
    }
  }

  const progress = async (
    note?: string,
    percent?: number,
    { metadata }: EventOptions = {},
  ): Promise<void> => {
    await hold.verb('todos.progress', defined({ note, percent, metadata }), { repeatable: true })
  }

  return {
    todo,
    signal: hold.signal,
    async say(what, { metadata } = {}) {
      // Said twice it is the same message. A server of before refuses what is there already.
      await hold
        .verb('todos.say', defined({ message: toMessage(what), metadata }), { repeatable: true })
        .catch((error: unknown) => {
          if (!isRefusal(error, 'duplicate')) throw error
        })
    },
    async artifact({ append = false, lastChunk = false, eventMetadata: metadata, ...rest }) {
      const artifact = { artifactId: randomUUID(), ...rest }
      // A chunk appended twice would spoil the artifact; one that replaces it may be repeated.
      const chunk = defined({ artifact, append, lastChunk, metadata })
      await once('todos.artifact', chunk, !append)
      return artifact.artifactId
    },
    async discardArtifacts(artifactIds) {
      const params = defined({ artifactIds })
      const { discarded } = await hold.verb<{ discarded: string[] }>(
        'todos.discardArtifacts',
        params,
        { repeatable: true },
      )
      return discarded
    },
    progress,
    requireInput: (prompt, options) => ask('input-required', prompt, options),
    requireAuth: (prompt, options) => ask('auth-required', prompt, options),
    async park(prompt, { state = 'input-required', schema } = {}) {
      const message = toMessage(prompt)
      await hold.end('todos.interrupt', defined({ state, message, hold: false, schema }))
    },
    async resume(message) {
      await asking?.catch(() => {})
      if (!hold.asking) return
      inbox.withdraw()
      const params = defined({ message: spoken(message) })
      for (;;) {
        const { state } = await hold.verb<{ state: string }>('todos.withdraw', params, {
          repeatable: true,
        })
        if (state === 'claimed') return hold.working()
        await sleep(TURN_MS, hold.signal)
      }
    },
    async fork(children) {
      const params = {
        children: children.map((child) => ({ ...child, message: asClient(child.message) })),
      }
      const forked = await once<{ children: { id: string }[] }>('todos.fork', params, false)
      return forked.children.map(({ id }) => id)
    },
    async join(children, until = 'all', { timeoutSeconds, onTimeout } = {}) {
      await hold.end('todos.join', defined({ children, until, timeoutSeconds, onTimeout }))
    },
    messages: () => inbox.take(),
    onMessage: (listener) => inbox.listen(listener),
    tool: (name, limits, run) =>
      runTool(
        { progress, signal: hold.signal, effects: todo.effects },
        name,
        typeof limits === 'number' ? { timeoutMs: limits } : limits,
        run,
      ),
    async spend({ tokens, cents, calls }) {
      const params = { ...defined({ tokens, cents, calls }), key: randomUUID() }
      try {
        return await hold.verb('todos.spend', params, { repeatable: true })
      } catch (error) {
        if (!isRefusal(error, 'budget_exhausted')) throw error
        hold.abort('budget_exhausted')
        throw new BudgetExhausted(error.message, (error.data.refused ?? []) as string[])
      }
    },
    async fail(error, { retryable = !isForGood(error), retryInSeconds, message } = {}) {
      const end = { error: describe(error), retryable, retryInSeconds }
      await endSaying(hold, 'todos.fail', message, end)
    },
    cancel: (message) => endSaying(hold, 'todos.cancel', message),
    reject: (message) => endSaying(hold, 'todos.reject', message),
    async release(options = {}) {
      await hold.end('todos.release', options)
    },
  }
}

/** The end counts for more than its message, for which a full todo may have no room. */
const endSaying = async (
  hold: Hold,
  method: string,
  said: Sayable | undefined,
  end: object = {},
): Promise<void> => {
  const message = spoken(said)
  try {
    await hold.end(method, defined({ ...end, message }))
  } catch (error) {
    if (message === undefined || !isRefusal(error, 'limit')) throw error
    await hold.end(method, defined({ ...end }))
  }
}
