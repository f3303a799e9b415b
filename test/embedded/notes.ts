/** Words in a table of an embedded PostgreSQL: whether what was committed is there. */
import { withClient } from '../support/database/database.ts'

export const query = <Row extends object>(url: string | undefined, sql: string): Promise<Row[]> =>
  withClient(url ?? '', async (client) => (await client.query<Row>(sql)).rows)

export const write = (url: string | undefined, word: string) =>
  query(url, `create table if not exists note (word text); insert into note values ('${word}')`)

export const words = async (url: string | undefined): Promise<string[]> =>
  (await query<{ word: string }>(url, 'select word from note order by word')).map((r) => r.word)

export const isGone = (pid: number | undefined): boolean => {
  try {
    process.kill(pid!, 0)
    return false
  } catch {
    return true
  }
}
