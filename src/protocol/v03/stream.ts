/**
 * A stream of 1.0 as one of 0.3: bare events with `kind`, and an end when the agent asks something or
 * the task ends. The last event is a status update and the only one that is `final`: the schema of
 * 0.3 says that `final` marks the last event of a stream, but not in which states.
 */
import { translated } from '../../base/streams.ts'
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

/** In all other states it is somebody else's turn. */
const AT_WORK: ReadonlySet<State03> = new Set(['submitted', 'working'])

/** The message that opened the stream answered the question that the task still shows. */
const isAnswered = ({ metadata }: Task03): boolean =>
  (metadata?.[RECEIPT] as JsonObject | undefined)?.outcome === 'deferred'

/** After such a task a stream has nothing to say until its client does something. */
export const isOver = (task: Task03): boolean =>
  !AT_WORK.has(task.status.state) && !isAnswered(task)

/**
 * `now` is the task's status when a client came back for what it had missed: an older question has
 * been answered in the meantime and does not end the stream.
 */
export const toStream = (
  items: AsyncIterable<StreamItem<StreamResponse>>,
  now?: Task03['status'],
): AsyncIterable<StreamItem<Event03>> => {
  const since = now?.timestamp
  const isPast = ({ timestamp }: Task03['status']): boolean =>
    since !== undefined && timestamp < since
  return translated<StreamItem<StreamResponse>, StreamItem<Event03>>(
    items,
    ({ result, ...item }) => {
      const event = fromStreamed(result)
      if (event.kind === 'task') {
        const shown = { ...item, result: event }
        if (!isOver(event)) return { made: [shown] }
        const ids = { taskId: event.id, contextId: event.contextId }
        const last = { ...item, result: toStatusUpdate(ids, event.status, true) }
        return { made: [shown, last], isLast: true }
      }
      const final =
        event.kind === 'status-update' && !AT_WORK.has(event.status.state) && !isPast(event.status)
      return { made: [{ ...item, result: final ? { ...event, final } : event }], isLast: final }
    },
  )
}
