/** JSON-RPC and HTTP+JSON. */
import { type Must, must } from '../must.ts'

const ENVELOPE = 'a2a/envelope.test.ts'
const ALONE = 'in %s a result comes alone, as JSON, and a body of another type is refused'
const CODES = '%i for %s, under the id of the call'

export const BINDINGS: Must[] = [
  must('70', '9.1, 5.3', 'JSON-RPC 2.0 over HTTP, as application/json, with the official methods', {
    'protocol/v1/official.test.ts': ['every method of the service is served, and no other'],
    [ENVELOPE]: ['a body %j is no JSON: said as JSON, without a trace of the inside'],
    'musts/requests.test.ts': [ALONE],
  }),
  must('71', '0.3 6.11.2', 'jsonrpc is 2.0, the id comes back, and either a result or an error', {
    [ENVELOPE]: [
      'the id %j is echoed with its type',
      'an id of %j is no id, and is not echoed',
      'an id beyond what a double holds is not echoed as another one',
    ],
    'musts/requests.test.ts': [ALONE],
    'resilience/hostile.random.test.ts': [
      'whatever is sent to the A2A endpoint is answered with a result or an error of the protocol',
    ],
  }),
  must('72', '9.4.2', 'Streams are SSE, each data a whole JSON-RPC response', {
    'a2a/streams.test.ts': [
      'a frame is one line of whole JSON-RPC under the id of its own call, with one result, also of a megabyte',
    ],
  }),
  must('73', '9.5', 'The codes of JSON-RPC mean what they mean there', {
    [ENVELOPE]: [
      CODES,
      'a body %j is no JSON: said as JSON, without a trace of the inside',
      'a batch and a call without an id are refused and run nothing',
    ],
    'rpc/server.test.ts': ['%j is answered with %d'],
  }),
  must('74', '11.3, 5.3', 'Every route is there', {
    'protocol/v1/paths.test.ts': ['every method of the table has a path, and every path a method'],
    'a2a/rest/rest-errors.test.ts': [
      '%s %s is refused without a token, and in another version',
      '%s %s is the wrong method, and the right ones are told',
    ],
  }),
  must('75a', '11.5', 'GET and DELETE take their parameters from path and query', {
    'protocol/v1/paths.test.ts': ['is not read by GET and DELETE'],
    'a2a/rest/rest-hostile.test.ts': ['a GET that brings a body is answered without it'],
  }),
  must('75b', '11.5', 'The names in a query are camelCase', {
    'protocol/v1/paths.test.ts': ['gives the filters of a list as its schema reads them'],
    'musts/requests.test.ts': [
      'the names of a query are those of the fields; what only looks like one is no filter',
    ],
  }),
  must('75c', '11.5', 'Values are percent-decoded', {
    'musts/requests.test.ts': ['values in a query and a path are percent-decoded, each once'],
    'protocol/v1/paths.test.ts': [
      'is decoded after it was parted, so an escaped colon or slash belongs to the id',
    ],
  }),
  must('76', '11.7', 'The data of SSE is a StreamResponse', {
    'a2a/rest/rest-streams.test.ts': [
      'a stream of a send shows bare payloads of one member each: task, work, artifact, end',
    ],
  }),
]
