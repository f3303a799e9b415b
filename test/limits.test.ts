/**
 * Every number on the page of limits, against the code: a bound that is off in either is found here, and so
 * is a row that nobody compares. Bounds that nothing outside their file needs are read from its text. The
 * rows about nodes and the database are compared in defaults.test.ts.
 * Field case: defaults are what the docs say.
 */
import { constants } from 'node:buffer'
import fs from 'node:fs'
import { expect, test } from 'vitest'
import { DEFAULT_MAX_BLOCKED_MS } from '../src/agent-kit/agent.ts'
import { VARIABLES } from '../src/config.ts'
import {
  ALONE_BYTES,
  ARTIFACT_BYTES,
  HISTORY_BYTES,
  HOLDS,
  PAGE_BYTES,
  READ_BYTES,
} from '../src/domain/budget.ts'
import { ANSWER_LEASE } from '../src/domain/policy.ts'
import { PUSH_CONFIGS_AT_MOST, PUSH_LIMITS } from '../src/domain/push.ts'
import { SCHEDULES } from '../src/domain/sends/schedule.ts'
import { PRIORITY, SEND_DELAY } from '../src/domain/sends/send.ts'
import { MAX_AMOUNT, SPEND_KEYS_KEPT } from '../src/domain/spend.ts'
import { SMALL_BYTES } from '../src/http/bounds/body-room.ts'
import { LIMIT_BYTES, TIMEOUT_MS } from '../src/http/request/body.ts'
import { MAX_STREAMS } from '../src/http/stream/feeds.ts'
import { DRAIN_MS } from '../src/http/stream/sse.ts'
import * as agentSchema from '../src/protocol/agent/schema.ts'
import { MAX_PARTS } from '../src/protocol/v1/schema.ts'
import { MAX_DEPTH } from '../src/protocol/wire/params.ts'
import { SETTINGS } from '../src/service/operator/settings.ts'
import { TTL_MS } from '../src/service/registry.ts'
import { SCHEMA_LIMITS } from '../src/service/schemas/answers.ts'
import { MAX_CLAIM } from '../src/store/move/pick.ts'

const MB = 1024 * 1024

/** A number that a file gives this name: `const NAME = 64 * 1024`, or `name: 64` in an object. */
const inFile = (file: string, name: string): number => {
  const text = fs.readFileSync(`src/${file}`, 'utf8')
  const found = new RegExp(`\\b${name}(?: =|:) ([\\d_.]+(?: \\* [\\d_.]+)*)[,\\s]`).exec(text)
  if (!found) throw new Error(`${file} has no number ${name}`)
  return found[1]!.split(' * ').reduce((all, each) => all * Number(each.replaceAll('_', '')), 1)
}

const ofVariable = (name: string): number =>
  Number(VARIABLES.find(([variable]) => variable === name)?.[1])

const { documents, bytes } = HOLDS
const {
  compileMs,
  checkMs,
  memoryMb,
  perSubject,
  perOwner,
  waitMs: turnWaitMs,
  costlyMs,
  restFactor,
} = SCHEMA_LIMITS
const starved = inFile('service/schemas/thread.ts', 'STARVED_FACTOR')
const checksOf = (name: string): number => inFile('service/schemas/answers.ts', name)
const workerOf = (name: string): number => inFile('service/schemas/worker.ts', name)
const bodyRoom = (name: string): number => inFile('http/bounds/body-room.ts', name)
const login = (name: string): number => inFile('http/board/login.ts', name)
const effectNames = (
  /effects = z\.array\(name\.max\((\d+)\)\)\.max\((\d+)\)/.exec(
    fs.readFileSync('src/protocol/json/fields.ts', 'utf8'),
  ) ?? []
)
  .slice(1)
  .map(Number)
  .toReversed()
const kept = inFile('service/push/payloads.ts', 'MAX_KEPT')

