/**
 * The webhooks' receiver, which has its moods, and what must be true of what it was told: each task
 * with a webhook owes it exactly what a stream would show, all of it is delivered or given up, and
 * what comes first comes in order.
 */

import { type Log, shownAfter } from '../support/checker.ts'
import type { Answer } from '../support/clients/actors.ts'
import { openReceiver, type Receiver, type Reply, type Told } from '../support/network/receiver.ts'
import { randomOf } from '../support/seeded.ts'
import { shownV1 } from './dialect.ts'
import type { Record_ } from './order.ts'
import type { Violations } from './violations.ts'

export interface Hooks extends Receiver {
  /** What each request was answered with. */
  replies: Map<Told, Reply>
  /** While it is calm it takes everything. */
  calm(on: boolean): void
}

const moodOf = (chance: number): Reply => {
  if (chance < 0.06) return 500
  if (chance < 0.1) return { status: 503, headers: { 'Retry-After': '1' } }
  if (chance < 0.16) return 'drop'
  if (chance < 0.18) return 410
  if (chance < 0.2) return 'hang'
  return 200
}

export const openHooks = async (seed: number): Promise<Hooks> => {
  const random = randomOf(seed * 71)
  const replies = new Map<Told, Reply>()
  let calm = false
  const receiver = await openReceiver((told) => {
    const reply = calm ? 200 : moodOf(random())
    replies.set(told, reply)
    return reply
  })
  return {
    ...receiver,
    replies,
    calm: (on) => {
      calm = on
    },
  }
}

/** Rows of the two tables, beside the log. */
export interface Owed {
  configs: Answer[]
  deliveries: Answer[]
}

const idOf = ({ headers }: Told): string => String(headers['webhook-id'])

/** What a body says of the event it tells, in the words of the log. */
const saysSame = (version: Record_['version'], body: Answer, event: Answer): boolean => {
  if (version === '0.3') {
    // The whole task as the event left it.
    const { artifacts = [], status } = body
    return event.chunk
      ? artifacts.some(({ artifactId }: Answer) => artifactId === event.chunk[0])
      : status.state.replaceAll('-', '_').toUpperCase() === event.state
  }
  const shown = shownV1(event.seq, body)
  if (shown.kind === 'chunk') return shown.chunk[2] === event.chunk?.[2][0].text
  return shown.kind === 'status' && shown.state === event.state && shown.said === event.said
}

export const judgeHooks = (
  log: Log,
  { configs, deliveries }: Owed,
  records: readonly Record_[],
  hooks: Hooks,
  violations: Violations,
): void => {
  const known = new Set(deliveries.map(({ id }) => id))
  for (const told of hooks.told) {
    if (!known.has(idOf(told))) violations.add('a webhook of nobody', `${told.path} ${idOf(told)}`)
  }
  for (const { order, id, version } of records) {
    if (id === null || order.hook === undefined) continue
    const what = `${id} ${order.hook}`
    const config = configs.filter(({ todo_id }) => todo_id === id)
    if (config.length !== 1) violations.add('not one webhook', `${what}: ${config.length}`)
    const own = deliveries.filter(({ todo_id }) => todo_id === id).sort((a, b) => a.seq - b.seq)
    const events = shownAfter(log, id, 1)
    const owes = events.map(({ seq }) => seq)
    const has = own.map(({ seq }) => seq)
    if (String(owes) !== String(has))
      violations.add('not what is owed', `${what}: ${has}, not ${owes}`)
    const tries = hooks.at(order.hook)
    judgeOrder(own, tries, what, violations)
    for (const [n, delivery] of own.entries()) {
      const mine = tries.filter((told) => idOf(told) === delivery.id)
      judgeDelivery(delivery, mine, hooks, `${what} ${delivery.seq}`, violations)
      if (mine[0] && events[n] && !saysSame(version, mine[0].json, events[n])) {
        const said = `${mine[0].text}, not ${JSON.stringify(events[n])}`
        violations.add('a webhook was told otherwise', `${what}: ${said}`)
      }
    }
  }
}

/** As often as it was tried, the first time of each comes after that of the one before. */
const judgeOrder = (own: Answer[], tries: Told[], what: string, violations: Violations): void => {
  const first = [...new Set(tries.map(idOf))]
  const due = own.map(({ id }) => id).filter((id) => first.includes(id))
  if (String(first) !== String(due)) violations.add('webhooks out of order', what)
}

const isTaken = (reply: Reply | undefined): boolean => reply === 200

const judgeDelivery = (
  { state, attempts }: Answer,
  tries: Told[],
  { replies }: Hooks,
  what: string,
  violations: Violations,
): void => {
  const answered = tries.map((told) => replies.get(told))
  const wrong = (why: string): void => violations.add(why, `${what}: ${state}, ${answered}`)
  if (state === 'pending') wrong('a delivery is still owed')
  if (state === 'delivered' && !answered.some(isTaken)) wrong('delivered to nobody')
  if (state === 'dead' && !answered.includes(410)) wrong('given up for nothing')
  if (attempts > tries.length) wrong('more tries than requests')
  if (new Set(tries.map(({ text }) => text)).size > 1) wrong('another story at each try')
}
