/** For the knex command line: `npx tsx node_modules/knex/bin/cli.js migrate:status`. */
import { knexConfig } from './src/store/postgres/migrate.ts'

export default knexConfig(process.env.DATABASE_URL ?? '')
