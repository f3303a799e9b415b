/** The verbs with which a holder gives its todo up: complete, fail, release, reject, cancel. */
import { exactText } from '../../base/exact-json.ts'
import { type Caller, endpointWith } from '../../domain/endpoint.ts'
import { invalid } from '../../domain/errors.ts'
import { retryDelaySeconds } from '../../domain/policy.ts'
import type { ArtifactChunk, Message } from '../../domain/todo.ts'
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

const MAX_CODE = 120
const MAX_SUMMARY = 2000

/** The message of an agent to the client of its todo. */
export const saying = (message: Message, taskId: string) => ({
  message: { ...message, taskId },
  detail: { text: excerpt(message) },
})

export const addArtifact = async (
  { move }: Holder,
  held: Held,
  caller: Caller,
  { artifact, append, lastChunk }: ArtifactChunk,
  /** Without one it can share a statement, which an appended chunk must not. */
  session?: Session,
): Promise<Moved> => {
  const { artifactId: id } = artifact
  const change = { artifact: { id, json: exactText(artifact), append, lastChunk } }
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
}

export const createFinish = ({
  database,
  registry,
  metrics,
  holder,
  inbox,
}: FinishParts): Pick<AgentService, 'complete' | 'fail' | 'release' | 'reject' | 'cancel'> => {
  const { move, end } = holder
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
        return await end(moving, 'completed')
      } catch (error) {
        throw await inbox.withUnread(error, held.id)
      }
    },

    fail: async ({ error, message, retryable, retryInSeconds, summary, ...held }, caller) => {
      // The fence fixes the attempt, so what is read here is what the statement will see.
      const { todo } = await inbox.readOwn(held, endpointWith(caller, 'work'))
      const policy = (await registry.queue(todo.queue))?.policy
      const code = truncate(error.code, MAX_CODE)
      const detail = truncate(error.message, MAX_SUMMARY)
      const delay =
        retryInSeconds ?? (policy && retryDelaySeconds(policy.backoff, todo.attempt, Math.random()))
      const change: Change = {
        ...(message && saying(message, held.id)),
        ...(retryable && delay !== undefined && { retrySeconds: delay }),
        detail: { error: { code, message: truncate(detail) } },
        result: { error: code, detail },
        ...summarized(summary ?? detail),
        cause: code,
      }
      return end(move('fail', held, caller, change), 'failed')
    },

    release: ({ summary, inSeconds, ...held }, caller) => {
      const later = inSeconds === undefined ? {} : { dueSeconds: inSeconds }
      return end(move('release', held, caller, { ...summarized(summary), ...later }), 'released')
    },

    reject: ({ message, ...held }, caller) =>
      end(move('reject', held, caller, message && saying(message, held.id)), 'rejected'),

    cancel: async ({ message, ...held }, caller) => {
      const change = message && saying(message, held.id)
      const todo = await end(move('cancelHeld', held, caller, change), 'canceled')
      await cancelBelow(database, metrics, [held.id])
      return todo
    },
  }
}
