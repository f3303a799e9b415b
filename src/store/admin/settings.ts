/** Settings: what an operator may change while everything runs. Values are kept as the text that was typed. */

import { type Session, statement } from '../postgres/database.ts'
import { $, sql } from '../postgres/sql.ts'
import { plannedEachTime } from '../postgres/statement.ts'
import { topics, wakeOf } from '../wake/topics.ts'

const readAll = statement<{ key: string; value: string }>(
  'settings_read',
  'select key, value from settings',
)
const put = plannedEachTime<never>(
  'setting_put',
  sql`insert into settings (key, value) values (${$.key}, ${$.value})
  on conflict (key) do update set value = excluded.value, updated_at = now()`,
)
const drop = plannedEachTime<never>('setting_drop', sql`delete from settings where key = ${$.key}`)

export const readSettings = async (session: Session): Promise<ReadonlyMap<string, string>> =>
  new Map((await session.run(readAll, {})).map(({ key, value }) => [key, value]))

/** Null removes the row. */
export const writeSetting = async (
  session: Session,
  key: string,
  value: string | null,
): Promise<void> => {
  await (value === null ? session.run(drop, { key }) : session.run(put, { key, value }))
  session.wake([wakeOf(topics.settings)])
}