/** The numbers of each row in the order in which they stand there, answers' codes left out. */
const LIMITS: Readonly<Record<string, Readonly<Record<string, readonly number[]>>>> = {
  'What one todo may hold': {
    'messages, chunks of artifacts, and progress with metadata of one todo': [
      documents.standard,
      documents.min,
      documents.max,
    ],
    'bytes that these come to': [bytes.standard, bytes.standard / MB, bytes.min, bytes.max],
    'reserve for answers and the end': [documents.reserve, bytes.reserve],
    'messages of one endpoint to live tasks': [],
    'history of one task in an answer': [HISTORY_BYTES],
    'artifacts of one task in an answer': [ARTIFACT_BYTES],
    'page of todos.documents, and messages that a holder is handed at once': [
      READ_BYTES,
      inFile('store/todos/documents.ts', 'PAGE_DOCUMENTS'),
    ],
    "page of a stream's events read at once": [inFile('service/watch/tail.ts', 'PAGE'), READ_BYTES],
    'page of a list': [PAGE_BYTES],
    'total of a list by contextId or statusTimestampAfter': [
      inFile('store/todos/list.ts', 'COUNTED_TO'),
      inFile('store/todos/list.ts', 'COUNTED_TO'),
    ],
    'value of the database that can be read': [Math.round(constants.MAX_STRING_LENGTH / MB)],
  },
  'Requests and answers': {
    'JSON values in the body of a request, a batch as a whole': [
      ofVariable('SWITCHBOARD_MAX_BODY_VALUES'),
    ],
    'calls of one endpoint in progress on a node, waits among them; all operators count as one': [
      ofVariable('SWITCHBOARD_MAX_CALLS_PER_ENDPOINT'),
    ],
    'event streams of one endpoint open on a node, feeds among them': [
      ofVariable('SWITCHBOARD_MAX_STREAMS_PER_ENDPOINT'),
    ],
    'feeds open on a node': [MAX_STREAMS],
    'bytes of bodies in progress on a node': [
      bodyRoom('LARGE_SHARE') * 4,
      4,
      SMALL_BYTES / 1024,
      bodyRoom('OWNER_SHARE') * 8,
      8,
      inFile('http/bounds/bounds.ts', 'LEAST_BYTES') / MB,
      bodyRoom('WAIT_MS') / 1000,
    ],
    'bytes of answers that a node has written and nobody has read': [],
    'time that a stream may stay unread': [DRAIN_MS / 1000],
    'time to read an answer': [
      inFile('http/bounds/unread.ts', 'DRAIN_MS') / 1000,
      inFile('http/bounds/unread.ts', 'STEP_BYTES') / MB,
    ],
    'calls that read whole tasks at a time on a node; half for one endpoint': [
      inFile('http/bounds/bounds.ts', 'READ_BYTES') / MB,
      inFile('http/bounds/bounds.ts', 'MOST_READS'),
      inFile('http/bounds/read-slots.ts', 'WAIT_MS') / 1000,
    ],
    [`reads of tasks larger than ${ALONE_BYTES.toLocaleString('en')} bytes at a time on a node, whichever call needs them`]:
      [2, 1, 1, inFile('store/postgres/large-reads.ts', 'WAIT_MS') / 1000],
    'bytes of a body': [LIMIT_BYTES / MB],
    'name of an author': [inFile('domain/sends/author.ts', 'AUTHOR_MAX_LENGTH')],
    'depth of a document': [MAX_DEPTH],
    'parts of a message': [MAX_PARTS],
    'time for a body; of that, without a byte': [
      TIMEOUT_MS / 1000,
      inFile('http/request/body.ts', 'STALL_MS') / 1000,
    ],
    'time for the head of a request': [inFile('http/listener.ts', 'HEADERS_MS') / 1000],
    'requests in a batch (/agent, /operator)': [inFile('rpc/server.ts', 'MAX_BATCH')],
    "bytes of a batch's answers": [inFile('rpc/server.ts', 'MAX_BATCH_BYTES') / MB],
    'readings of /metrics': [ofVariable('SWITCHBOARD_METRICS_CACHE_SECONDS')],
  },
  'Answer schemas': {
    'length of a schema, as JSON': [checksOf('MAX_SCHEMA_LENGTH')],
    'references ($ref, $dynamicRef) in it': [checksOf('MAX_REFS')],
    'its depth': [checksOf('MAX_SCHEMA_DEPTH')],
    'the code that is made of it': [workerOf('MAX_CODE')],
    'time to compile it': [compileMs / 1000, compileMs / 1000, (starved * compileMs) / 1000],
    'time to check one answer': [checkMs / 1000, checkMs / 1000, (starved * checkMs) / 1000],
    'memory of the thread': [memoryMb],
    'faults that a refusal lists': [workerOf('MAX_FAULTS'), 1, workerOf('ALL_FAULTS')],
    'compiled schemas that are kept': [workerOf('MAX_KEPT'), workerOf('MAX_KEPT_CODE')],
    [`rest of an endpoint after a schema that took longer than ${costlyMs} ms`]: [],
    'checks that wait': [perSubject, perOwner, turnWaitMs / 1000, perOwner + 1],
  },
  Webhooks: {
    'configs of one todo': [PUSH_CONFIGS_AT_MOST],
    'URL, token, credentials, scheme of a config': [
      inFile('webhook/guard.ts', 'URL_LENGTH_AT_MOST'),
      ...['MAX_TOKEN', 'MAX_CREDENTIALS', 'MAX_SCHEME'].map((name) =>
        inFile('service/push/violations.ts', name),
      ),
    ],
    'tries under way on a node': [inFile('app/webhooks.ts', 'concurrency')],
    'of them to one host, whatever its ports': [inFile('app/webhooks.ts', 'perHost')],
    'of them for one endpoint, while others want some': [],
    'payloads under way on a node': [
      inFile('background/courier.ts', 'LENGTH_AT_MOST'),
      inFile('service/push/outbox.ts', 'MADE_AT_ONCE'),
    ],
    'payloads kept for further webhooks and tries': [
      kept,
      inFile('service/push/payloads.ts', 'MAX_KEPT_LENGTH'),
    ],
    'time of one try': [PUSH_LIMITS.timeoutMs / 1000],
    "an answer's header, body, informational answers (1xx)": [
      inFile('webhook/post.ts', 'HEADER_BYTES') / 1024,
      inFile('webhook/post.ts', 'ANSWER_BYTES') / 1024,
      inFile('webhook/post.ts', 'INFORMATIONAL'),
    ],
    'time until the next try, Retry-After included': [PUSH_LIMITS.backoff.maxSeconds / 3600],
    'tries of one delivery': [PUSH_LIMITS.maxAttempts],
    'age of a delivery': [PUSH_LIMITS.maxAgeSeconds / 86_400],
    'log of deliveries': (
      /delivered: '(\d+) days', dead: '(\d+) days'/.exec(
        fs.readFileSync('src/store/push/delivery-log.ts', 'utf8'),
      ) ?? []
    )
      .slice(1)
      .map(Number),
    'keys that seal secrets': [inFile('config/secret-keys.ts', 'KEYS_AT_MOST')],
  },
  'Claims and agents': {
    'documents of the todos of one claim': [PAGE_BYTES],
    'results of children in a claim, and in todos.show': [READ_BYTES],
    'todos of one claim': [agentSchema.claim.parse(undefined).limit, MAX_CLAIM],
    'wait of a claim': [agentSchema.MAX_WAIT_MS / 1000],
    'names in the effects of a claim, a send or a child': effectNames,
    'tokens, cents, calls of one budget, and of one spend': [MAX_AMOUNT],
    'what a todo has spent of a kind': [
      Number(/least\((\d+)/.exec(fs.readFileSync('migrations/0019_budgets.ts', 'utf8'))?.[1]),
    ],
    'keys of spends that a todo remembers': [SPEND_KEYS_KEPT, SPEND_KEYS_KEPT],
    'live children of a todo': [inFile('service/tasks/children.ts', 'MAX_LIVE_CHILDREN')],
    'children that one join waits for': [inFile('protocol/json/fields.ts', 'MAX_JOINED')],
    'time of a join': [],
    'limits on the time of a child': [],
    'from an answer to the first call of a holder that was silent during its wait': [
      ANSWER_LEASE.defaultSeconds,
    ],
    'depth of a family': [inFile('service/tasks/children.ts', 'MAX_DEPTH')],
    'metadata of one todos.say, todos.artifact or todos.progress (of the event)': [
      inFile('protocol/agent/schema.ts', 'MAX_EVENT_METADATA'),
    ],
    'the reason of a cancel, as it is told': [inFile('service/tasks/text.ts', 'MAX_EXCERPT')],
    'a blocked event loop for which the kit renews leases': [DEFAULT_MAX_BLOCKED_MS / 60_000],
    'a call of the kit, as JSON': [
      inFile('agent-kit/connection/document.ts', 'MAX_BYTES') / MB,
      inFile('agent-kit/connection/document.ts', 'MAX_DEPTH'),
    ],
    'key of todos.artifact, todos.spend and todos.fork': [200],
    'artifacts that one todos.discardArtifacts drops or names': [
      inFile('store/todos/artifacts.ts', 'MAX_UNFINISHED'),
      inFile('store/todos/artifacts.ts', 'MAX_UNFINISHED'),
    ],
    'text of an error that a todo fails with': [
      inFile('agent-kit/described.ts', 'MAX_TEXT'),
      inFile('agent-kit/described.ts', 'MAX_CODE'),
    ],
    'summary of an attempt': [inFile('service/claims/finish.ts', 'MAX_SUMMARY')],
  },
  'Sends and schedules': {
    'priorities that a client may name': [PRIORITY.normal, PRIORITY.first, PRIORITY.last],
    schedules: [SCHEDULES.standard, 0, SCHEDULES.max],
    'message of a schedule, as JSON': [SCHEDULES.messageBytes],
    "length of a schedule's cron": [SCHEDULES.cronLength],
    'ticks that are caught up': [SCHEDULES.catchUp.standard, 1, SCHEDULES.catchUp.max],
    'tasks that one transaction makes of a schedule': [
      inFile('service/schedules/ticks.ts', 'BATCH'),
    ],
    'how late a tick may be without being missed': [SCHEDULES.missedAfterMs / 1000],
    "how far ahead a send's moment may be": [
      SEND_DELAY.defaultSeconds,
      SEND_DELAY.defaultSeconds / 86_400,
      0,
      SEND_DELAY.maxSeconds,
    ],
  },
  'Rights and log-in': {
    'how long a wait (blocking send, claim, messages, any stream) outlives its right': [
      TTL_MS / 1000,
      // The copy of a right, the interval and a tick come to less than that.
      30,
    ],
    "how long a webhook outlives its endpoint's right to the task": [],
    'failed log-ins to the board from one address, or from the 2^64 of IPv6 that begin alike': [
      login('MAX_FAILURES'),
    ],
    'failed log-ins to the board with one token': [login('MAX_FAILURES')],
    'addresses, and tokens, whose failures are remembered': [login('MAX_REMEMBERED')],
    'origins whose pages may call the APIs from a browser': [],
    'what a page token opens': [],
    'proxies that are believed about an address': [inFile('config.ts', 'MAX_PROXIES')],
    'sessions of the board': [
      inFile('store/admin/board-sessions.ts', 'SESSIONS_KEPT'),
      inFile('service/board/sessions.ts', 'SESSION_SECONDS') / 3600,
    ],
    "event streams of one browser's board, however many tabs": [1],
    'events that a tab of the board leaves unread, as one that sleeps': [
      inFile('http/board/assets/scripts/feed/worker.js', 'UNREAD_AT_MOST'),
    ],
    'a one-time link to the board': [inFile('app.ts', 'BOARD_CODE_SECONDS') / 60],
    "a board token's request body": [
      inFile('http/board/login.ts', 'limitBytes'),
      inFile('http/board/login.ts', 'timeoutMs') / 1000,
    ],
  },
}

const plain = (cell: string): string => cell.replaceAll('`', '').replaceAll('*', '').trim()

/** What a limit is answered with. */
const CODES = new Set([-32_602, -32_600, 401, 403, 408, 413, 429, 503])

const numbersIn = (text: string): number[] =>
  (text.match(/(?<![\w^.])-?\d[\d,]*(?:\.\d+)?(?!\w)/g) ?? [])
    .map((number) => Number(number.replaceAll(',', '')))
    .filter((number) => !CODES.has(number))

const page = fs.readFileSync('docs/limits.md', 'utf8')

const rowsOf = (section: string): Record<string, number[]> => {
  const [, after = ''] = page.split(`\n## ${section}\n`)
  const [text = ''] = after.split('\n## ')
  const lines = text.split('\n').filter((line) => line.startsWith('| '))
  return Object.fromEntries(
    lines.slice(2).map((line) => {
      const [, name, ...cells] = line.split(/ ?\| ?/)
      return [plain(name!), numbersIn(cells.join(' | '))]
    }),
  )
}

test('each section of the page is compared', () => {
  const sections = [...page.matchAll(/^## (.*)$/gm)].map(([, name]) => name!)
  expect(sections).toEqual([...Object.keys(LIMITS), 'Nodes and the database'])
})

test.each(Object.keys(LIMITS))('%s: each number is the one of the code', (section) => {
  expect(rowsOf(section)).toEqual(LIMITS[section])
})

test('a setting or a variable that a row names is there', () => {
  const named = [...page.matchAll(/`(SWITCHBOARD_[A-Z_]+|[a-z]+(?:_[a-z]+)+)`/g)].map(
    ([, name]) => name!,
  )
  const known = new Set([...VARIABLES.map(([name]) => name), ...Object.keys(SETTINGS)])
  const kinds = new Set(['rate_limited', 'too_large', 'too_late', 'too_deep', 'budget_exhausted'])
  expect(named.filter((name) => !known.has(name) && !kinds.has(name))).toEqual([])
  expect(named.length).toBeGreaterThan(10)
})

test('the schema of answers rests as long as is said', () => {
  expect(page).toContain('| twice as long as that took |')
  expect(restFactor).toBe(2)
  expect(inFile('http/bounds/bounds.ts', 'HEAP_SHARE')).toBe(0.1)
})

const held = { id: 'x', fence: '1' }
const child = { queue: 'q', message: { parts: [{ text: 'x' }] } }

test.each<
  [string, { safeParse(value: unknown): { success: boolean } }, (n: number) => object, number]
>([
  ['todos of a claim', agentSchema.claim, (limit) => ({ limit }), 100],
  ['the wait of a claim', agentSchema.claim, (waitMs) => ({ waitMs }), 60_000],
  [
    'the key of an artifact',
    agentSchema.addArtifact,
    (n) => ({ ...held, artifact: { artifactId: 'a', parts: [{ text: 'x' }] }, key: 'k'.repeat(n) }),
    200,
  ],
  [
    'the key of a fork',
    agentSchema.fork,
    (n) => ({ ...held, children: [child], key: 'k'.repeat(n) }),
    200,
  ],
  [
    'artifacts that are named to be dropped',
    agentSchema.discardArtifacts,
    (n) => ({ ...held, artifactIds: Array.from({ length: n }, (_, i) => `${i}`) }),
    1000,
  ],
])('%s: as many as is said, and not one more', (_, schema, of, most) => {
  expect([most, most + 1].map((n) => schema.safeParse(of(n)).success)).toEqual([true, false])
})
