/** The protocol's own JavaScript client, version 1.x, and the words that its users say and read. */
import { randomUUID } from 'node:crypto'
import {
  type AgentCard,
  type Message,
  type Part,
  Role,
  type StreamResponse,
  type Task,
  type TaskState,
  type TaskStatus,
} from '@a2a-js/sdk'
import {
  type Client,
  ClientFactory,
  DefaultAgentCardResolver,
  JsonRpcTransportFactory,
  RestTransportFactory,
} from '@a2a-js/sdk/client'

/** `fetch` as a client with this token. */
export const fetchAs =
  (token: string): typeof fetch =>
  (input, init) => {
    const headers = new Headers(init?.headers)
    headers.set('Authorization', `Bearer ${token}`)
    return fetch(input, { ...init, headers })
  }

/** JSON-RPC, by the card that is found at the URL of a queue. */
export const connectRpc = (token: string, url: string): Promise<Client> =>
  new ClientFactory({
    transports: [new JsonRpcTransportFactory({ fetchImpl: fetchAs(token) })],
    cardResolver: new DefaultAgentCardResolver({ path: '.well-known/agent-card.json' }),
  }).createFromUrl(url)

/** HTTP+JSON, by a card that lists this URL as the interface. */
export const connectRest = (token: string, url: string): Promise<Client> =>
  new ClientFactory({
    transports: [new RestTransportFactory({ fetchImpl: fetchAs(token) })],
  }).createFromAgentCard({
    name: 'desk',
    description: 'the desk',
    version: '1',
    supportedInterfaces: [
      { url, protocolBinding: 'HTTP+JSON', protocolVersion: '1.0', tenant: '' },
    ],
    capabilities: { streaming: true, pushNotifications: false, extensions: [] },
    defaultInputModes: [],
    defaultOutputModes: [],
    skills: [],
    securitySchemes: {},
    securityRequirements: [],
    signatures: [],
    provider: undefined,
  } as AgentCard)

const textPart = (value: string): Part => ({
  content: { $case: 'text', value },
  metadata: undefined,
  filename: '',
  mediaType: '',
})

export const message = (text: string, more: Partial<Message> = {}): Message => ({
  messageId: randomUUID(),
  contextId: '',
  taskId: '',
  role: Role.ROLE_USER,
  parts: [textPart(text)],
  metadata: undefined,
  extensions: [],
  referenceTaskIds: [],
  ...more,
})

type Request = Parameters<Client['sendMessage']>[0]
type Push = NonNullable<Request['configuration']>['taskPushNotificationConfig']

export const request = (
  text: string,
  more: Partial<Message> = {},
  returnImmediately = false,
  taskPushNotificationConfig: Push = undefined,
): Request => ({
  tenant: '',
  message: message(text, more),
  configuration: { acceptedOutputModes: [], taskPushNotificationConfig, returnImmediately },
  metadata: undefined,
})

export const taskOf = (
  result: Awaited<ReturnType<Client['sendMessage']>>,
): Task & { status: TaskStatus } => {
  if (!('status' in result) || !result.status) throw new Error(JSON.stringify(result))
  return { ...result, status: result.status }
}

export const textOf = (said: Message | undefined): string | undefined => {
  const content = said?.parts[0]?.content
  return content?.$case === 'text' ? content.value : undefined
}

export const stateIn = ({ payload }: StreamResponse): TaskState | undefined =>
  payload?.$case === 'task' || payload?.$case === 'statusUpdate'
    ? payload.value.status?.state
    : undefined
