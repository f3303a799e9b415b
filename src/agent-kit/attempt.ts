/**
 * One claimed todo and the handler that works it: what is reported when the handler returns,
 * throws, or has to stop. Exactly one ending is reported for a todo that is still ours, and none
 * for one that is not.
 */
import { randomUUID } from 'node:crypto'
import { defined } from '../base/defined.ts'
import { sleep } from '../base/time.ts'
import type { Connection } from './connection/connection.ts'
import { type Context, contextOf, type Outcome } from './context.ts'
import { describe } from './described.ts'
import { AttemptAborted, DocumentError, isRefusal, meansLost, NonRetryable } from './errors.ts'
import { type Inbox, openInbox } from './inbox.ts'
import { enter } from './lease/blocked.ts'
import { type Hold, holdTodo } from './lease/holding.ts'
import { isPartial, readRest } from './lease/rest.ts'
import type { AgentKeeper } from './lease/threaded.ts'
import type { AgentLog } from './log.ts'
import { type ClaimedTodo, toMessage } from './wire.ts'

/** How often a `complete` that unread messages refuse is tried before the todo is handed back. */
const COMPLETE_ROUNDS = 10
/** A wait for an answer outlives an outage of the server of at most this long. */
const OUTAGE_MS = 3_600_000
/** How long an aborted handler gets to notice before its todo is ended without it. */
export const SETTLE_MS = 2000

/**
 * What to do with a message that came after the claim and that the handler, which listens to none, has
 * not taken by the time it returns: `release` hands the todo back, so that the next run is given the
 * message; `acknowledge` completes all the same (the message stays in the history, unanswered).
 */
export type UnreadPolicy = 'acknowledge' | 'release'

export type Handler = (ctx: Context) => Outcome | Promise<Outcome>

export interface AttemptOptions {
  connection: Connection
  keeper: AgentKeeper
  todo: ClaimedTodo
  handler: Handler
  leaseSeconds: number | undefined
  silenceMs: number | undefined
  unread: UnreadPolicy
  log: AgentLog
}

export interface RunningAttempt {
  readonly id: string
  readonly queue: string
  /** True while the handler waits for an answer. */
  readonly asking: boolean
  /** Resolves, never rejects, once nothing more will be reported for this todo. */
  readonly done: Promise<void>
  /** Takes in a signal of /agent/events about this todo. */
  hear(name: string, because?: string): void
  /** Tells the handler to stop. What it still holds is then handed back, not failed. */
  shutDown(): void
  /** Hands the todo back although its handler does not stop. */
  release(): Promise<void>
}

/** Starts the handler on a claimed todo. */
export const runAttempt = (options: AttemptOptions): RunningAttempt => {
  const { connection, keeper, todo, handler, leaseSeconds, silenceMs, unread, log } = options
  const hold: Hold = holdTodo({
    connection,
    keeper,
    id: todo.id,
    fence: todo.fence,
    leaseSeconds,
    silenceMs,
    onBeat: (beat) => {
      if (beat.unread > 0) inbox.nudge()
    },
  })
  const inbox = openInbox(
    // Of a todo that is yet to be read, the messages come once they are all known.
    todo.omitted ? [] : todo.unread,
    (after, waitMs, signal) =>
      hold.verb(
        'todos.messages',
        { after, waitMs },
        { signal, repeatable: true, retryForMs: OUTAGE_MS, timeoutMs: waitMs + 15_000 },
      ),
    hold.signal,
  )
  const facts = { todo: todo.id, queue: todo.queue, attempt: todo.attempt, fence: todo.fence }
  const ctx = contextOf(todo, hold, inbox)

  const run = async (): Promise<void> => {
    let outcome: Outcome
    try {
      if (isPartial(todo)) {
        await readRest(todo, hold)
        inbox.add(todo.unread)
      }
      inbox.begin()
      enter(todo.id)
      outcome = await handler(ctx)
      await inbox.allHandled()
    } catch (error) {
      return settle(error)
    }
    if (hold.endedBy !== null) return
    try {
      await complete(hold, inbox, outcome, unread)
      log.debug(facts, 'todo completed')
    } catch (error) {
      if (hold.endedBy !== null) throw error
      await settle(isRefusal(error, 'limit') ? beyondLimit(error) : error)
    }
  }

  /** The handler did not get through: by its own error, or because it was told to stop. */
  const settle = async (error: unknown): Promise<void> => {
    if (hold.endedBy !== null) {
      log.debug({ ...facts, error: describe(error) }, 'handler threw after it had ended the todo')
      return
    }
    const aborted: unknown = hold.signal.reason
    if (aborted instanceof AttemptAborted) {
      const level = aborted.reason === 'lease_lost' ? 'warn' : 'info'
      log[level]({ ...facts, reason: aborted.reason }, 'attempt aborted')
      if (aborted.reason === 'shutdown') await handBack()
      if (aborted.reason === 'silent') await failSilent()
      return
    }
    log.warn({ ...facts, error: describe(error) }, 'handler failed')
    try {
      await ctx.fail(error)
    } catch (refusal) {
      if (hold.endedBy !== null || !isRefusal(refusal, 'invalid')) throw refusal
      // Whatever it was that the server would not take of the error: the failure is reported.
      await ctx.fail(new Error('The handler failed, and its error cannot be told'))
    }
  }

  /** Retryable: another attempt, perhaps another agent, may not hang. */
  const failSilent = (): Promise<void> =>
    hold.end('todos.fail', {
      error: { code: 'silence', message: `No progress for ${silenceMs} ms` },
      retryable: true,
    })

  /** A handler that went silent may never notice, so it loses the todo and the slot. */
  const endSilent = async (): Promise<void> => {
    await fired(hold.signal)
    const { reason } = hold.signal.reason as AttemptAborted
    if (reason !== 'silent') return new Promise(() => {})
    await sleep(SETTLE_MS, left.signal).catch(() => {})
    if (!left.signal.aborted && hold.endedBy === null) await failSilent()
  }

  const handBack = (): Promise<void> => hold.end('todos.release', { summary: 'agent stopped' })

  const left = new AbortController()
  const working = silenceMs === undefined ? run() : Promise.race([run(), endSilent()])
  const done = working
    .catch((error: unknown) => logEnding(log, facts, error))
    .finally(() => {
      // With a reason of its own, since the one that is made otherwise has a stack trace.
      left.abort('ended')
      hold.leave()
    })

  return {
    id: todo.id,
    queue: todo.queue,
    get asking() {
      return hold.asking
    },
    done,
    hear(name, because) {
      if (name === 'canceled') hold.hearCanceled(because)
      else inbox.nudge()
    },
    shutDown: () => hold.abort('shutdown'),
    async release() {
      if (hold.endedBy !== null) return
      await handBack().catch((error: unknown) => logEnding(log, facts, error))
      hold.leave()
    },
  }
}

