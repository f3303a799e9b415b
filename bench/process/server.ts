/**
 * The server under test, in a process of its own, as `createSwitchboard` makes it. Asked for its
 * CPU time and memory by the cases that measure them.
 */
import type { Switchboard } from '../../src/app.ts'
import type { Caller, EndpointVerb } from '../../src/domain/endpoint.ts'
import type { ClaimedTodo } from '../../src/service/claims/claim.ts'
import { answerParent } from '../child.ts'
import { newMessage, QUEUE } from '../statements.ts'
import { percentile } from '../stats.ts'
import { ADMIN_TOKEN, callerOf, makeApp, vend } from './app.ts'
import { cpu, memory } from './usage.ts'

export interface Started {
  url: string
  /** Of the one agent, for JSON-RPC. */
  agentUrl: string
  adminToken: string
  clientToken: string
  agentToken: string
}

let app: Switchboard | null = null
const callers = new Map<EndpointVerb, Promise<Caller>>()

const caller = (verb: EndpointVerb): Promise<Caller> => {
  const known = callers.get(verb) ?? callerOf(app!, verb)
  callers.set(verb, known)
  return known
}

interface Start {
  databaseUrl: string
  natsUrl?: string | null
}

const start = async ({ databaseUrl, natsUrl = null }: Start) => {
  app = makeApp(databaseUrl, natsUrl)
  const { url } = await app.start()
  await app.services.operator.putQueue({ name: QUEUE })
  const started: Started = {
    url,
    agentUrl: `${url}/a2a/${QUEUE}/`,
    adminToken: ADMIN_TOKEN,
    clientToken: (await vend(app, 'send')).token,
    agentToken: (await vend(app, 'work')).token,
  }
  return started
}

/** Sends one todo; when that call was made, by the machine's clock. */
const sendOne = async (): Promise<bigint> => {
  const { client } = app!.services
  const access = await client.enter(await caller('send'), QUEUE)
  const at = process.hrtime.bigint()
  await client.send({ queue: QUEUE, message: newMessage() }, access)
  return at
}

/** Waits for one todo to claim, and completes it; when it was there. */
const takeOne = async (): Promise<bigint> => {
  const worker = await caller('work')
  const { agent } = app!.services
  const claim = { limit: 1, waitMs: 10_000 }
  const [todo]: ClaimedTodo[] = await agent.claim(claim, worker, new AbortController().signal)
  const at = process.hrtime.bigint()
  if (!todo) throw new Error('nothing came')
  const { id, fence } = todo.view.todo
  await agent.complete({ id, fence }, worker)
  return at
}

/** From the call that sends a task to the start of its work, in one process, with nothing else to do. */
const latency = async ({ rounds }: { rounds: number }) => {
  await Promise.all([caller('send'), caller('work')])
  const times: number[] = []
  for (let round = 0; round < rounds; round += 1) {
    const taken = takeOne()
    // It waits by then.
    await new Promise((resolve) => setTimeout(resolve, 20))
    const sent = await sendOne()
    times.push(Number((await taken) - sent) / 1e6)
  }
  return { p50Ms: percentile(times, 0.5), p99Ms: percentile(times, 0.99) }
}

answerParent({ start, cpu, memory, latency, sendOne, takeOne }, async () => app?.stop())
