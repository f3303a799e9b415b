/**
 * Outages in the log: while the database is away each call, sweep and stream fails for the same
 * reason. Each message about it is written once a second, with how often it came meanwhile and for
 * which requests, whose ids are in their callers' errors; and without the stack, which is the same
 * each time.
 */
import { isRefusal } from '../domain/errors.ts'

export const WINDOW_MS = 1000
/** Messages are few and fixed; should they not be, those beyond are written each time. */
const MAX_MESSAGES = 200
/** Ids of requests in one line; `times` counts those beyond. */
export const MAX_REQUESTS = 1000

type Write = (fields: object, message: string) => void

interface Held {
  fields: object
  count: number
  requests: unknown[]
  write: Write
}

interface Window {
  until: number
  held: Held | null
}

/** What was thrown, where it says that something is away; undefined where it does not. */
const outageIn = (fields: object): unknown => {
  const { err, error } = fields as { err?: unknown; error?: unknown }
  return [err, error].find((thrown) => isRefusal(thrown, 'unavailable'))
}

/** The error and what led to it, each as one text. */
const reasonOf = (error: unknown): string => {
  const { message, cause } = error as Error
  return cause instanceof Error ? `${message}: ${reasonOf(cause)}` : message
}

/** Writes now, later with others of its kind, or, where it is no outage, leaves it to the caller. */
export type Gate = (fields: object, message: string, write: Write) => boolean

export const createOutageGate = (now: () => number = () => performance.now()): Gate => {
  const windows = new Map<string, Window>()

  const release = (message: string, window: Window): void => {
    const { held } = window
    if (!held) return void windows.delete(message)
    window.held = null
    window.until = now() + WINDOW_MS
    const { fields, count, requests, write } = held
    write({ ...fields, times: count, ...(requests.length > 0 && { requests }) }, message)
    setTimeout(release, WINDOW_MS, message, window).unref()
  }

  return (fields, message, write) => {
    const outage = outageIn(fields)
    if (outage === undefined) return false
    const { error: _, ...rest } = fields as { error?: unknown }
    const brief = { ...rest, err: reasonOf(outage) }
    const window = windows.get(message)
    if (window && now() < window.until) {
      const { count, requests }: Pick<Held, 'count' | 'requests'> = window.held ?? {
        count: 0,
        requests: [],
      }
      const { request } = fields as { request?: unknown }
      if (request !== undefined && requests.length < MAX_REQUESTS) requests.push(request)
      window.held = { fields: brief, count: count + 1, requests, write }
      return true
    }
    write(brief, message)
    if (windows.size < MAX_MESSAGES) {
      const opened: Window = { until: now() + WINDOW_MS, held: null }
      windows.set(message, opened)
      setTimeout(release, WINDOW_MS, message, opened).unref()
    }
    return true
  }
}
