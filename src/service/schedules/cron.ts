/** The one place that reads cron: five fields, to the minute, in a time zone of the IANA database. */
import { Cron } from 'croner'

const read = (cron: string, timezone: string): Cron =>
  new Cron(cron, { mode: '5-part', timezone, paused: true })

/** The moments at which it falls due after this one, at most `count`. */
export const ticksAfter = (cron: string, zone: string, after: Date, count: number): Date[] =>
  read(cron, zone).nextRuns(count, after)

export const nextTick = (cron: string, zone: string, after: Date): Date | null =>
  ticksAfter(cron, zone, after, 1)[0] ?? null

/**
 * The newest ticks from `from` to `to`, both included: at most `count`, oldest first. Nearly always there
 * is one, and each costs, so we look back no further than we must.
 */
export const ticksWithin = (
  cron: string,
  zone: string,
  { from, to }: { from: Date; to: Date },
  count: number,
): Date[] => {
  // Ticks are whole minutes, and the moment itself counts.
  const end = new Date(to.getTime() + 1000)
  for (let size = Math.min(2, count); ; size = Math.min(size * 8, count)) {
    const found = read(cron, zone).previousRuns(size, end)
    const within = found.filter((tick) => tick >= from && tick <= to)
    // One that lies before is the sign that there are no more.
    if (size === count || found.length < size || found.some((tick) => tick < from)) {
      return within.toReversed()
    }
  }
}

const RULE = 'must be five fields of cron, or @hourly, @daily, @weekly, @monthly, @yearly'
/** The library takes a single moment as well, which recurs never. */
const IS_CRON = /^\s*(@\w+|\S+(\s+\S+){4})\s*$/

/** What is wrong with it, as a rule that it breaks; null where nothing is. */
export const cronProblem = (cron: string): string | null => {
  if (!IS_CRON.test(cron)) return RULE
  try {
    read(cron, 'UTC').nextRun()
    return null
  } catch (error) {
    const why = error instanceof Error ? error.message.replace(/^\w+: /, '') : String(error)
    return `${RULE}: ${why}`
  }
}

export const isTimeZone = (zone: string): boolean => {
  try {
    new Intl.DateTimeFormat('en', { timeZone: zone })
    // An offset such as +02:00 would do for the platform, and knows of no summer.
    return /^[A-Za-z]/.test(zone)
  } catch {
    return false
  }
}
