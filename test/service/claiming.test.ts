// Claims that come together are one statement, of one of few sizes: nobody is left over.
import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { startApp } from '../support/app.ts'

const app = await startApp({ pollMs: 60_000 })
const { client, agent } = await app.queue('desk', { contexts: 'parallel' })
const access = await app.services.client.enter(client.caller, 'desk')
const { services } = app

const send = (): Promise<unknown> =>
  services.client.send(
    {
      queue: 'desk',
      message: { messageId: randomUUID(), role: 'ROLE_USER', parts: [{ text: 'x' }] },
    },
    access,
  )

test.each([
  { claims: 6, limit: 1 },
  { claims: 16, limit: 1 },
  { claims: 19, limit: 1 },
  { claims: 40, limit: 3 },
])('$claims claims of $limit at one moment share out what there is', async ({ claims, limit }) => {
  await Promise.all(Array.from({ length: claims * limit }, send))
  const never = new AbortController().signal
  const claim = () => services.agent.claim({ limit, waitMs: 0 }, agent.caller, never)
  const taken = await Promise.all(Array.from({ length: claims }, claim))
  const ids = taken.flatMap((todos) => todos.map(({ view }) => view.todo.id))
  expect(new Set(ids).size).toBe(ids.length)
  // One at the end of a statement may bring fewer than it asked for, and none comes back with nothing.
  expect(taken.every((todos) => todos.length > 0)).toBe(true)
  if (limit === 1) expect(ids).toHaveLength(claims)
})
