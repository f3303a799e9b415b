/**
 * What an agent may ask: claim or wait, and every verb of a holder. Each names the todo and the
 * fence of its claim; a holder that lost its lease is refused with stale_fence and changes
 * nothing. Refusals: forbidden, not_found, stale_fence, wrong_state, unread_messages, duplicate,
 * limit, unavailable.
 */

import type { Metrics } from '../../base/metrics.ts'
import { type Caller, type Endpoint, EVERYTHING, endpointWith, may } from '../../domain/endpoint.ts'
import { invalid, Refusal } from '../../domain/errors.ts'
import { retryDelaySeconds } from '../../domain/policy.ts'
import type { Artifact, JsonObject, Message, StoredMessage, Todo } from '../../domain/todo.ts'
import type { Change } from '../../store/move/change.ts'
import type { Moved } from '../../store/move/move.ts'
import type { Database, Session } from '../../store/postgres/database.ts'
import { isClosedBefore } from '../../store/todos/artifacts.ts'
import { readAttempts } from '../../store/todos/attempts.ts'
import { listTodos } from '../../store/todos/list.ts'
import { readHeld, readView } from '../../store/todos/view.ts'
import { topics } from '../../store/wake/topics.ts'
import type { Wakes } from '../../store/wake/wake.ts'
import type { AgentService, Held } from '../contract.ts'
import type { Registry } from '../registry.ts'
import { checkSchema } from '../tasks/answer-schema.ts'
import { narrower } from '../tasks/budget.ts'
import type { ChildTasks } from '../tasks/children.ts'
import { deadlineOf, longestWaitSeconds } from '../tasks/question-deadline.ts'
import { excerpt, truncate } from '../tasks/text.ts'
import { createClaim } from './claim.ts'
import type { ClaimCooldown } from './cooldown.ts'
import { createHolder, scopeOf } from './holder.ts'
import type { Waiters } from './waiters.ts'

export interface AgentParts {
  database: Database
  registry: Registry
  waiters: Waiters
  cooldown: ClaimCooldown
  wakes: Wakes
  childTasks: ChildTasks
  metrics: Metrics
  /** How long a lost wake can delay a waiter, in ms. */
  pollMs: number
}

/** Under this key of a question's metadata its sender finds what the answer must look like. */
const ANSWER_SCHEMA = 'urn:switchboard:answer-schema'

const askedFor = (question: Message, schema: JsonObject | undefined): Message =>
  schema ? { ...question, metadata: { ...question.metadata, [ANSWER_SCHEMA]: schema } } : question

const SUMMARY = 2000
const ATTEMPTS_SHOWN = 100
const HEARTBEAT_TRIES = 3

