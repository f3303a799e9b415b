/** What only 0.3 demands, or demands in its own way. */
import { type Must, must } from '../must.ts'

const CONTRACT = 'contract/contract.test.ts'
const REST = 'a2a/rest/rest-v03.test.ts'
const FORMS = 'protocol/card-forms.test.ts'
const OFFICIAL = 'protocol/v03/official.test.ts'

const EVERY_METHOD =
  'every method of the schema is served, and no other but the card under its old name'
const IS_OFFICIAL = '%s is the official %s, no member more'
const CODES = 'in 0.3 %s has its code, under the id as it came'

export const V03: Must[] = [
  must('94', '0.3 3.1, 3.4.2, 11.1.1', 'A core transport over HTTP; all are declared', {
    [FORMS]: ['has its own members'],
    'a2a/card-clients.test.ts': ['what a card declares is served: %j'],
  }),
  must('95', '0.3 3.2.1, 7', 'JSON-RPC 2.0, as application/json both ways', {
    'musts/requests.test.ts': [
      CODES,
      'in %s a result comes alone, as JSON, and a body of another type is refused',
    ],
  }),
  must(
    '96',
    '0.3 3.2.3, 3.3.3',
    'HTTP+JSON: verbs, paths, types, statuses, errors, all methods, SSE',
    {
      'protocol/v03/rest.test.ts': ['its paths are those of 1.0 under /v1, but for the card'],
      [REST]: [
        'the type of the answer is JSON, also for those who name that of A2A',
        'a stream shows bare payloads and ends with the one that is final',
        'errors are bare, with the code of JSON-RPC under their HTTP status',
        'a push config is made by each of the bodies that clients send, and is one resource',
      ],
    },
  ),
  must('97', '0.3 3.4.1, 3.5.4, 11.1.4', 'All transports do the same', {
    [CONTRACT]: [
      'one task is the same facts in every dialect, whoever made it',
      'what is not there, or not yours, is one error',
    ],
    [REST]: ['one task shows the same facts in both versions'],
  }),
  must(
    '98',
    '0.3 3.5.1, 3.5.5',
    'Methods are named category/action; those of extensions do not clash',
    {
      [OFFICIAL]: [EVERY_METHOD],
    },
  ),
  must('99', '0.3 4.4, 10.2', 'Each request is authenticated', {
    [CONTRACT]: ['nobody gets in without a token'],
    'a2a/older/v03-sdk-client.test.ts': ['a client without a good token is turned away'],
  }),
  must('100', '0.3 5.1, 5.4', 'There is a card; one that is sensitive is protected', {
    'a2a/card-clients.test.ts': [
      'the 0.3 client reads the hybrid card as it stands, and the pure one alike',
    ],
    'musts/access.test.ts': [
      'the extended card is refused before anything of it is shown, in every dialect',
    ],
  }),
  must('101', '0.3 5.6', 'preferredTransport is served at url; no URL has two transports', {
    [FORMS]: ['has no URL of two transports, and names every scheme that it requires'],
    'a2a/card-clients.test.ts': ['the 0.3 client finds its way from the hybrid card, and talks'],
  }),
  must('102', '0.3 11.1.2', 'There are message/send, tasks/get and tasks/cancel', {
    [OFFICIAL]: [EVERY_METHOD],
    [CONTRACT]: [
      'a send waits for the end of its task and brings all there is',
      'cancel is idempotent',
    ],
  }),
  must('103', '0.3 6, 11.1.5, J', 'Objects are those of the JSON Schema, with kind and final', {
    [OFFICIAL]: [IS_OFFICIAL],
    'a2a/older/v03-streams.test.ts': [
      'a stream of a send opens with the task and ends with its one final event',
    ],
  }),
  must('104', '0.3 8, 11.1.5', 'Errors have the codes of 0.3', {
    'musts/requests.test.ts': [CODES],
    'protocol/v03/translate.test.ts': [
      'an error keeps code, words and details, but for the codes that 0.3 has not',
    ],
    [REST]: ['errors are bare, with the code of JSON-RPC under their HTTP status'],
  }),
  must('105', '0.3 7.1, 7.2', 'A message to an ended task is an error', {
    [CONTRACT]: ['a finished task takes no message, and its cancel tells so'],
    'a2a/older/v03.test.ts': [
      'a task is named by its own id and in its own context, and takes nothing once it has ended',
    ],
  }),
  must('106', '0.3 10.2', 'Params and the content of parts are checked rigorously', {
    'a2a/older/v03.random.test.ts': [
      'any params are served or refused by name, and a refused send leaves nothing behind',
    ],
    'a2a/older/v03.test.ts': [
      'what is wrong is refused before anything is stored, and the field is named',
    ],
    [CONTRACT]: ['a message that is not whole is refused and nothing of it stored'],
  }),
]
