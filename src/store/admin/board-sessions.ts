/**
 * The board's sessions and the codes that open one, kept by the hash of their secret. What has expired
 * is deleted when something new is added, so neither table grows.
 */

import { isUuid } from '../../base/uuid.ts'
import { type Session, statement } from '../postgres/database.ts'
import { columnsOf, readOne } from '../postgres/rows.ts'
import { $, sql } from '../postgres/sql.ts'
import { plannedEachTime } from '../postgres/statement.ts'
import { topics, wakeOf } from '../wake/topics.ts'

/** How many sessions there may be. Whose token has most of them loses its oldest, so that none ends all others'. */
const SESSIONS_KEPT = 1000

export interface BoardSessionRow {
  id: string
  /** SHA-256 of the token that opened it; null where there was none. */
  tokenHash: Buffer | null
  createdAt: Date
  expiresAt: Date
}

const COLUMNS = columnsOf<BoardSessionRow>()(['id createdAt expiresAt'], {
  tokenHash: (s) => `${s}.token_sha256`,
}).select('s')

const addStatement = statement<never>(
  'board_session_add',
  sql`with over as (
    delete from board_sessions where expires_at <= now() or id in (
      select s.id from (select id, created_at, row_number() over (
          partition by token_sha256 order by created_at desc, id) as n from board_sessions) s
      order by s.n, s.created_at desc, s.id offset ${SESSIONS_KEPT - 1})
    returning 1)
  insert into board_sessions (secret_sha256, token_sha256, expires_at)
  select ${$.secret}::bytea, ${$.token}::bytea, now() + make_interval(secs => ${$.seconds}::float8)
  from (select count(*) from over) as o`,
)

export const addBoardSession = async (
  session: Session,
  added: { secret: Buffer; token: Buffer | null; seconds: number },
): Promise<void> => {
  await session.run(addStatement, added)
}

const readStatement = statement<BoardSessionRow>(
  'board_session_read',
  sql`select ${COLUMNS} from board_sessions s
  where s.secret_sha256 = ${$.secret}::bytea and s.expires_at > now()`,
)

export const readBoardSession = (
  session: Session,
  secret: Buffer,
): Promise<BoardSessionRow | null> => readOne(session, readStatement, { secret })

const listStatement = statement<BoardSessionRow>(
  'board_sessions_read',
  `select ${COLUMNS} from board_sessions s where s.expires_at > now()
  order by s.created_at desc, s.id`,
)

export const readBoardSessions = (session: Session): Promise<BoardSessionRow[]> =>
  session.run(listStatement, {})

const endStatement = statement<{ id: string }>(
  'board_session_end',
  sql`delete from board_sessions where secret_sha256 = ${$.secret}::bytea returning id`,
)

export const endBoardSession = async (session: Session, secret: Buffer): Promise<void> => {
  await session.run(endStatement, { secret })
  session.wake([wakeOf(topics.endpoints)])
}

const revokeStatement = plannedEachTime<{ id: string }>(
  'board_session_revoke',
  sql`delete from board_sessions where ${$.id}::uuid is null or id = ${$.id}::uuid returning id`,
)

/** Ends one session, or every one where `id` is null; returns how many it ended. */
export const revokeBoardSessions = async (session: Session, id: string | null): Promise<number> => {
  if (id !== null && !isUuid(id)) return 0
  const ended = await session.run(revokeStatement, { id })
  // The sessions' streams hear of it as those of a revoked endpoint do.
  session.wake([wakeOf(topics.endpoints)])
  return ended.length
}

const addCodeStatement = plannedEachTime<never>(
  'board_code_add',
  sql`with over as (delete from board_codes where expires_at <= now() returning 1)
  insert into board_codes (secret_sha256, expires_at)
  select ${$.secret}::bytea, now() + make_interval(secs => ${$.seconds}::float8)
  from (select count(*) from over) as o`,
)

export const addBoardCode = async (
  session: Session,
  code: { secret: Buffer; seconds: number },
): Promise<void> => {
  await session.run(addCodeStatement, code)
}

const spendStatement = statement<{ good: boolean }>(
  'board_code_spend',
  sql`delete from board_codes where secret_sha256 = ${$.secret}::bytea
  returning expires_at > now() as good`,
)

/** True the first time that a code is spent, unless it has expired. */
export const spendBoardCode = async (session: Session, secret: Buffer): Promise<boolean> =>
  (await session.run(spendStatement, { secret }))[0]?.good ?? false
