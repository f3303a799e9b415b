/**
 * The agent API (`POST /agent`; docs/agents.md, "Without the kit"): one row for each method. Only
 * an endpoint with the verb `work` may call it; which queues and which todos are its own is for
 * the service to decide.
 */
import type { z } from 'zod'
import { type Caller, endpointWith } from '../../domain/endpoint.ts'
import type { AgentService } from '../../service/claims/agent.ts'
import { todoQuery, toFilter } from '../json/fields.ts'
import { fromChild, fromStored, fromTimeOrNull } from '../json/todo.ts'
import { type Call, type MethodTable, reading, unary } from '../wire/method.ts'
import { ending } from './mend.ts'
import * as schema from './schema.ts'
import {
  fromClaimed,
  fromFailed,
  fromGot,
  fromHeartbeat,
  fromInterrupted,
  fromPage,
  fromPageOfDocuments,
} from './translate.ts'

const work = ({ caller }: Call) => endpointWith(caller, 'work')

/** One verb of the service, and what its result looks like to the reader (an endpoint's id). */
const row = <S extends z.ZodType, R>(
  params: S,
  verbOf: (
    agent: AgentService,
  ) => (
    params: z.output<S>,
    caller: Caller,
    signal: AbortSignal,
    isPeerThere: Call['isPeerThere'],
    rest: Call['rest'],
  ) => Promise<R>,
  answer: (result: R, readerId: string) => unknown,
) =>
  unary(
    params,
    async (ctx, read) => {
      const verb = verbOf(ctx.services.agent)
      const result = await verb(read, ctx.caller, ctx.signal, ctx.isPeerThere, ctx.rest)
      return answer(result, work(ctx).id)
    },
    work,
  )

const seqOf = ({ seq }: { seq: number }) => ({ seq })
const stateOf = ({ state }: { state: string }) => ({ state })

export const AGENT_METHODS: MethodTable = {
  'todos.claim': row(
    schema.claim,
    ({ claim }) => claim,
    (todos) => ({ todos: todos.map(fromClaimed) }),
  ),
  'todos.heartbeat': row(schema.heartbeat, ({ heartbeat }) => heartbeat, fromHeartbeat),
  'todos.progress': row(
    schema.progress,
    ({ progress }) => progress,
    ({ progressAt }) => ({ progressAt: fromTimeOrNull(progressAt) }),
  ),
  'todos.say': row(schema.say, ({ say }) => say, seqOf),
  'todos.artifact': row(schema.addArtifact, ({ artifact }) => artifact, seqOf),
  'todos.discardArtifacts': row(
    schema.discardArtifacts,
    ({ discardArtifacts }) => discardArtifacts,
    (discarded) => ({ discarded }),
  ),
  'todos.interrupt': row(schema.interrupt, ({ interrupt }) => interrupt, fromInterrupted),
  'todos.messages': reading(
    row(
      schema.messages,
      ({ messages }) =>
        (held, caller, signal, _isPeerThere, rest) =>
          messages(held, caller, signal, rest),
      ({ state, messages }) => ({ state, messages: messages.map(fromStored) }),
    ),
  ),
  'todos.acknowledge': row(
    schema.acknowledge,
    ({ acknowledge }) => acknowledge,
    ({ unread }) => ({ unread }),
  ),
  'todos.complete': ending(row(schema.complete, ({ complete }) => complete, stateOf)),
  'todos.fail': ending(row(schema.fail, ({ fail }) => fail, fromFailed)),
  'todos.release': ending(row(schema.release, ({ release }) => release, stateOf)),
  'todos.reject': row(schema.reject, ({ reject }) => reject, stateOf),
  'todos.cancel': row(schema.cancel, ({ cancel }) => cancel, stateOf),
  'todos.withdraw': row(schema.withdraw, ({ withdraw }) => withdraw, fromHeartbeat),
  'todos.spend': row(
    schema.spend,
    ({ spend }) => spend,
    (spent) => spent,
  ),
  'todos.fork': row(
    schema.fork,
    ({ fork }) => fork,
    (children) => ({ children }),
  ),
  'todos.join': row(
    schema.join,
    ({ join }) => join,
    ({ state, fence }) => ({ state, fence }),
  ),
  'todos.get': reading(
    row(
      schema.get,
      (agent) =>
        ({ id }, caller) =>
          agent.get(id, caller),
      fromGot,
    ),
  ),
  'todos.documents': reading(
    row(
      schema.documents,
      (agent) => (page, caller) => agent.documents(page, caller),
      fromPageOfDocuments,
    ),
  ),
  'todos.child': row(schema.child, ({ child }) => child, fromChild),
  'todos.list': reading(
    row(todoQuery, (agent) => (query, caller) => agent.list(toFilter(query), caller), fromPage),
  ),
}

/** Calls of a batch about one todo run in turn; one that names none waits for all, and all for it. */
export const turnOf = ({ params }: { params?: unknown }): string | null => {
  const { id } = (typeof params === 'object' && params !== null ? params : {}) as { id?: unknown }
  return typeof id === 'string' ? id : null
}