export const createAgentService = (parts: AgentParts): AgentService => {
  const { database, registry, waiters, cooldown, wakes, childTasks, metrics, pollMs } = parts
  const holder = createHolder({ database, metrics })

  const { move, count } = holder
  const claim = createClaim({ database, registry, holder, waiters, cooldown, metrics })

  const agentMessage = (message: Message, id: string): Message => ({ ...message, taskId: id })

  /* ------------------------------------------------------------- artifacts */

  const artifactChange = (artifact: Artifact, append: boolean, lastChunk: boolean): Change => ({
    artifact: { id: artifact.artifactId, json: JSON.stringify(artifact), append, lastChunk },
  })

  const addArtifact = async (
    /** Undefined: it may share a statement, which an appended chunk may not. */
    session: Session | undefined,
    held: Held,
    caller: Caller,
    artifact: Artifact,
    append: boolean,
    lastChunk: boolean,
  ): Promise<Moved> => {
    const moved = await move(
      'artifact',
      held,
      caller,
      artifactChange(artifact, append, lastChunk),
      session,
    )
    // Looked at once the row is locked, or two chunks of one moment could both be the last.
    if (
      session &&
      append &&
      (await isClosedBefore(session, held.id, artifact.artifactId, moved.todo.seq))
    ) {
      throw invalid('append', `artifact ${artifact.artifactId} had its last chunk`)
    }
    return moved
  }

  /* ------------------------------------------------------------- waiting */

  const unreadRefusal = async (refusal: unknown, id: string): Promise<unknown> => {
    if (!(refusal instanceof Refusal) || refusal.kind !== 'unread_messages') return refusal
    const held = await readHeld(database, id, 0, EVERYTHING)
    return new Refusal('unread_messages', { id, unread: held?.owed ?? [] })
  }

  /** The holder's own look at its todo: refused once it holds it no longer. */
  const lookHeld = async ({ id, fence }: Held, endpoint: Endpoint, after = 0) => {
    const held = await readHeld(database, id, after, scopeOf(endpoint))
    if (!held) throw new Refusal('not_found')
    const { owner, fence: current, state } = held.todo
    if (owner !== endpoint.id || current !== fence) throw new Refusal('stale_fence', { id, state })
    return held
  }

  const messages = async (
    held: Held & { after: number; waitMs: number },
    caller: Caller,
    signal: AbortSignal,
  ): Promise<{ state: Todo['state']; messages: StoredMessage[] }> => {
    const endpoint = endpointWith(caller, 'work')
    const deadline = performance.now() + held.waitMs
    for (;;) {
      // The wake is asked for before looking, so that nothing falls between look and wait.
      const woken = new Promise<void>((resolve) => {
        const done = (): void => {
          off()
          clearTimeout(timer)
          signal.removeEventListener('abort', done)
          resolve()
        }
        const off = wakes.on(topics.todo(held.id), done)
        const timer = setTimeout(done, Math.max(0, Math.min(pollMs, deadline - performance.now())))
        signal.addEventListener('abort', done, { once: true })
      })
      const { todo, owed } = await lookHeld(held, endpoint, held.after)
      if (owed.length > 0 || performance.now() >= deadline || signal.aborted) {
        return { state: todo.state, messages: owed }
      }
      await woken
    }
  }

  /* ------------------------------------------------------------- the rest */

  const heartbeat: AgentService['heartbeat'] = async (
    { leaseSeconds, holdSeconds, ...held },
    caller,
  ) => {
    const endpoint = endpointWith(caller, 'work')
    const changeFor = async (verb: 'heartbeat' | 'hold'): Promise<Change> =>
      verb === 'hold'
        ? {
            holdSeconds: holdSeconds ?? endpoint.defaultLeaseSeconds,
            maxWaitSeconds: longestWaitSeconds(await registry.settings()),
          }
        : { ...(leaseSeconds !== undefined && { leaseSeconds }) }
    let verb: 'heartbeat' | 'hold' = 'heartbeat'
    for (let tried = 1; ; tried += 1) {
      try {
        return (await move(verb, held, caller, await changeFor(verb))).todo
      } catch (error) {
        const moved = error instanceof Refusal && error.kind === 'wrong_state'
        if (!moved || tried >= HEARTBEAT_TRIES) throw error
        // It waits; or its answer has come between the two.
        verb = error.detail.state === 'claimed' ? 'heartbeat' : 'hold'
      }
    }
  }

  return {
    claim,
    heartbeat,
    messages,
    progress: async ({ note, percent, ...held }, caller) =>
      (
        await move('progress', held, caller, {
          detail: {
            ...(note !== undefined && { note: truncate(note) }),
            ...(percent !== undefined && { percent }),
          },
        })
      ).todo,
    say: async ({ message, ...held }, caller) =>
      (
        await move('say', held, caller, {
          message: agentMessage(message, held.id),
          detail: { text: excerpt(message) },
        })
      ).todo,
    artifact: async ({ artifact, append, lastChunk, ...held }, caller) =>
      (
        await (append
          ? database.transaction((session) =>
              addArtifact(session, held, caller, artifact, append, lastChunk),
            )
          : addArtifact(undefined, held, caller, artifact, append, lastChunk))
      ).todo,
    interrupt: async ({ state, message, hold, schema, ...held }, caller) => {
      if (schema) checkSchema(schema)
      const { todo } = await move('interrupt', held, caller, {
        asked: state,
        park: !hold,
        ...(schema && { schema }),
        message: askedFor(agentMessage(message, held.id), schema),
        detail: { text: excerpt(message) },
      })
      return { todo, deadline: await deadlineOf(registry, todo, endpointWith(caller, 'work')) }
    },
    acknowledge: async ({ through, ...held }, caller) =>
      (await move('acknowledge', held, caller, { through })).todo,
    complete: async (
      { message, artifacts, result, summary, acknowledge, direct, ...held },
      caller,
    ) => {
      const finish = async (session?: Session): Promise<Moved> => {
        for (const artifact of artifacts ?? []) {
          await addArtifact(session, held, caller, artifact, false, true)
        }
        return move(
          'complete',
          held,
          caller,
          {
            ...(message && {
              message: agentMessage(message, held.id),
              detail: { text: excerpt(message) },
            }),
            ...(result && { result }),
            ...(summary !== undefined && { summary: truncate(summary, SUMMARY) }),
            ...(acknowledge !== undefined && { through: acknowledge }),
            ...(direct && { direct }),
          },
          session,
        )
      }
      try {
        const moved = await (artifacts?.length ? database.transaction(finish) : finish())
        count(moved, 'completed')
        return moved.todo
      } catch (error) {
        throw await unreadRefusal(error, held.id)
      }
    },
    fail: async ({ error, message, retryable, retryInSeconds, summary, ...held }, caller) => {
      // The fence fixes the attempt, so what is read here is what the statement will see.
      const { todo } = await lookHeld(held, endpointWith(caller, 'work'))
      const policy = (await registry.queue(todo.queue))?.policy
      const failure = { code: truncate(error.code, 120), message: truncate(error.message, SUMMARY) }
      const delay =
        retryInSeconds ?? (policy && retryDelaySeconds(policy.backoff, todo.attempt, Math.random()))
      const moved = await move('fail', held, caller, {
        ...(message && { message: agentMessage(message, held.id) }),
        ...(retryable && delay !== undefined && { retrySeconds: delay }),
        detail: { error: { code: failure.code, message: truncate(failure.message) } },
        result: { error: failure.code, detail: failure.message },
        summary: truncate(summary ?? failure.message, SUMMARY),
        cause: failure.code,
      })
      count(moved, 'failed')
      return moved.todo
    },
    release: async ({ summary, inSeconds, ...held }, caller) => {
      const moved = await move('release', held, caller, {
        ...(summary !== undefined && { summary: truncate(summary, SUMMARY) }),
        ...(inSeconds !== undefined && { dueSeconds: inSeconds }),
      })
      count(moved, 'released')
      return moved.todo
    },
    reject: async ({ message, ...held }, caller) => {
      const moved = await move('reject', held, caller, {
        ...(message && {
          message: agentMessage(message, held.id),
          detail: { text: excerpt(message) },
        }),
      })
      count(moved, 'rejected')
      return moved.todo
    },
    fork: async ({ children, ...held }, caller) => {
      const endpoint = endpointWith(caller, 'work')
      for (const { queue } of children) {
        if (!may(caller, 'send', queue)) {
          throw new Refusal('forbidden', { refused: [queue] }, `You may not send to ${queue}`)
        }
      }
      const made = await database.transaction(async (session) => {
        const { todo } = await move('fork', held, caller, {}, session)
        // Nobody gives by a fork what it may not give by a send.
        const parent = { ...todo, effects: narrower(todo.effects, endpoint.effects) }
        return childTasks.add(session, parent, children, endpoint.id)
      })
      for (const { queue } of made) metrics.todosSent.inc({ queue })
      return made
    },
    join: async ({ children, until, ...held }, caller) => {
      await lookHeld(held, endpointWith(caller, 'work'))
      await childTasks.check(held.id, children)
      const moved = await move('join', held, caller, { children, joinUntil: until })
      count(moved, 'released')
      // A child may have ended a moment ago, when nobody waited for it yet.
      await childTasks.look(held.id)
      return moved.todo
    },
    get: async (id, caller) => {
      const view = await readView(database, id, scopeOf(endpointWith(caller, 'work')))
      if (!view) throw new Refusal('not_found')
      return { view, attempts: await readAttempts(database, id, ATTEMPTS_SHOWN) }
    },
    list: (filter, caller) => listTodos(database, filter, scopeOf(endpointWith(caller, 'work'))),
  }
}
