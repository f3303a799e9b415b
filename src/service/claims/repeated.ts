/**
 * A holder's call whose answer was lost is made again, and is then refused: its message is there, or the
 * todo has left its holder by the first. Where what is stored under the same fence says that the same call
 * did it, the repeat is answered as the first was. Nothing is looked up for a call that goes through.
 */
import { canonicalJson } from '../../base/canonical-json.ts'
import { type Caller, endpointWith } from '../../domain/endpoint.ts'
import { isRefusal, orNotFound, Refusal } from '../../domain/errors.ts'
import type { Verb } from '../../domain/lifecycle.ts'
import type { Artifact, JsonObject, Message, Todo } from '../../domain/todo.ts'
import { type Done, readChunk, readDone } from '../../store/todos/repeats.ts'
import { readBrief } from '../../store/todos/view.ts'
import type { Parts } from '../parts.ts'
import { type Held, scopeOf } from './holder.ts'

/** What the call would have stored. */
interface Brought {
  message?: Message | undefined
  artifacts?: readonly Artifact[]
  result?: JsonObject | undefined
  error?: { code: string; message: string }
}

export type Repeats = ReturnType<typeof createRepeats>

const same = (one: unknown, other: unknown): boolean => canonicalJson(one) === canonicalJson(other)

export const createRepeats = ({ database }: Pick<Parts, 'database'>) => {
  const isSame = async (id: string, done: Done, brought: Brought): Promise<boolean> => {
    const { message, artifacts = [], result, error } = brought
    if (!same(done.message ?? null, message ?? null)) return false
    if (result && !same(done.result, result)) return false
    if (error && !same(done.detail?.error, error)) return false
    for (const artifact of artifacts) {
      const stored = await readChunk(database, id, artifact.artifactId)
      if (!stored || !same(stored.artifact, artifact)) return false
    }
    return true
  }

  return {
    /**
     * What the call comes to; where it is refused, and the same has been done under the same fence, the
     * todo as it was then. A question or words are told by their message, an end by its verb.
     */
    orRepeated: async (
      call: Promise<Todo>,
      verb: Verb,
      held: Held,
      caller: Caller,
      brought: Brought = {},
    ): Promise<Todo> => {
      try {
        return await call
      } catch (refusal) {
        if (!isRefusal(refusal, 'stale_fence', 'wrong_state', 'duplicate', 'limit')) throw refusal
        const { id, fence } = held
        const endpoint = endpointWith(caller, 'work')
        const messageId = brought.message?.messageId
        const done = await readDone(database, verb, { id, fence, endpoint: endpoint.id, messageId })
        if (!done || !(await isSame(id, done, brought))) throw refusal
        const { todo } = orNotFound(await readBrief(database, id, scopeOf(endpoint)))
        const { seq, state, at, detail } = done
        const nextRetryAt = detail?.retryAt === undefined ? null : new Date(detail.retryAt)
        // The event's moment is rounded; while the question is open, the row has it as it was told.
        const interruptedAt = todo.statusSeq === seq ? todo.interruptedAt : at
        return { ...todo, fence, seq, state, nextRetryAt, interruptedAt }
      }
    },

    /** The same for a chunk of an artifact, which is told by its key. */
    orSameChunk: async (
      call: Promise<Todo>,
      held: Held,
      caller: Caller,
      { artifact, key }: { artifact: Artifact; key?: string },
    ): Promise<Todo> => {
      try {
        return await call
      } catch (refusal) {
        if (key === undefined || !isRefusal(refusal, 'duplicate', 'limit')) throw refusal
        const stored = await readChunk(database, held.id, artifact.artifactId, key)
        if (!stored && isRefusal(refusal, 'limit')) throw refusal
        if (!stored || !same(stored.artifact, artifact)) throw new Refusal('idempotency_conflict')
        const scope = scopeOf(endpointWith(caller, 'work'))
        const { todo } = orNotFound(await readBrief(database, held.id, scope))
        return { ...todo, seq: stored.seq }
      }
    },
  }
}