const fired = (signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    if (signal.aborted) resolve()
    else signal.addEventListener('abort', () => resolve(), { once: true })
  })

/** Completes, and where messages came in between, sees to them first and completes again. */
const complete = async (
  hold: Hold,
  inbox: Inbox,
  outcome: Outcome,
  unread: UnreadPolicy,
): Promise<void> => {
  const ending = endingOf(outcome)
  for (let round = 1; round <= COMPLETE_ROUNDS; round++) {
    if (!inbox.hasListener && !inbox.giveUp(unread === 'acknowledge')) break
    const through = inbox.through
    try {
      return await hold.end('todos.complete', defined({ ...ending, acknowledge: through }))
    } catch (error) {
      if (!isRefusal(error, 'unread_messages')) throw error
      if (unread === 'release' && !inbox.hasListener) break
      inbox.add((error.data.unread ?? []) as Parameters<Inbox['add']>[0])
      await inbox.allHandled()
    }
  }
  await hold.end('todos.release', { summary: 'messages came that the handler had not seen' })
}

/** A result that the server has no room for: another attempt would bring the same. */
const beyondLimit = (refusal: unknown): NonRetryable => {
  const { code, message } = describe(refusal)
  return new NonRetryable(message, { code, cause: refusal })
}

const endingOf = (outcome: Outcome): object => {
  // A handler written in JavaScript may well return null.
  if (outcome === undefined || outcome === null) return {}
  if (typeof outcome === 'string') return { message: toMessage(outcome) }
  if (['bigint', 'symbol', 'function'].includes(typeof outcome)) {
    const what = `What the handler returned is a ${typeof outcome}, which JSON has no form for`
    throw new DocumentError('unserializable', what, '')
  }
  const { answer, message = answer, artifacts, ...rest } = outcome
  // Some clients show the final message alone, others the artifacts alone: this is in both.
  const both = answer === undefined ? [] : [{ name: 'answer', parts: toMessage(answer).parts }]
  const all = [...(artifacts ?? []), ...both]
  return defined({
    ...rest,
    message: message === undefined ? undefined : toMessage(message),
    artifacts:
      all.length > 0 ? all.map((given) => ({ artifactId: randomUUID(), ...given })) : undefined,
  })
}

const isCanceled = (error: unknown): boolean =>
  meansLost(error) && (error.reason === 'not_found' || error.data.state === 'canceled')

const logEnding = (log: AgentLog, facts: object, error: unknown): void => {
  if (error instanceof AttemptAborted ? error.reason !== 'lease_lost' : isCanceled(error)) {
    log.info(facts, 'attempt had already ended at the server')
  } else if (error instanceof AttemptAborted || meansLost(error)) {
    log.warn(facts, 'the lease was lost before the end could be reported')
  } else if (isRefusal(error, 'wrong_state')) {
    // A question is open, and nothing but its answer or its deadline can end the wait.
    log.info({ ...facts, state: error.data.state }, 'attempt left with its question open')
  } else {
    log.error({ ...facts, error: describe(error) }, 'could not report the end of an attempt')
  }
}
