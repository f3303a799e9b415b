/** Spending counts for the todo that spends and for all above it, which share one budget with it. */
import { $, sql } from '../../postgres/sql.ts'

/** The ids of a todo and of all above it. */
export const UPWARDS = sql`with recursive up as (
      select c.id, c.parent_id from todos c where c.id = ${$.id}::uuid
      union all select p.id, p.parent_id from up join todos p on p.id = up.parent_id)
    select up.id from up`
