/** Authentication, authorisation, secrets. */
import { type Must, must, untested } from '../must.ts'

const CONTRACT = 'contract/contract.test.ts'
const TENANCY = 'a2a/tenancy.test.ts'
const ACCESS = 'musts/access.test.ts'
const REST = 'a2a/rest/rest-errors.test.ts'

const NO_TOKEN =
  'without a good token every surface answers 401 with a challenge, opens no stream and makes nothing'
const ANOTHERS =
  "another tenant's task and one that never was are one answer, byte for byte, in every method and in every state"
const OUT_OF_BAND =
  'a request for authorisation can be met out of band: no credential has to pass through here'
const GIVES_NOTHING =
  'a request for authorisation that was answered lets nobody in and gives nothing'
const EXTENDED = 'the extended card is refused before anything of it is shown, in every dialect'

export const SECURITY: Must[] = [
  untested(
    '77',
    '7.1, 13.4',
    'In production there is TLS',
    'Of the installation: the server speaks HTTP, on loopback unless told otherwise, behind a proxy that ends TLS.',
  ),
  must('78', '7.4', 'Each request is authenticated as the card says', {
    [TENANCY]: [NO_TOKEN, 'a token in the URL lets nobody in'],
    [REST]: ['%s %s is refused without a token, and in another version'],
    [ACCESS]: ['credentials are read from their header only, and nowhere in a body'],
  }),
  must('79a', '13.1', 'Each operation asks for a right', {
    [TENANCY]: ['a client may not work, an agent may not send, and neither may operate or watch'],
    [REST]: [
      'a queue that is not there and one that is not yours are one answer, and the admin has no business here',
    ],
  }),
  must('79b', '13.1', 'It is asked for before anything is looked for', {
    'rpc/server.test.ts': ['without the right is forbidden before its params are looked at'],
    'rpc/rest.test.ts': ['a right is looked at before the body is read'],
    'protocol/v1/methods.test.ts': [
      'GetTask, CancelTask and ListTasks ask within what the caller may see',
    ],
  }),
  must('80', '13.1', 'Results are those of the caller, also without a filter', {
    [TENANCY]: [ANOTHERS, 'a page token of another caller opens nothing of theirs'],
  }),
  must('81', '13.1', 'Reading, canceling, subscribing and push look at whose task it is', {
    [TENANCY]: [ANOTHERS],
    [CONTRACT]: ['what is not there, or not yours, is one error'],
    'a2a/older/v03.test.ts': [
      "another's task and one that never was are one answer, in every method",
    ],
  }),
  must('82a', '7.6.1', 'Authorisation within a task is asked for by a task', {
    [CONTRACT]: ['a request for authorisation ends the wait'],
  }),
  must('82b', '7.6.1', 'The task is then in AUTH_REQUIRED', {
    'interrupts/auth.test.ts': ['it waits, is answered and goes on (held: %j)'],
  }),
  must('82c', '7.6.1', 'Its status has a message that explains', { [ACCESS]: [OUT_OF_BAND] }),
  must('82d', '7.6.1', 'Credentials come out of band', { [ACCESS]: [OUT_OF_BAND] }),
  must('83a', 'HEAD 7.6.4', 'To reach or to leave AUTH_REQUIRED gives no right', {
    [ACCESS]: [GIVES_NOTHING],
  }),
  untested(
    '83b',
    'HEAD 7.6.4',
    'What a credential means is defined by who issues or uses it',
    'Between agent and issuer. The server hands the answer to the agent that asked and gives nobody a right for it.',
  ),
  must('83c', 'HEAD 7.6.4', 'It is not taken to cover later messages', {
    [ACCESS]: [GIVES_NOTHING],
  }),
  must('84a', '13.3', 'The extended card needs a scheme of the public one', {
    [ACCESS]: [EXTENDED],
  }),
  must('84b', '13.3', 'The right is looked at before the card', { [ACCESS]: [EXTENDED] }),
  must('85', '13.4', 'Credentials are secret; logs hold neither them nor personal data', {
    [TENANCY]: [
      'no token and no header that held one is ever in the log, good or bad, at its most talkative',
    ],
    [ACCESS]: ['what clients and agents say is in no line of the log, at its most talkative'],
    'push/configs.test.ts': ['credentials are written and never read, in any answer'],
    'interrupts/auth.test.ts': [
      'is in no event, no frame of the board, no log line and nothing an operator is shown, while holder and sender read it',
    ],
  }),
  untested(
    '86',
    '13.4, 14.1',
    'The law on data protection is kept',
    'Of whoever runs the server and of what they send through it.',
  ),
  must('87a', '14.1', 'Bodies are UTF-8', {
    'resilience/hang-ups.test.ts': [
      'bodies of the wrong kind are 415, and bytes that are no UTF-8 are no JSON',
    ],
    'a2a/send.test.ts': [
      'a text is the same to the character wherever it comes out, from the client and from the agent',
    ],
  }),
  must('87b', '14.1', 'Bodies are checked against the schema', {
    'protocol/v1/official.test.ts': ['a part takes exactly one member of the oneof'],
    'a2a/rest/rest-errors.test.ts': [
      'a send of %s is refused by the names of the fields and makes nothing',
    ],
    'resilience/hostile.random.test.ts': [
      'whatever is sent to the A2A endpoint is answered with a result or an error of the protocol',
    ],
  }),
  must('87c', '14.1', 'What users write is injected nowhere', {
    'a2a/validation.test.ts': [
      'an odd text in a filter, a context or a message id equals itself and nothing else',
    ],
    'http/board.test.ts': ['nothing of the page ever reads text as markup or as code'],
    'cli/cli.test.ts': ['what others wrote cannot steer the terminal'],
    'push/configs.test.ts': ['a %s that no header can carry is refused'],
  }),
  must('88', '14.1', 'Addresses of files lead nobody inside', {
    [ACCESS]: ['the addresses of files are handed on and never fetched'],
  }),
]
