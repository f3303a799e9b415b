/**
 * Captured statements run by pgbench with prepared statements: what PostgreSQL does on this
 * machine without any Node in between. Parameters become pgbench variables; those that are null,
 * which pgbench cannot send, are written into the text.
 */
import { execFile, spawnSync } from 'node:child_process'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { PLANNER } from '../src/store/postgres/database.ts'
import type { Captured } from './statements.ts'

export const hasPgbench = (): boolean => spawnSync('pgbench', ['--version']).status === 0

const asText = (value: unknown): string =>
  Array.isArray(value) ? `{${value.join(',')}}` : String(value)

/** The statement in pgbench's words. `sql` replaces parameters by an expression or a variable. */
export const toScript = (
  prefix: string,
  { text, order, values }: Captured,
  sql: Readonly<Record<string, string>>,
): { script: string; variables: string[] } => {
  const variables: string[] = []
  const script = text.replace(/\$(\d+)/g, (_, digits: string) => {
    const index = Number(digits) - 1
    const name = order[index]!
    if (sql[name] !== undefined) return sql[name]
    if (values[index] === null) return 'null'
    const definition = `${prefix}_${name}=${asText(values[index])}`
    if (!variables.includes(definition)) variables.push(definition)
    return `:${prefix}_${name}`
  })
  // In a format of a time, pgbench would take `:MI` for a variable of its own.
  return { script: script.replace(/(?<=\w):(?=[A-Z])/g, "' || chr(58) || '"), variables }
}

/** Runs a script by `clients` clients; how many transactions a second they made. */
export const runPgbench = async (
  url: string,
  script: string,
  variables: readonly string[],
  clients: number,
  limit: readonly ['-T' | '-t', number],
): Promise<number> => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'switchboard-bench-'))
  try {
    const file = path.join(folder, 'script.sql')
    fs.writeFileSync(file, script)
    const { stdout } = await promisify(execFile)(
      'pgbench',
      [
        ...['-n', '-M', 'prepared', '-c', String(clients), '-j', '2', '-f', file],
        ...[limit[0], String(limit[1])],
        ...variables.flatMap((variable) => ['-D', variable]),
        url,
      ],
      // As the store's connections have it.
      { env: { ...process.env, PGOPTIONS: PLANNER } },
    )
    const tps = /tps = ([\d.]+)/.exec(stdout)?.[1]
    if (tps === undefined) throw new Error(`pgbench said:\n${stdout}`)
    return Number(tps)
  } finally {
    fs.rmSync(folder, { recursive: true, force: true })
  }
}
