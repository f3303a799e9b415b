/** Sending messages. */
import { type Must, must } from '../must.ts'

const CONTRACT = 'contract/contract.test.ts'

export const SENDING: Must[] = [
  must('9', '3.1.1, P', 'A send is answered with a task or a message, in its wrapper', {
    'a2a/send.test.ts': [
      'an answer of 1.0 has a task in a wrapper when sent, bare when read, and no word of another version',
    ],
    'a2a/rest/rest.test.ts': [
      'a send waits for the end and answers with the wrapped task, words unharmed',
      'a bare message of the agent comes wrapped as a message',
    ],
    [CONTRACT]: ['a bare message comes in place of the task where the agent wants it'],
  }),
  must('10a', '3.2.2', 'Unless told otherwise it waits for an end or an interruption', {
    [CONTRACT]: [
      'a send waits for the end of its task and brings all there is',
      'a question ends the wait, its answer goes on with the same task',
      'a request for authorisation ends the wait',
    ],
  }),
  must('10b', '3.2.2', 'The answer has the latest state and all artifacts', {
    'a2a/send.test.ts': [
      'a blocking send always returns the end and the artifact, however fast the agent was',
    ],
    [CONTRACT]: ['a send waits for the end of its task and brings all there is'],
  }),
  must('11a', '3.2.2', 'With returnImmediately it is answered once the task is made', {
    [CONTRACT]: ['a send that does not wait answers with the new task, which can be read at once'],
  }),
  must('11b', '3.2.2', 'returnImmediately changes neither streams nor webhooks', {
    'musts/tasks.test.ts': ['not to wait changes no stream: it goes on to the end'],
    'push/deliveries.test.ts': [
      'an inline webhook is told from the first working event to the terminal one, of its own task only',
    ],
  }),
  must('12', '3.1.1', 'A message to an ended task is UnsupportedOperationError', {
    'a2a/errors.test.ts': ['a task that is %s takes no further message and stays as it is'],
    [CONTRACT]: ['a finished task takes no message, and its cancel tells so'],
  }),
  must('13', '3.1.1', 'An unsupported media type of a part is ContentTypeNotSupportedError', {
    'musts/requests.test.ts': [
      'a part of a media type that the card leaves out is refused by name, and nothing is stored',
    ],
    'a2a/rest/rest-errors.test.ts': [
      'a type that is none of ours is 415; a part of a type that the agent does not take is 400',
    ],
  }),
  must('14', '3.4.2', 'An unknown taskId is TaskNotFoundError and makes no task', {
    'a2a/errors.test.ts': ['a task id in a message refers to a task and never makes one'],
    [CONTRACT]: ['what is not there, or not yours, is one error'],
  }),
  must('15a', '3.4.2', 'Each new task has an id of its own, made by the server', {
    'musts/tasks.test.ts': [
      'each task has an id and a context of the server’s making, also where a message is sent twice',
    ],
  }),
  must('15b', '3.4.2', 'The id is in the task that is answered', {
    [CONTRACT]: ['a send that does not wait answers with the new task, which can be read at once'],
  }),
  must('16', '3.4.1', 'A generated contextId is in the answer, task or message', {
    'musts/tasks.test.ts': [
      'each task has an id and a context of the server’s making, also where a message is sent twice',
      'whatever the agent says is told with its context, and its task',
    ],
  }),
  must('17a', '3.4.1', 'A contextId that cannot be accepted is an error', {
    'a2a/errors.test.ts': [
      'a context that is not that of the task is refused; without one it is inferred',
    ],
  }),
  must('17b', '3.4.1', 'A contextId is never replaced by another one', {
    [CONTRACT]: ['a context of the client is kept'],
    'a2a/tenancy.test.ts': ['a context of the same name is two conversations for two tenants'],
  }),
  must('18', '3.4.3', 'A taskId alone brings its context with it', {
    'a2a/errors.test.ts': [
      'a context that is not that of the task is refused; without one it is inferred',
    ],
    [CONTRACT]: ['a question ends the wait, its answer goes on with the same task'],
  }),
  must('19', '3.4.3', 'A contextId that is not the one of the taskId is refused', {
    [CONTRACT]: ['a context that is not the one of the task is refused'],
  }),
]
