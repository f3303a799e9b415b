/** A board with something of everything on it, made the way real work makes it. */

import type { App } from '../support/app.ts'
import { a2aClient, agentClient } from '../support/clients/actors.ts'
import { ask, operate, saying } from '../support/steps.ts'

/** One pixel. */
const PNG =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='

const APPROVAL = {
  type: 'object',
  properties: { approve: { type: 'boolean', title: 'Approve EUR 4,180.00?' } },
  required: ['approve'],
}

const TABLE = {
  type: 'object',
  properties: {
    day: { title: 'Day', enum: ['Thursday the 10th', 'Friday the 11th'] },
    seats: { title: 'Seats', type: 'integer', minimum: 1, description: 'How many come' },
    wish: { title: 'Wishes', type: 'string' },
  },
  required: ['day', 'seats'],
}

export const makeBusy = async (app: App) => {
  const line = async (name: string, policy: Record<string, unknown>) => {
    const { agent } = await app.queue(name, policy)
    return { agent, client: await app.vend(['send'], [name], { name: `${name}-bot` }) }
  }
  const lines = {
    legal: await line('legal', {}),
    office: await line('office', { contexts: 'parallel' }),
    support: await line('support', { contexts: 'parallel' }),
    ops: await line('ops', { contexts: 'parallel', maxAttempts: 5 }),
  }
  type Queue = keyof typeof lines
  const send = (queue: Queue, text: string, more = {}) =>
    a2aClient(app.url, queue, lines[queue].client.token).submit(text, more)
  const agent = (queue: Queue) => agentClient(app.url, lines[queue].agent.token)
  const work = async (queue: Queue, text: string, claimant = 'box-1') => {
    await send(queue, text)
    return agent(queue).claim({ claimant })
  }
  const done = async (queue: Queue, text: string, more = {}) => {
    const { held } = await work(queue, text)
    await agent(queue).call('todos.complete', { ...held, ...more })
  }

  for (let i = 0; i < 12; i += 1) await done('support', `Summarise ticket ${8820 + i}`)
  await done('office', 'Weekly digest', {
    message: saying('Here it is.'),
    artifacts: [
      { artifactId: 'digest', name: 'Digest', parts: [{ text: 'Three meetings.\nNo fires.' }] },
      {
        artifactId: 'numbers',
        name: 'Numbers',
        parts: [
          { data: { meetings: 3, fires: 0, people: ['Ada', 'Grace'] } },
          { raw: PNG, mediaType: 'image/png', filename: 'chart.png' },
          { raw: 'PHN2Zz4=', mediaType: 'image/svg+xml', filename: 'drawing.svg' },
        ],
      },
    ],
  })

  const dead = await work('legal', 'Fetch the tender documents')
  await agent('legal').call('todos.fail', {
    ...dead.held,
    error: { code: 'gone', message: 'the portal was switched off' },
    retryable: false,
  })
  const rejected = await work('office', 'Order a yacht')
  await agent('office').call('todos.reject', { ...rejected.held, message: saying('No budget.') })
  const canceled = await send('office', 'Print all mails')
  await operate(app, 'todos.cancel', { id: canceled.id })

  const retrying = await work('ops', 'Rebuild the index')
  await agent('ops').call('todos.fail', {
    ...retrying.held,
    error: { code: 'reset', message: 'connection reset by peer' },
    retryInSeconds: 90,
  })

  const contract = await work('legal', 'Translate the contract', 'box-3')
  await agent('legal').call('todos.progress', {
    ...contract.held,
    note: 'page 14 of 22',
    percent: 63,
  })
  await send('legal', 'Draft the Q4 supplier letter', { contextId: contract.contextId })
  const quotes = await work('office', 'Compare three insurers', 'box-1')
  await agent('office').call('todos.progress', { ...quotes.held, note: 'calling tool: quotes' })
  await app.sql(`update todos set progress_at = now() - interval '320 seconds' where id = $1`, [
    quotes.id,
  ])

  const dinner = await work('office', 'Book a table for the board dinner', 'box-2')
  await ask(agent('office'), dinner, 'Thursday the 10th or Friday the 11th?')
  const invoice = await work('ops', 'Pay invoice 2291', 'box-2')
  await ask(agent('ops'), invoice, 'Approve EUR 4,180.00 to Nordlicht GmbH?', {
    schema: APPROVAL,
    hold: false,
  })
  await app.sql(
    `update todos set interrupted_at = now() - interval '23 hours 19 minutes' where id = $1`,
    [invoice.id],
  )
  const table = await work('office', 'Reserve the large room', 'box-4')
  await ask(agent('office'), table, 'Which day, and for how many?', { schema: TABLE })

  for (let i = 0; i < 4; i += 1) await send('support', `Summarise ticket ${8841 + i}`)
  return { lines, dinner, invoice, table, contract, dead, send, agent, work }
}
