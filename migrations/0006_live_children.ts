/**
 * The sweep for children whose parent was canceled looks at those that live, of which there are
 * few, and not at every child there ever was.
 */
import type { Knex } from 'knex'

export const up = async (knex: Knex): Promise<void> => {
  await knex.raw(`
    create index todos_live_children on todos (parent_id)
      where parent_id is not null and finished_at is null
  `)
}
