/** Errors. */
import { type Must, must } from '../must.ts'

const CONTRACT = 'contract/contract.test.ts'
const ERRORS = 'a2a/errors.test.ts'
const REST = 'a2a/rest/rest-errors.test.ts'
const TENANCY = 'a2a/tenancy.test.ts'

const RPC_TABLE = '%s has its code, status and typed details in A2A 1.0'
const REST_TABLE = '%s is an error of AIP-193 with typed details'
const REST_ROUTES = '%s %s is refused without a token, and in another version'
const ANOTHERS =
  "another tenant's task and one that never was are one answer, byte for byte, in every method and in every state"
const NOT_THERE = 'what is not there, or not yours, is one error'
const EXTENDED =
  'an extended card that is not declared is unsupported, one that is declared and missing is not configured'

export const ERROR: Must[] = [
  must('53', '3.3.2, 5.4', 'Each failure has an error that fits, with code and message', {
    'protocol/v1/errors.test.ts': [RPC_TABLE],
    'protocol/rest-errors.test.ts': [REST_TABLE],
    'resilience/hostile.random.test.ts': [
      'whatever is sent to the A2A endpoint is answered with a result or an error of the protocol',
    ],
  }),
  must('54', '3.3.2', 'Missing and invalid credentials are refused', {
    [TENANCY]: [
      'without a good token every surface answers 401 with a challenge, opens no stream and makes nothing',
    ],
    [REST]: [REST_ROUTES],
    [CONTRACT]: ['nobody gets in without a token'],
  }),
  must('55a', '3.3.2', 'Who may not is told so', {
    [TENANCY]: ['a client may not work, an agent may not send, and neither may operate or watch'],
    [REST]: [
      'a queue that is not there and one that is not yours are one answer, and the admin has no business here',
    ],
  }),
  must('55b', '3.3.2', 'The refusal does not tell whether something exists', {
    [TENANCY]: [ANOTHERS],
    [REST]: [
      'a queue that is not there and one that is not yours are one answer, and the admin has no business here',
      'a task that is not there and one of another client are one answer',
    ],
  }),
  must('56', '3.3.2, 13.4', 'All input is checked before anything is done', {
    [CONTRACT]: ['a message that is not whole is refused and nothing of it stored'],
    'a2a/validation.test.ts': ['a historyLength of %j is refused by every method that has one'],
    [REST]: [
      'a send of %s is refused by the names of the fields and makes nothing',
      'GET %s is refused by the name of what is wrong',
    ],
    'resilience/hostile.random.test.ts': [
      'whatever is sent to the A2A endpoint is answered with a result or an error of the protocol',
    ],
  }),
  must('57', '3.3.2', 'What is missing and what is hidden is not found', {
    [CONTRACT]: [NOT_THERE],
    [TENANCY]: [ANOTHERS],
  }),
  must('58', '3.3.2, 9.5, 11.6', 'Each object in the details of an error has an @type', {
    'protocol/v1/errors.test.ts': [
      'are objects that each say their type, of every kind and in every dialect',
    ],
  }),
  must('59a', '5.4', 'Each error has its code over JSON-RPC', {
    'protocol/v1/errors.test.ts': [RPC_TABLE],
    [ERRORS]: ['an unknown task is told with typed details and nothing else'],
  }),
  must('59b', '5.4', 'Each error has its HTTP status', {
    'protocol/rest-errors.test.ts': [REST_TABLE],
    [REST]: ['a task that has ended takes no message, no subscription and no second end'],
  }),
  must('60a', '11.6', 'Over HTTP+JSON an error is code, message and details', {
    'protocol/rest-errors.test.ts': [REST_TABLE],
    [REST]: ['a task that is not there and one of another client are one answer'],
  }),
  must('60b', '11.6', 'A2A’s own errors have an ErrorInfo with reason and domain', {
    'protocol/rest-errors.test.ts': ['name the error of A2A, and what it is about'],
    [REST]: ['what the card does not declare is refused'],
  }),
  must('61', '3.3.4', 'What the card does not declare is refused by its own error', {
    [ERRORS]: [
      'where the card says no streaming, both streams are refused as plain JSON and make no task',
      'where push is not served, its four methods and an inline config are refused and store nothing',
    ],
    [REST]: ['what the card does not declare is refused'],
  }),
  must('62a', '3.3.4, 13.3', 'An extended card not declared is UnsupportedOperationError', {
    [ERRORS]: [EXTENDED],
    [CONTRACT]: ['an extended card that is not declared is refused'],
  }),
  must('62b', '3.3.4, 13.3', 'Declared and missing, it is ExtendedAgentCardNotConfiguredError', {
    [ERRORS]: [EXTENDED],
    [REST]: ['what the card does not declare is refused'],
  }),
]
