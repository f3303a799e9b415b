/** What a sender may say of when and in which order its task is done, and how far that goes. */
import type { Endpoint } from '../endpoint.ts'
import { Refusal } from '../errors.ts'
import type { QueuePolicy } from '../policy.ts'

/** 0 comes first, 2 last. */
export const PRIORITY = { first: 0, normal: 1, last: 2 } as const

/** How far in the future a send may name its moment. */
export const SEND_DELAY = {
  setting: 'send_max_delay_seconds',
  /** Thirty days. */
  defaultSeconds: 2_592_000,
  /** Ten years. */
  maxSeconds: 315_360_000,
} as const

/** The setting in seconds; null for a text that is not one. Zero forbids any delay. */
const readMaxDelay = (value: string): number | null => {
  const seconds = /^\d{1,9}$/.test(value) ? Number(value) : Number.NaN
  return seconds <= SEND_DELAY.maxSeconds ? seconds : null
}

export const isMaxDelay = (value: string): boolean => readMaxDelay(value) !== null

/** An absent or unfit value keeps the default. */
export const maxDelaySeconds = (value: string | undefined): number =>
  (value === undefined ? null : readMaxDelay(value)) ?? SEND_DELAY.defaultSeconds

/** When a task may begin at the earliest: a moment, or so long from now. */
export interface Start {
  notBefore?: Date | undefined
  delaySeconds?: number | undefined
}

export const hasStart = ({ notBefore, delaySeconds }: Start): boolean =>
  notBefore !== undefined || delaySeconds !== undefined

/** Refuses: limit; `now` is the database's. */
export const checkStart = (
  { notBefore, delaySeconds = 0 }: Start,
  now: Date,
  max: number,
): void => {
  const seconds = notBefore ? (notBefore.getTime() - now.getTime()) / 1000 : delaySeconds
  if (seconds <= max) return
  throw new Refusal(
    'limit',
    { limit: max },
    `A send may name a moment ${max} seconds ahead at most (setting ${SEND_DELAY.setting})`,
  )
}

/** Which priorities a client may name: by its endpoint, else by the queue; else the normal one alone. */
const allowedPriorities = (
  { highestPriority, lowestPriority }: Endpoint,
  policy: QueuePolicy,
): { first: number; last: number } => ({
  first: highestPriority ?? policy.highestPriority ?? PRIORITY.normal,
  last: lowestPriority ?? policy.lowestPriority ?? PRIORITY.normal,
})

/** Refuses: forbidden, naming what may be had. */
export const checkPriority = (priority: number, client: Endpoint, policy: QueuePolicy): void => {
  const { first, last } = allowedPriorities(client, policy)
  if (priority >= first && priority <= last) return
  const may = first === last ? `only priority ${first}` : `priorities ${first} to ${last}`
  throw new Refusal(
    'forbidden',
    { refused: [`priority ${priority}`] },
    `This token may send with ${may} here`,
  )
}
