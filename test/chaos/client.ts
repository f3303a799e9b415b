/**
 * A client that keeps talking whatever is killed under it: several conversations at a time, each of
 * a few tasks. It repeats what may be repeated, looks for what may not, follows each task to its
 * end, answers, cancels, and writes down what it was told and what it read.
 */

import type { Told } from '../support/checker.ts'
import { type Answer, textMessage } from '../support/clients/actors.ts'
import { randomOf } from '../support/seeded.ts'
import { DIALECTS, type Dialect, receiptOf, type Sending } from './dialect.ts'
import { createFollow, type Opened } from './follow.ts'
import { drawOrder, isRepeatable, type Order, type Record_ } from './order.ts'
import { isLost, isStream, openReach, type Reach } from './reach.ts'
import type { Violations } from './violations.ts'
import type { QUEUES } from './work.ts'

export interface ClientOptions {
  number: number
  seed: number
  version: Dialect['version']
  url: string
  token: string
  hooks: string
  violations: Violations
  over: AbortSignal
}

export interface Client {
  records: Record_[]
  told: Told[]
  resumed(): number
  /** Begins tasks until the signal fires; resolves once each it has begun is over for it. */
  run(enough: AbortSignal): Promise<void>
  /** Looks again for what was sent into a void, now that all is calm. */
  findLost(): Promise<void>
}

const LANES = 5

