/** Links to one question, kept by the hash of their secret. */
import { type Session, type Statement, statement } from '../postgres/database.ts'

export interface AnswerLinkRow {
  id: string
  todo_id: string
  question: number
  expires_at: Date
  expired: boolean
}

/** A link that has expired says so for a while longer; then it is forgotten. */
const FORGOTTEN_AFTER = '30 days'

const addStatement: Statement<AnswerLinkRow> = statement(
  'answer_link_add',
  `with over as (
    delete from answer_links where expires_at < now() - interval '${FORGOTTEN_AFTER}' returning 1)
  insert into answer_links (secret_sha256, todo_id, question, expires_at)
  select :secret::bytea, :todo::uuid, :question::int,
    now() + make_interval(secs => :seconds::float8) from (select count(*) from over) as o
  returning id, todo_id, question, expires_at, false as expired`,
)

export const addAnswerLink = async (
  session: Session,
  link: { secret: Buffer; todo: string; question: number; seconds: number },
): Promise<AnswerLinkRow> => (await session.run(addStatement, link))[0]!

const readStatement: Statement<AnswerLinkRow> = statement(
  'answer_link_read',
  `select id, todo_id, question, expires_at, expires_at <= now() as expired
  from answer_links where secret_sha256 = :secret::bytea`,
)

export const readAnswerLink = async (
  session: Session,
  secret: Buffer,
): Promise<AnswerLinkRow | null> => (await session.run(readStatement, { secret }))[0] ?? null
