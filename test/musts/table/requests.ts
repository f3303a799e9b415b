/** Versions, service parameters, extensions. */
import { type Must, must, untested } from '../must.ts'

const VERSIONS = 'the version of a request decides which methods there are, and says so'
const REST_ROUTES = '%s %s is refused without a token, and in another version'

export const REQUESTS: Must[] = [
  must('1', '3.6.2', 'A request means what it means in the Major.Minor that it asks for', {
    'a2a/older/v03.test.ts': [VERSIONS],
    'a2a/rest/rest-v03.test.ts': ['a path of the one version is not one of the other'],
    'contract/contract.test.ts': [
      'one task is the same facts in every dialect, whoever made it',
      'a question ends the stream of a send, and keeps a subscription of 1.0 open',
    ],
  }),
  must('2', '3.6.2', 'A version that is not served is VersionNotSupportedError', {
    'a2a/envelope.test.ts': [
      'a version that is not served is refused on every method, as plain JSON and without effect',
    ],
    'contract/contract.test.ts': [
      'a version of another name is refused before anything happens, on both bindings',
    ],
    'a2a/rest/rest-errors.test.ts': [REST_ROUTES],
  }),
  must('3', '3.6.2', 'No version, and an empty one, are 0.3', {
    'a2a/older/v03.test.ts': [VERSIONS],
    'a2a/rest/rest-errors.test.ts': [REST_ROUTES],
  }),
  must('4a', '3.6', 'Patch numbers play no part', {
    'a2a/envelope.test.ts': ['the patch number of a version does not count'],
    'a2a/older/v03.test.ts': [VERSIONS],
    'a2a/rest/rest.test.ts': [
      'the version comes by the query where no header can be set, and the header wins',
    ],
  }),
  must('4b', '14.2.1', 'What the server says of versions is Major.Minor', {
    'protocol/card.test.ts': ['says what the operator wrote and what only the server knows'],
    'a2a/older/v03.test.ts': [VERSIONS],
    'push/deliveries.test.ts': [
      'the headers of a delivery: credentials by scheme, token, type, version, id, and nothing of our own',
    ],
  }),
  must('5', '9.2, 11.2', 'Service parameters are HTTP headers, their names in any case', {
    'musts/requests.test.ts': [
      'service parameters are read whatever the letters of their names, over both bindings',
    ],
    'a2a/extensions.test.ts': ['a header that is repeated is one list'],
  }),
  must('6', '3.3.4, 4.6.3', 'A required extension not asked for is ExtensionSupportRequiredError', {
    'a2a/extensions.test.ts': [
      'what the card requires must be asked for by who sends, and nothing is stored without',
      'over HTTP+JSON %s it is refused with 400, and told in the answer',
      'over HTTP+JSON 1.0 the refusal has its reason',
    ],
  }),
  must('7', '4.6.3', 'No other version of an extension takes the place of the one asked for', {
    'a2a/extensions.test.ts': ['who asks for %s is told what is active'],
  }),
  untested(
    '8',
    '4.6.3, 5.8',
    'What breaks an extension or a binding gets a new URI',
    'A rule for whoever changes one: for review. Our URIs end with their version, and there is no binding of our own.',
  ),
]
