/**
 * A client on the official A2A SDK (@a2a-js/sdk): resolves the agent's card, sends a task, follows
 * it, answers the questions, and prints the artifacts. Nothing in it knows switchboard.
 *
 * Run it against a server with the concierge example at work ("switchboard dev" is one); the
 * token is that of an endpoint with the verb "send":
 *   CLIENT_TOKEN=... npx tsx examples/sdk-client.ts
 */
import { randomUUID } from 'node:crypto'
import { type Message, type Part, SendMessageRequest, TaskState } from '@a2a-js/sdk'
import {
  type Client,
  ClientFactory,
  ClientFactoryOptions,
  createAuthenticatingFetchWithRetry,
  DefaultAgentCardResolver,
  JsonRpcTransportFactory,
} from '@a2a-js/sdk/client'

const server = process.env.SWITCHBOARD_URL ?? 'http://127.0.0.1:4100'
const token = process.env.CLIENT_TOKEN ?? ''
/** What we say to whatever the concierge asks. */
const answers = ['tomorrow', 'as many as fit', '2']

const write = (text: string): void => {
  process.stdout.write(`${text}\n`)
}

const textOf = (parts: Part[]): string =>
  parts.map(({ content }) => (content?.$case === 'text' ? content.value : '')).join('\n')

const connect = (): Promise<Client> => {
  const fetchImpl = createAuthenticatingFetchWithRetry(fetch, {
    headers: async () => ({ Authorization: `Bearer ${token}` }),
    shouldRetryWithHeaders: async () => undefined,
  })
  const factory = new ClientFactory(
    ClientFactoryOptions.createFrom(ClientFactoryOptions.default, {
      transports: [new JsonRpcTransportFactory({ fetchImpl })],
      cardResolver: new DefaultAgentCardResolver({ fetchImpl }),
    }),
  )
  // The slash at the end matters: the card is looked for below this address.
  return factory.createFromUrl(`${server}/a2a/concierge/`)
}

interface Turn {
  taskId: string
  state: TaskState
  said: Message | undefined
}

/** Sends one message and follows the task until it asks or ends. */
const turn = async (
  client: Client,
  text: string,
  taskId: string,
  artifacts: Map<string, string>,
): Promise<Turn> => {
  write(`> ${text}`)
  const request = SendMessageRequest.fromJSON({
    message: {
      messageId: randomUUID(),
      role: 'ROLE_USER',
      parts: [{ text }],
      ...(taskId === '' ? {} : { taskId }),
    },
  })
  const now: Turn = { taskId, state: TaskState.TASK_STATE_UNSPECIFIED, said: undefined }
  for await (const { payload } of client.sendMessageStream(request)) {
    if (payload?.$case === 'task') {
      now.taskId = payload.value.id
      now.state = payload.value.status?.state ?? now.state
      now.said = payload.value.status?.message
    } else if (payload?.$case === 'statusUpdate') {
      now.state = payload.value.status?.state ?? now.state
      now.said = payload.value.status?.message
    } else if (payload?.$case === 'artifactUpdate') {
      const { artifact, append } = payload.value
      if (artifact === undefined) continue
      const before = append ? (artifacts.get(artifact.name) ?? '') : ''
      artifacts.set(artifact.name, `${before}${textOf(artifact.parts)}\n`)
    }
    // The stream goes on after a question; our answer opens one of its own.
    if (now.state === TaskState.TASK_STATE_INPUT_REQUIRED) break
  }
  if (now.said !== undefined) write(`< ${textOf(now.said.parts)}`)
  return now
}

const client = await connect()
write(`talking to ${(await client.getAgentCard()).name}`)

const artifacts = new Map<string, string>()
let now = await turn(client, 'A table, please', '', artifacts)
for (const answer of answers) {
  if (now.state !== TaskState.TASK_STATE_INPUT_REQUIRED) break
  now = await turn(client, answer, now.taskId, artifacts)
}
for (const [name, text] of artifacts) write(`\n--- ${name}\n${text.trimEnd()}`)
write(`\n${TaskState[now.state]}`)
process.exitCode = now.state === TaskState.TASK_STATE_COMPLETED ? 0 : 1
