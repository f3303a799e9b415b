/** Links to one question each, kept by the hash of their secret. */

import { type Session, statement } from '../postgres/database.ts'
import { columnsOf, readOne } from '../postgres/rows.ts'
import { $, sql } from '../postgres/sql.ts'
import { plannedEachTime } from '../postgres/statement.ts'

export interface AnswerLinkRow {
  id: string
  todoId: string
  question: number
  expiresAt: Date
  expired: boolean
}

const LINK = columnsOf<AnswerLinkRow>()(['id todoId question expiresAt'], {
  expired: (l) => `${l}.expires_at <= now()`,
})

/** A link that has expired says so for a while longer; then it is forgotten. */
const FORGOTTEN_AFTER = '30 days'

const addStatement = plannedEachTime<AnswerLinkRow>(
  'answer_link_add',
  sql`with over as (
    delete from answer_links where expires_at < now() - interval '${FORGOTTEN_AFTER}' returning 1)
  insert into answer_links as l (secret_sha256, todo_id, question, expires_at)
  select ${$.secret}::bytea, ${$.todo}::uuid, ${$.question}::int,
    now() + make_interval(secs => ${$.seconds}::float8) from (select count(*) from over) as o
  returning ${LINK.select('l')}`,
)

export const addAnswerLink = async (
  session: Session,
  link: { secret: Buffer; todo: string; question: number; seconds: number },
): Promise<AnswerLinkRow> => (await session.run(addStatement, link))[0]!

const readStatement = statement<AnswerLinkRow>(
  'answer_link_read',
  sql`select ${LINK.select('l')} from answer_links l where l.secret_sha256 = ${$.secret}::bytea`,
)

export const readAnswerLink = (session: Session, secret: Buffer): Promise<AnswerLinkRow | null> =>
  readOne(session, readStatement, { secret })
