/** The verbs with which a holder gives its todo up: complete, fail, release, reject, cancel. */
import { defined } from '../../base/defined.ts'
import { exactText } from '../../base/exact-json.ts'
import { type Caller, endpointWith } from '../../domain/endpoint.ts'
import { invalid } from '../../domain/errors.ts'
import { retryDelaySeconds } from '../../domain/policy.ts'
import type { ArtifactChunk, EventDetail, JsonObject, Message, Todo } from '../../domain/todo.ts'
import type { Change } from '../../store/move/change.ts'
import type { Moved } from '../../store/move/move.ts'
import type { Session } from '../../store/postgres/database.ts'
import { isClosedBefore } from '../../store/todos/artifacts.ts'
import type { Parts } from '../parts.ts'
import { cancelBelow } from '../tasks/cancel.ts'
import { excerpt, truncate } from '../tasks/text.ts'
import type { AgentService } from './agent.ts'
import type { Held, Holder } from './holder.ts'
import type { Inbox } from './inbox.ts'
import type { Repeats } from './repeated.ts'

const MAX_CODE = 120
/** The kit's code for a call of a tool that took too long. */
const TOOL_TIMEOUT = 'tool_timeout'
const MAX_SUMMARY = 2000

/** The message of an agent to the client of its todo. */
export const saying = (message: Message, taskId: string, metadata?: JsonObject) => ({
  message: { ...message, taskId },
  detail: defined<EventDetail>({ text: excerpt(message), metadata }),
})

export const addArtifact = async (
  { move }: Holder,
  held: Held,
  caller: Caller,
  { artifact, append, lastChunk, metadata, key }: ArtifactChunk,
  /** Without one it can share a statement, which an appended chunk must not. */
  session?: Session,
): Promise<Moved> => {
  const { artifactId: id } = artifact
  const change: Change = {
    artifact: { id, json: exactText(artifact), append, lastChunk, key },
    ...(metadata && { detail: { metadata } }),
  }
  const moved = await move('artifact', held, caller, change, session)
  // Checked once the row is locked, or two chunks of one moment could both be the last.
  if (session && append && (await isClosedBefore(session, held.id, id, moved.todo.seq))) {
    throw invalid('append', `artifact ${id} had its last chunk`)
  }
  return moved
}

interface FinishParts extends Pick<Parts, 'database' | 'registry' | 'metrics'> {
  holder: Holder
  inbox: Inbox
  repeats: Repeats
}

export const createFinish = ({
  database,
  registry,
  metrics,
  holder,
  inbox,
  repeats,
}: FinishParts): Pick<AgentService, 'complete' | 'fail' | 'release' | 'reject' | 'cancel'> => {
  const { move, end } = holder
  const { orRepeated } = repeats
  const summarized = (summary: string | undefined): Pick<Change, 'summary'> =>
    summary === undefined ? {} : { summary: truncate(summary, MAX_SUMMARY) }

  return {
    complete: async (
      { message, artifacts = [], result, summary, acknowledge, direct, ...held },
      caller,
    ) => {
      const change: Change = {
        ...(message && saying(message, held.id)),
        ...(result && { result }),
        ...summarized(summary),
        ...(acknowledge !== undefined && { through: acknowledge }),
        ...(direct && { direct }),
      }
      const finish = async (session?: Session): Promise<Moved> => {
        for (const artifact of artifacts) {
          const whole = { artifact, append: false, lastChunk: true }
          await addArtifact(holder, held, caller, whole, session)
        }
        return move('complete', held, caller, change, session)
      }
      try {
        const moving = artifacts.length > 0 ? database.transaction(finish) : finish()
        const brought = { message: change.message, artifacts, result }
        return await orRepeated(end(moving, 'completed'), 'complete', held, caller, brought)
      } catch (error) {
        throw await inbox.withUnread(error, held.id)
      }
    },

    fail: ({ error, message, retryable, retryInSeconds, summary, ...held }, caller) => {
      const code = truncate(error.code, MAX_CODE)
      const detail = truncate(error.message, MAX_SUMMARY)
      const said = message && saying(message, held.id)
      const told = { code, message: truncate(detail) }
      const failing = async (): Promise<Todo> => {
        // The fence fixes the attempt, so what is read here is what the statement will see.
        const { todo } = await inbox.readOwn(held, endpointWith(caller, 'work'))
        const policy = (await registry.queue(todo.queue))?.policy
        const delay =
          retryInSeconds ??
          (policy && retryDelaySeconds(policy.backoff, todo.attempt, Math.random()))
        const change: Change = {
          ...said,
          ...(retryable && delay !== undefined && { retrySeconds: delay }),
          detail: { error: told },
          result: { error: code, detail },
          ...summarized(summary ?? detail),
          cause: code,
        }
        const failed = await end(move('fail', held, caller, change), 'failed')
        if (code === TOOL_TIMEOUT) metrics.limitTimeouts.inc({ limit: 'tool' })
        return failed
      }
      const brought = { message: said?.message, error: told }
      return orRepeated(failing(), 'fail', held, caller, brought)
    },

    release: ({ summary, inSeconds, ...held }, caller) => {
      const later = inSeconds === undefined ? {} : { dueSeconds: inSeconds }
      const change = { ...summarized(summary), ...later }
      const moving = end(move('release', held, caller, change), 'released')
      return orRepeated(moving, 'release', held, caller)
    },

    reject: ({ message, ...held }, caller) => {
      const change = message && saying(message, held.id)
      const moving = end(move('reject', held, caller, change), 'rejected')
      return orRepeated(moving, 'reject', held, caller, { message: change?.message })
    },

    cancel: async ({ message, ...held }, caller) => {
      const change = message && saying(message, held.id)
      const moving = end(move('cancelHeld', held, caller, change), 'canceled')
      const brought = { message: change?.message }
      const todo = await orRepeated(moving, 'cancelHeld', held, caller, brought)
      await cancelBelow(database, metrics, [held.id])
      return todo
    },
  }
}
