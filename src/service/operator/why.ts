/** Reads the facts of which domain/why.ts makes one line: what a todo waits for. */
import { type Caller, watchScope } from '../../domain/endpoint.ts'
import { orNotFound } from '../../domain/errors.ts'
import { phaseOf } from '../../domain/lifecycle.ts'
import type { Todo } from '../../domain/todo.ts'
import { type Slots, type Why, type WhyFacts, whyOf } from '../../domain/why.ts'
import { readEndpoints, readQueuesServed } from '../../store/admin/endpoints.ts'
import { readJoined } from '../../store/move/children.ts'
import { readClaimers, readQueueSlots } from '../../store/move/concurrency.ts'
import { readClock } from '../../store/postgres/clock.ts'
import { readAttempts } from '../../store/todos/attempts.ts'
import { readEnds } from '../../store/todos/view.ts'
import type { Parts } from '../parts.ts'
import { deadlineOf } from '../tasks/questions.ts'
import { excerpt } from '../tasks/text.ts'

export const createWhy = ({ database, registry }: Pick<Parts, 'database' | 'registry'>) => {
  const slotsIn = async ({ queue }: Todo): Promise<Slots | null> => {
    const limit = (await registry.queue(queue))?.policy.concurrency
    return limit === undefined ? null : readQueueSlots(database, queue, limit)
  }

  const familyOf = async ({ id, join }: Todo): Promise<Pick<WhyFacts, 'children' | 'unserved'>> => {
    if (!join) return { children: [], unserved: [] }
    const children = await readJoined(database, id)
    const queues = [...new Set(children.map(({ queue }) => queue))]
    const served = await readQueuesServed(database, queues)
    return { children, unserved: queues.filter((queue) => !served.includes(queue)) }
  }

  return async (id: string, caller: Caller): Promise<Why> => {
    const view = orNotFound(await readEnds(database, id, watchScope(caller)))
    const { todo, result, messages, waitsBehind } = view
    const [attempts, endpoints, now] = await Promise.all([
      readAttempts(database, id, 2),
      readEndpoints(database),
      readClock(database),
    ])
    const [latest] = attempts
    const waits = phaseOf(todo) === 'waiting'
    const asker = endpoints.find((endpoint) => endpoint.id === latest?.endpointId) ?? null
    const question = messages.find(({ seq }) => seq === todo.statusSeq)?.message
    return whyOf({
      todo,
      holder: latest?.claimant ?? asker?.name ?? null,
      attempts,
      question: phaseOf(todo) === 'interrupted' && question ? excerpt(question) : null,
      deadline: await deadlineOf(registry, todo, asker),
      waitsBehind,
      ...(await familyOf(todo)),
      slots: waits ? await slotsIn(todo) : null,
      claimers: waits ? await readClaimers(database, todo.queue) : [],
      now,
      error: typeof result?.error === 'string' ? result.error : null,
    })
  }
}
