/**
 * What a connection costs the database in memory: a backend that has used every prepared statement of
 * the server, by its own account (pg_backend_memory_contexts) and by what the kernel counts as its own
 * (Private_Dirty of /proc, where there is one). Each round is a fresh connection.
 */
import fs from 'node:fs'
import pg from 'pg'
import { PLANNER } from '../../src/store/postgres/database.ts'
import { compiledStatements } from '../../src/store/postgres/statement.ts'
import type { Lab } from '../lab.ts'
import type { Case, Sample, Setup } from '../runner.ts'

const CONTEXTS = `select sum(total_bytes)::float8 as all,
    coalesce(sum(total_bytes) filter (where name like 'CachedPlan%'), 0)::float8 as plans
  from pg_backend_memory_contexts`

interface Contexts {
  all: number
  plans: number
}

const privateMb = (pid: number): number => {
  const file = `/proc/${pid}/smaps_rollup`
  const kb =
    fs.existsSync(file) && /Private_Dirty:\s+(\d+)/.exec(fs.readFileSync(file, 'utf8'))?.[1]
  return Number(kb || 0) / 1000
}

/** Nothing is moved: every parameter is null, and what is done all the same is rolled back. */
const useAll = async (url: string): Promise<Sample> => {
  const client = new pg.Client({ connectionString: url, options: PLANNER })
  await client.connect()
  try {
    const { rows } = await client.query('select pg_backend_pid() as pid')
    const read = async () => (await client.query<Contexts>(CONTEXTS)).rows[0]!
    const before = await read()
    const privateBefore = privateMb(rows[0].pid)
    const prepared = compiledStatements().filter((statement) => statement.prepared)
    for (const { name, text, order } of prepared) {
      await client.query('begin')
      await client.query({ name, text, values: order.map(() => null) }).catch(() => {})
      await client.query('rollback')
    }
    const after = await read()
    return {
      statements: prepared.length,
      plansMb: after.plans / 1e6,
      grownMb: (after.all - before.all) / 1e6,
      privateMb: privateMb(rows[0].pid) - privateBefore,
    }
  } finally {
    await client.end()
  }
}

const open = async (lab: Lab): Promise<Setup> => {
  const url = await lab.database()
  // Compiles every statement there is.
  await import('../../src/app.ts')
  return {
    variants: [{ name: 'switchboard', run: () => useAll(url) }],
    ratios: [],
  }
}

export const plans: Case = { name: 'plans', title: 'plans: memory of a connection', open }
