/** Push notifications. */
import { type Must, must } from '../must.ts'

const CONTRACT = 'contract/contract.test.ts'
const CONFIGS = 'push/configs.test.ts'
const DELIVERIES = 'push/deliveries.test.ts'

const LIFE =
  'a config is made with an id of ours, replaced under its own, read, listed and deleted twice'
const CRUD = 'push configs are made, replaced, read, listed and deleted, over and over'
const INLINE =
  'an inline webhook is told from the first working event to the terminal one, of its own task only'
const DELETED =
  'nothing is told to a config once it has been deleted, and what it was owed is closed'
const HEADERS =
  'the headers of a delivery: credentials by scheme, token, type, version, id, and nothing of our own'
const AS_STREAMED = 'what a webhook is told is what a stream shows, byte for byte'

export const PUSH: Must[] = [
  must('44', '3.3.4', 'Without push in the card all four are PushNotificationNotSupportedError', {
    'a2a/errors.test.ts': [
      'where push is not served, its four methods and an inline config are refused and store nothing',
    ],
    'a2a/rest/rest-errors.test.ts': [
      'where a queue switches push off, its routes and an inline config say so',
    ],
  }),
  must('45a', '3.1.7', 'From its making on the webhook is told', {
    [CONFIGS]: [
      LIFE,
      'a config made while its task moves misses nothing that comes after its answer',
    ],
    [DELIVERIES]: [INLINE],
  }),
  must('45b', '3.1.7', 'The answer has the id of the config', {
    [CONFIGS]: [LIFE],
    [CONTRACT]: [CRUD],
  }),
  must('45c', '3.1.7', 'A config of an unknown task is TaskNotFoundError', {
    [CONFIGS]: [
      'a finished task takes a config and never tells it; one that is not there takes none',
    ],
    [CONTRACT]: ['what is not there, or not yours, is one error'],
  }),
  must('46', '3.1.7', 'A config stays until its task ends or it is deleted', {
    [DELIVERIES]: [INLINE],
    'faults/webhooks-killed.test.ts': [
      'what a node told when %s hit it is told by another, under the same id, and counts once',
    ],
  }),
  must('47a', '3.1.8', 'A config is read with its URL and settings', {
    [CONFIGS]: [LIFE, 'credentials are written and never read, in any answer'],
  }),
  must('47b', '3.1.8', 'One that is missing or hidden is not', {
    [CONTRACT]: [CRUD],
    [CONFIGS]: ["another client's webhooks are not there, whatever is asked of them"],
  }),
  must('48', '3.1.9', 'A list has all configs of the task', {
    [CONTRACT]: [CRUD],
    [CONFIGS]: [
      'the 101st config of a task is refused by name, one that is replaced is not, and a deleted one makes room',
    ],
  }),
  must('49a', '3.1.10', 'A deleted config is told nothing more', { [CONFIGS]: [LIFE, DELETED] }),
  must('49b', '3.1.10', 'It can be deleted again', { [CONTRACT]: [CRUD] }),
  must('50', '4.3.3, 13.2', 'Deliveries carry the credentials of their config', {
    [DELIVERIES]: [HEADERS],
    'push/dialects.test.ts': [
      'a config of 0.3 is told the whole task in the words of 0.3, as each event left it',
    ],
  }),
  must('51', '4.3.3', 'Each delivery is tried at least once', {
    [DELIVERIES]: [
      'after %i there is no other try',
      'a failing receiver is tried again with growing gaps, the same body and the same id',
    ],
    'push/leases.test.ts': [
      'what a dead courier held is sent by another, under the same id; what it says late is refused',
    ],
  }),
  must('52a', '4.3.3', 'What is delivered is a StreamResponse of one member', {
    [DELIVERIES]: [INLINE, AS_STREAMED],
  }),
  must('52b', '3.5.1', 'It is plain HTTP+JSON, whatever binding the client speaks', {
    [DELIVERIES]: [AS_STREAMED, HEADERS],
  }),
]
