/** Streams. */
import { type Must, must } from '../must.ts'

const CONTRACT = 'contract/contract.test.ts'
const STREAMS = 'a2a/streams.test.ts'
const REST = 'a2a/rest/rest-streams.test.ts'

const BARE_PAYLOADS =
  'a stream of a send shows bare payloads of one member each: task, work, artifact, end'
const ONE_FRAME =
  'a frame is one line of whole JSON-RPC under the id of its own call, with one result, also of a megabyte'
const SAME_EVENTS =
  'streams of one task are independent and show the same events under the same ids'
const SUBSCRIPTION =
  'a subscription opens with the whole task while it is open, and is refused as plain JSON after'

export const STREAMING: Must[] = [
  must('20a', '3.1.2', 'SendStreamingMessage opens a stream', {
    [CONTRACT]: ['a stream shows the task, then what becomes of it, and ends with it'],
    [STREAMS]: [
      'a stream of a send opens with the task, and a failure before anything else still ends it in order',
    ],
  }),
  must('20b', '3.1.2', 'What happens is sent as it happens', {
    [STREAMS]: [
      'the headers of a stream come before its first event, forbid to hold it back, and nothing is compressed',
    ],
  }),
  must('21', '3.1.2', 'A stream of a message has that message alone; here each is of a task', {
    'musts/tasks.test.ts': [
      'a bare message ends the stream of its task as the last status, never beside the task',
    ],
  }),
  must('22a', '3.1.2', 'The first event of a task’s stream is the task', {
    [CONTRACT]: ['a stream shows the task, then what becomes of it, and ends with it'],
    [REST]: [BARE_PAYLOADS],
  }),
  must('22b', '3.1.2', 'After it there are only updates of status and artifacts', {
    [REST]: [BARE_PAYLOADS],
    [STREAMS]: [
      'a task sent without a stream can be followed to its end from another node that came later',
    ],
  }),
  must('23', '3.1.2', 'The stream closes at the end of the task', {
    [CONTRACT]: ['a stream shows the task, then what becomes of it, and ends with it'],
    [STREAMS]: [
      'a subscription stays open through questions and authorisations, and only the end ends it',
    ],
  }),
  must('24', '3.5.2', 'Events come in the order in which they were made', {
    [STREAMS]: [
      'a burst of a hundred chunks and the end arrive whole and in order, and the stream closes cleanly',
    ],
  }),
  must('25a', '3.5.2', 'All open streams of a task are told', {
    [STREAMS]: [SAME_EVENTS],
    [REST]: ['streams of one task are independent, whichever binding they came by'],
  }),
  must('25b', '3.5.2', 'Each is told the same, in the same order', {
    [STREAMS]: [SAME_EVENTS],
    'a2a/older/v03-streams.test.ts': [
      'streams of both versions show the same events under the same ids, each for itself',
    ],
  }),
  must('26', '3.5.2', 'Closing one leaves the others alone', {
    [STREAMS]: [SAME_EVENTS],
    [REST]: ['streams of one task are independent, whichever binding they came by'],
  }),
  must('27', '3.1.6', 'SubscribeToTask begins with the task as it is', {
    [STREAMS]: [SUBSCRIPTION],
    [CONTRACT]: [
      'a subscriber gets the task as it is, then each event once, and goes on where it was cut',
    ],
  }),
  must('28', '3.1.6', 'SubscribeToTask ends at the end of the task', {
    [STREAMS]: [
      'a task sent without a stream can be followed to its end from another node that came later',
    ],
    [REST]: ['a subscription by %s opens with the task and stays open over a question'],
  }),
  must('29a', '3.1.6', 'SubscribeToTask of an ended task is UnsupportedOperationError', {
    [STREAMS]: [SUBSCRIPTION],
    [CONTRACT]: ['a subscription to what has ended: refused in 1.0, the task and the end in 0.3'],
  }),
  must('29b', '3.1.6', 'SubscribeToTask of an unknown task is TaskNotFoundError', {
    [STREAMS]: [SUBSCRIPTION],
    [CONTRACT]: ['what is not there, or not yours, is one error'],
  }),
  must('30', '3.3.4', 'Without streaming in the card both are UnsupportedOperationError', {
    'a2a/errors.test.ts': [
      'where the card says no streaming, both streams are refused as plain JSON and make no task',
    ],
    'a2a/rest/rest-errors.test.ts': ['what the card does not declare is refused'],
  }),
  must('31', '3.2.3, P', 'A StreamResponse has exactly one member', {
    [STREAMS]: [ONE_FRAME],
    [REST]: [BARE_PAYLOADS],
  }),
]