export const createClient = (options: ClientOptions): Client => {
  const { number, seed, version, url, token, hooks, violations, over } = options
  const dialect = DIALECTS[version]
  const records: Record_[] = []
  const told: Told[] = []
  const reachOf = (queue: string): Reach =>
    openReach({ endpoint: `${url}/a2a/${queue}/`, version, token, violations, over })
  const reaches: Record<keyof typeof QUEUES, Reach> = {
    desk: reachOf('desk'),
    bulk: reachOf('bulk'),
    kids: reachOf('kids'),
  }
  let sent = 0
  let runs = 0

  const sendingOf = ({ messageId, contextId, work, how, hook }: Order): Sending => ({
    messageId,
    contextId,
    text: work,
    waits: how === 'blocking',
    ...(hook !== undefined && { hook: { id: messageId, url: `${hooks}${hook}` } }),
  })

  /** By its message, among the tasks of its conversation. */
  const find = async ({ queue, contextId, messageId }: Order): Promise<Answer | null> => {
    const params = { contextId, pageSize: 100 }
    const { result } = await reaches[queue].persistently('ListTasks', params)
    const has = ({ history }: Answer): boolean =>
      history.some((message: Answer) => message.messageId === messageId)
    return result.tasks.find(has) ?? null
  }

  const once = async (order: Order): Promise<Opened | 'lost'> => {
    const { queue, key, how } = order
    const reach = reaches[queue]
    const params = dialect.params(sendingOf(order))
    const wish = { key }
    if (how !== 'stream') {
      const answer = await reach.call(dialect.methods.send, params, wish)
      if (isLost(answer)) return 'lost'
      if (answer.result) return { id: dialect.task(answer.result).id, first: null, stream: null }
      throw new Error(`${order.messageId} was refused: ${JSON.stringify(answer.error)}`)
    }
    const stream = await reach.stream(dialect.methods.stream, params, wish)
    if (isLost(stream)) return 'lost'
    if (!isStream(stream)) throw new Error(`${order.messageId}: ${JSON.stringify(stream)}`)
    const first = await stream.next()
    if (!first?.json.result) return 'lost'
    return { id: dialect.task(first.json.result).id, first, stream }
  }

  /** Null where nobody can say whether there is a task. */
  const begin = async (order: Order): Promise<Opened | null> => {
    for (let tries = 1; ; tries += 1) {
      const opened = await once(order)
      if (opened !== 'lost') return opened
      await reaches[order.queue].pause(50 * Math.min(tries, 10))
      if (isRepeatable(order)) continue
      const task = await find(order)
      if (task) return { id: task.id, first: null, stream: null }
      if (tries >= 5) return null
      // Never sent again: the first one may still be on its way.
      for (let look = 0; look < 5; look += 1) {
        await reaches[order.queue].pause(200)
        const found = await find(order)
        if (found) return { id: found.id, first: null, stream: null }
      }
      return null
    }
  }

  /** A message to a task may be repeated: it is the same one. */
  const tell = async (queue: Order['queue'], id: string, text: string): Promise<void> => {
    const { messageId } = textMessage(text)
    const params = dialect.params({ messageId, text, taskId: id, waits: false })
    const answer = await reaches[queue].persistently(dialect.methods.send, params)
    if (answer.error && answer.error.code !== dialect.ended) {
      violations.add('message refused', `${id}: ${JSON.stringify(answer.error)}`)
      return
    }
    const receipt = answer.error ? 'finished' : receiptOf(dialect.task(answer.result))
    told.push({ id, messageId, told: receipt ?? 'no receipt' })
  }

  const cancel = async ({ order, id }: Record_): Promise<Record_['cancel']> => {
    const reach = reaches[order.queue]
    await reach.pause(order.cancelAfterMs)
    const { result, error } = await reach.persistently(dialect.methods.cancel, { id })
    if (result) {
      const state = dialect.state(result)
      if (state !== 'CANCELED') violations.add('canceled, but not', `${id} is ${state}`)
      return 'canceled'
    }
    if (error.code !== -32002) violations.add('cancel refused', `${id}: ${JSON.stringify(error)}`)
    return 'refused'
  }

  const follow = createFollow({ dialect, reaches, tell })

  /** Everything that becomes of a task that is there. */
  const accompany = async (record: Record_, opened: Opened): Promise<void> => {
    const { order } = record
    record.id = opened.id
    const canceling = order.cancelAfterMs === undefined ? null : cancel(record)
    const talking = order.unasked ? tell(order.queue, opened.id, 'by the way') : null
    const following = follow.task(order, opened)
    record.cancel = await canceling
    await talking
    record.frames = await following
    const { result } = await reaches[order.queue].persistently(dialect.methods.get, {
      id: opened.id,
    })
    record.final = result
  }

  const twinOf = async (order: Order): Promise<string | null> => {
    const opened = await begin({ ...order, how: 'at once' })
    return opened?.id ?? null
  }

  const doOne = async (lane: string, random: () => number, following: Promise<void>[]) => {
    const order = drawOrder(random, { client: number, number: sent++, lane }, version)
    const record: Record_ = {
      order,
      client: number,
      version,
      id: null,
      frames: null,
      final: null,
      cancel: null,
      twinId: null,
    }
    records.push(record)
    const twin = order.twin ? twinOf(order) : null
    const opened = await begin(order)
    record.twinId = await twin
    if (opened) following.push(accompany(record, opened))
  }

  const lane = async (n: number, enough: AbortSignal): Promise<void> => {
    const random = randomOf(seed * 61 + runs * 101 + number * 7 + n)
    const name = `context-${number}-${runs}-${n}`
    for (let conversation = 0; !enough.aborted; conversation += 1) {
      const following: Promise<void>[] = []
      const tasks = 1 + Math.floor(random() * 3)
      for (let n = 0; n < tasks && !enough.aborted; n += 1) {
        await doOne(`${name}-${conversation}`, random, following)
      }
      await Promise.all(following)
    }
  }

  return {
    records,
    told,
    resumed: follow.resumed,
    run: async (enough) => {
      runs += 1
      const lanes = Array.from({ length: LANES }, (_, n) => lane(n, enough))
      await Promise.all(lanes)
    },
    findLost: async () => {
      for (const record of records.filter(({ id }) => id === null)) {
        const task = await find(record.order)
        if (task) await accompany(record, { id: task.id, first: null, stream: null })
      }
    },
  }
}
