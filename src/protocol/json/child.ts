/** Children to be made, and to be waited for, as agents and operators name them. */
import { z } from 'zod'
import { effects } from '../a2a/send-options.ts'
import { messageFrom, seconds } from './fields.ts'
import { name } from './parts.ts'

/** At most so many children at once; there may be more over time. */
const CHILDREN = 100

const child = z.strictObject({
  queue: name,
  message: messageFrom('ROLE_USER'),
  effects: effects.exactOptional(),
  deadlineSeconds: seconds().exactOptional(),
  maxAttempts: z.int().min(1).max(100).exactOptional(),
})

export const children = z.array(child).min(1).max(CHILDREN)
export const childIds = z.array(name).min(1).max(1000)
export const until = z.enum(['all', 'any', 'each'])
