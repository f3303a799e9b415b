/**
 * A stream of 1.0 as one of 0.3: bare events with `kind`, and an end where the agent asks or the
 * task ends. The last event is a status update, and it alone is `final`: the schema of 0.3 says
 * that `final` marks the last event of a stream, and not in which states.
 */
import type { JsonObject } from '../../domain/todo.ts'
import { RECEIPT } from '../v1/translate.ts'
import type { StreamResponse } from '../v1/wire.ts'
import type { StreamItem } from '../wire/method.ts'
import {
  type Event03,
  fromStreamed,
  type State03,
  type Task03,
  toStatusUpdate,
} from './translate.ts'

/** In all other states somebody else has the word. */
const AT_WORK: ReadonlySet<State03> = new Set(['submitted', 'working'])

/** The message that opened the stream has answered the question that the task still shows. */
const isAnswered = ({ metadata }: Task03): boolean =>
  (metadata?.[RECEIPT] as JsonObject | undefined)?.outcome === 'deferred'

/** A task after which a stream has nothing to say until its client does something. */
export const isOver = (task: Task03): boolean =>
  !AT_WORK.has(task.status.state) && !isAnswered(task)

/**
 * `now` is the task's status when a reader came back for what it had missed: a question older than
 * that has been answered meanwhile, and ends nothing.
 */
export async function* toStream(
  items: AsyncIterable<StreamItem<StreamResponse>>,
  now?: Task03['status'],
): AsyncGenerator<StreamItem<Event03>> {
  for await (const { result, ...item } of items) {
    const event = fromStreamed(result)
    if (event.kind === 'task') {
      yield { ...item, result: event }
      if (!isOver(event)) continue
      const ids = { taskId: event.id, contextId: event.contextId }
      yield { ...item, result: toStatusUpdate(ids, event.status, true) }
      return
    }
    const isPast = (status: Task03['status']): boolean =>
      now !== undefined && status.timestamp < now.timestamp
    const final =
      event.kind === 'status-update' && !AT_WORK.has(event.status.state) && !isPast(event.status)
    yield { ...item, result: final ? { ...event, final } : event }
    if (final) return
  }
}
