// The card resolvers of both generations of the official SDK, on the card that says all.
import {
  ClientFactory as V1ClientFactory,
  DefaultAgentCardResolver as V1DefaultResolver,
  JsonRpcTransportFactory as V1JsonRpc,
  AgentCardResolver as V1Resolver,
} from '@a2a-js/sdk/client'
import {
  ClientFactory as V03ClientFactory,
  JsonRpcTransportFactory as V03JsonRpc,
  DefaultAgentCardResolver as V03Resolver,
} from 'a2a-sdk-0.3/client'
import { expect, test } from 'vitest'
import { SERVED_INTERFACES } from '../../src/protocol/a2a/interfaces.ts'
import { startApp } from '../support/app.ts'
import { agentClient, post, textMessage } from '../support/clients/actors.ts'
import { fetchAs } from '../support/clients/sdk.ts'
import { message as message03 } from '../support/clients/sdk03.ts'
import { saying, UNKNOWN_ID } from '../support/steps.ts'

const app = await startApp()
const { client, agent } = await app.queue('desk', { contexts: 'parallel' })
const worker = agentClient(app.url, agent.token)
const origin = `${app.url}/`
const card = '.well-known/agent-card.json'

const authorized = fetchAs(client.token)
/** As a client behind a cache that knows no versions, or an older one, would ask. */
const versionless: typeof fetch = (input, init) => {
  const headers = new Headers(init?.headers)
  headers.delete('A2A-Version')
  return fetch(input, { ...init, headers })
}

test('the 1.x client reads the hybrid card as it reads its own, chooses 1.0 and talks', async () => {
  const options = { path: card, fetchImpl: versionless }
  for (const cardResolver of [
    new V1DefaultResolver(options),
    new V1DefaultResolver({ ...options, legacyCompat: { enabled: true } }),
    V1Resolver.default,
  ]) {
    const sdk = await new V1ClientFactory({
      transports: [new V1JsonRpc({ fetchImpl: authorized })],
      cardResolver,
    }).createFromUrl(origin)
    expect(sdk.protocolVersion).toBe('1.0')
    await expect(sdk.getTask({ tenant: '', id: UNKNOWN_ID })).rejects.toThrow('Task not found')
  }
})

test('the 0.3 client reads the hybrid card as it stands, and the pure one alike', async () => {
  const resolver = new V03Resolver({ path: card })
  const hybrid = await resolver.resolve(origin)
  const pure = await new V03Resolver({
    path: card,
    fetchImpl: (input, init) => fetch(input, { ...init, headers: { 'A2A-Version': '0.3' } }),
  }).resolve(origin)
  expect(hybrid).toMatchObject(pure)
  expect(hybrid).toMatchObject({
    url: `${app.url}/a2a/desk/`,
    protocolVersion: '0.3.0',
    securitySchemes: { bearer: { type: 'http', scheme: 'bearer' } },
    security: [{ bearer: [] }],
  })
})

test('the 0.3 client finds its way from the hybrid card, and talks', async () => {
  const sdk = await new V03ClientFactory({
    transports: [new V03JsonRpc({ fetchImpl: authorized })],
    cardResolver: new V03Resolver({ path: card }),
  }).createFromUrl(origin)
  const sent = sdk.sendMessage({ message: message03('hello') })
  const finish = async () => {
    const todo = await worker.claim()
    await worker.call('todos.complete', { ...todo.held, message: saying('bye') })
    return todo.id
  }
  const [task, id] = await Promise.all([sent, finish()])
  expect(task).toMatchObject({ kind: 'task', id, status: { state: 'completed' } })
})

test.each(SERVED_INTERFACES)('what a card declares is served: %j', async ({ version, binding }) => {
  const response = await fetch(`${app.url}/${card}`, { headers: { 'A2A-Version': '1.0' } })
  const { supportedInterfaces } = (await response.json()) as {
    supportedInterfaces: { url: string; protocolBinding: string; protocolVersion: string }[]
  }
  const { url } = supportedInterfaces.find(
    (one) => one.protocolBinding === binding && one.protocolVersion === version,
  )!
  const options = { token: client.token, headers: { 'A2A-Version': version } }
  if (binding === 'JSONRPC') {
    const method = version === '1.0' ? 'GetTask' : 'tasks/get'
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params: { id: UNKNOWN_ID } })
    expect((await post(url, body, options)).body.error.code).toBe(-32001)
    return
  }
  const path = `${version === '1.0' ? '' : '/v1'}/message:send`
  const message = { ...textMessage('x'), taskId: UNKNOWN_ID }
  const old = { messageId: 'm', role: 'ROLE_USER', content: message.parts, taskId: UNKNOWN_ID }
  const body = JSON.stringify({ message: version === '1.0' ? message : old })
  expect((await post(`${url}${path}`, body, options)).status).toBe(404)
  expect((await post(`${url}${path}`, '{}', options)).status).toBe(400)
})
