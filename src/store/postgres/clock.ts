/** The one clock: the database's. */
import type { Session } from './database.ts'
import { statement } from './database.ts'

const clock = statement<{ now: Date }>('clock', 'select now() as now')

export const readClock = async (session: Session): Promise<Date> =>
  (await session.run(clock, {}))[0]!.now
