/**
 * An agent for A2A's conformance kits: the prefix of the id of the message that woke it decides
 * what it does. Both official kits steer their tests that way, the one for 1.0 by ids that begin
 * with "tck-", the one for 0.3 by any others; docs/conformance.md says how to run them.
 *
 * It waits for nobody: it parks its questions, so that the many tasks that a kit leaves open do not
 * fill its slots. An answered task comes back as a new claim, with the answer unread.
 *
 * Run it (the token is that of an endpoint with the verb "work"):
 *   SWITCHBOARD_TOKEN=... npx tsx examples/conformance-agent.ts
 */
import { setTimeout as pause } from 'node:timers/promises'
import { type Context, createAgent, NonRetryable, type Outcome, type Part } from '../src/index.ts'

type Behavior = (ctx: Context) => Promise<Outcome> | Outcome

const TEXT_FILE = { filename: 'output.txt', mediaType: 'text/plain' }
const FILE: Part = { raw: Buffer.from('Generated file content\n').toString('base64'), ...TEXT_FILE }
const FILE_URL: Part = { url: 'https://example.com/output.txt', ...TEXT_FILE }
const DATA: Part = { data: { key: 'value', count: 42 } }

const complete: Behavior = () => 'Hello from TCK'

const completeWith =
  (part: Part): Behavior =>
  () => ({ artifacts: [{ name: 'output', parts: [part] }] })

/** Sends one artifact after the other, each chunk by chunk, before it completes. */
const stream =
  (...artifacts: Part[][]): Behavior =>
  async (ctx) => {
    for (const [index, chunks] of artifacts.entries()) {
      const artifactId = `output-${index + 1}`
      for (const [chunk, part] of chunks.entries()) {
        await ctx.artifact({
          artifactId,
          parts: [part],
          append: chunk > 0,
          lastChunk: chunk === chunks.length - 1,
        })
      }
    }
  }

const completeAfter =
  (ms: number): Behavior =>
  async (ctx) => {
    await pause(ms, undefined, { signal: ctx.signal })
    return 'Done at last'
  }

const ask =
  (question: string, state: 'input-required' | 'auth-required' = 'input-required'): Behavior =>
  (ctx) =>
    ctx.park(question, { state })

/** Works until the task is canceled or this process stops. */
const workOn: Behavior = async ({ signal }) => {
  if (!signal.aborted) {
    await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }))
  }
  throw signal.reason
}

const fail: Behavior = () => {
  throw new NonRetryable('This task fails on purpose', { code: 'on_purpose' })
}

/** The longest prefix that fits decides. The kits look at the parts, not at the texts. */
const BEHAVIORS: Readonly<Record<string, Behavior>> = {
  'tck-': complete,
  'tck-complete-task': complete,
  'tck-delayed-complete': completeAfter(1000),
  'tck-message-response': () => ({ message: 'Direct message response', direct: true }),
  'tck-input-required': ask('What else should I know?'),
  'tck-auth-required': ask('Please grant me access.', 'auth-required'),
  'tck-reject-task': (ctx) => ctx.reject('rejected'),
  'tck-fail-task': fail,
  'tck-work-until-canceled': workOn,
  'tck-artifact-text': completeWith({ text: 'Generated text content' }),
  'tck-artifact-file': completeWith(FILE),
  'tck-artifact-file-url': completeWith(FILE_URL),
  'tck-artifact-data': completeWith(DATA),
  'tck-stream-001': stream([{ text: 'Stream hello from TCK' }]),
  'tck-stream-003': stream([{ text: 'Stream task lifecycle' }]),
  'tck-stream-ordering-001': stream([{ text: 'Ordered output' }]),
  'tck-stream-artifact-text': stream([{ text: 'Streamed text content' }]),
  'tck-stream-artifact-file': stream([FILE]),
  'tck-stream-artifact-chunked': stream([{ text: 'chunk-1 ' }, { text: 'chunk-2' }]),
  'tck-stream-artifact-several': stream(
    [{ text: 'first, ' }, { text: 'and the rest of it' }],
    [FILE],
    [DATA],
  ),
  // The kit for 0.3 disconnects for two seconds twice, and expects the task to be still at work.
  'test-resubscribe-message-id': completeAfter(6000),
}

/** For any other id, such as those of the kit for 0.3, whose tasks must stay open. */
const stayOpen = ask('Is there anything else?')

const behaviorFor = (messageId: string): Behavior => {
  const fitting = Object.keys(BEHAVIORS).filter((prefix) => messageId.startsWith(prefix))
  const longest = fitting.toSorted((a, b) => b.length - a.length)[0]
  return (longest !== undefined && BEHAVIORS[longest]) || stayOpen
}

/** A new task's message, or the newest one that this claim has to answer. */
const wokenBy = ({ todo }: Context): string =>
  (todo.unread.at(-1)?.message ?? todo.message).messageId

const agent = createAgent(
  {
    url: process.env.SWITCHBOARD_URL ?? 'http://127.0.0.1:4100',
    token: process.env.SWITCHBOARD_TOKEN ?? '',
    concurrency: 32,
  },
  (ctx) => behaviorFor(wokenBy(ctx))(ctx),
)

agent.start()
process.stdout.write('conformance agent is ready\n')

for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, () => {
    void agent.stop({ graceMs: 1000 }).then(() => process.exit())
  })
}
