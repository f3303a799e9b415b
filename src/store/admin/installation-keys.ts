/** Keys that all nodes of an installation share. Whichever node needs one first makes it. */
import { randomBytes } from 'node:crypto'
import { type Session, statement } from '../postgres/database.ts'
import { readOne } from '../postgres/rows.ts'
import { $, sql } from '../postgres/sql.ts'

const KEY_BYTES = 32

const keep = statement<{ key: Buffer }>(
  'installation_key',
  sql`with made as (
    insert into installation_keys (name, key) values (${$.name}, ${$.key}::bytea)
    on conflict do nothing returning key)
  select key from made union all
  select k.key from installation_keys k where k.name = ${$.name}`,
)

export const readInstallationKey = async (session: Session, name: string): Promise<Buffer> => {
  for (;;) {
    const found = await readOne(session, keep, { name, key: randomBytes(KEY_BYTES) })
    if (found) return found.key
    // Another node made it at this very moment, so this snapshot does not have it; the next one does.
  }
}
