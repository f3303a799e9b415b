/**
 * Enums as ProtoJSON reads them: by their name or by their number in the proto. Answers always use
 * the name. Wherever we read the JSON of the proto, whichever version it is of, enums are read here.
 */
import type { State } from '../../domain/lifecycle.ts'

/** A list's index is the number; both versions of the proto number these alike. */
export const TASK_STATES = [
  'TASK_STATE_UNSPECIFIED',
  'TASK_STATE_SUBMITTED',
  'TASK_STATE_WORKING',
  'TASK_STATE_COMPLETED',
  'TASK_STATE_FAILED',
  'TASK_STATE_CANCELED',
  'TASK_STATE_INPUT_REQUIRED',
  'TASK_STATE_REJECTED',
  'TASK_STATE_AUTH_REQUIRED',
] as const

export type TaskState = Exclude<(typeof TASK_STATES)[number], 'TASK_STATE_UNSPECIFIED'>

/** What the states of a todo are called. Until a new one has a name here, nothing compiles. */
export const PROJECTION: Record<State, TaskState> = {
  pending: 'TASK_STATE_SUBMITTED',
  claimed: 'TASK_STATE_WORKING',
  'input-required': 'TASK_STATE_INPUT_REQUIRED',
  'auth-required': 'TASK_STATE_AUTH_REQUIRED',
  done: 'TASK_STATE_COMPLETED',
  failed: 'TASK_STATE_FAILED',
  canceled: 'TASK_STATE_CANCELED',
  rejected: 'TASK_STATE_REJECTED',
}

export const ROLES = ['ROLE_UNSPECIFIED', 'ROLE_USER', 'ROLE_AGENT'] as const

const DECIMAL = /^\d{1,3}$/

/**
 * The name of a number, which a query can only say as text. Anything else is returned as it is, an
 * unknown number too, for a schema to refuse.
 */
export const enumName =
  (names: readonly string[]) =>
  (value: unknown): unknown => {
    if (typeof value !== 'number' && !(typeof value === 'string' && DECIMAL.test(value))) {
      return value
    }
    return names[Number(value)] ?? value
  }
