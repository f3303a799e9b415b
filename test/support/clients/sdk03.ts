/** The protocol's own JavaScript client of the 0.3 generation, and the words of its users. */
import { randomUUID } from 'node:crypto'
import type { AgentCard, Message, Part, Task } from 'a2a-sdk-0.3'
import {
  type Client,
  ClientFactory,
  ClientFactoryOptions,
  JsonRpcTransportFactory,
} from 'a2a-sdk-0.3/client'
import { fetchAs } from './sdk.ts'

/** A card of 0.3 for the queue at this URL. */
export const card03 = (url: string): AgentCard => ({
  protocolVersion: '0.3.0',
  name: 'Desk',
  description: 'A desk.',
  version: '1',
  url,
  preferredTransport: 'JSONRPC',
  capabilities: { streaming: true, pushNotifications: true },
  defaultInputModes: ['text/plain'],
  defaultOutputModes: ['text/plain'],
  skills: [],
})

export const transport03 = (token: string): JsonRpcTransportFactory =>
  new JsonRpcTransportFactory({ fetchImpl: fetchAs(token) })

/** JSON-RPC. */
export const connect03 = (token: string, card: AgentCard): Promise<Client> =>
  new ClientFactory(
    ClientFactoryOptions.createFrom(ClientFactoryOptions.default, {
      transports: [transport03(token)],
    }),
  ).createFromAgentCard(card)

export const message = (text: string, more: Partial<Message> = {}): Message => ({
  kind: 'message',
  messageId: randomUUID(),
  role: 'user',
  parts: [{ kind: 'text', text }],
  ...more,
})

export const taskOf = (result: Message | Task): Task => {
  if (result.kind !== 'task') throw new Error(JSON.stringify(result))
  return result
}

export const textOf = (said: Message | undefined): string | undefined => {
  const part: Part | undefined = said?.parts[0]
  return part?.kind === 'text' ? part.text : undefined
}
