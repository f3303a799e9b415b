/**
 * What a client said beside its message: metadata of the request, active extensions, accepted output
 * modes, the trace it belongs to. A column without a default is added at once, whatever the table
 * holds; the messages of before, and those of older nodes, said nothing.
 */
import type { Knex } from 'knex'

export const up = async (knex: Knex): Promise<void> => {
  await knex.raw('alter table messages add column request json')
}
