/** PgBouncer in transaction mode before the database of a test; null where it is not installed. */
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterAll } from 'vitest'
import { findProgram, freePort, startProgram } from '../process/program.ts'

const file = findProgram('pgbouncer')

export const hasPgBouncer = file !== null

/** The same database, by way of the pooler. Few server connections, so that they are truly lent. */
export const startPgBouncer = async (databaseUrl: string): Promise<string> => {
  const { hostname, port, username, password, pathname } = new URL(databaseUrl)
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'sb-pgbouncer-'))
  fs.chmodSync(folder, 0o755)
  afterAll(() => fs.rmSync(folder, { recursive: true, force: true }))
  const listenPort = await freePort()
  const target = {
    host: decodeURIComponent(hostname),
    port: port || '5432',
    user: decodeURIComponent(username),
    ...(password && { password: decodeURIComponent(password) }),
  }
  const words = Object.entries(target).map(([name, value]) => `${name}=${value}`)
  const settings = [
    '[databases]',
    `* = ${words.join(' ')}`,
    '[pgbouncer]',
    'pool_mode = transaction',
    'listen_addr = 127.0.0.1',
    `listen_port = ${listenPort}`,
    'unix_socket_dir =',
    'auth_type = any',
    'default_pool_size = 4',
    'max_client_conn = 200',
    '',
  ]
  const ini = path.join(folder, 'pgbouncer.ini')
  fs.writeFileSync(ini, settings.join('\n'), { mode: 0o644 })
  // Only its owner gets at a socket of the embedded server.
  const uid = target.host.startsWith('/') ? fs.statSync(target.host).uid : undefined
  await startProgram(file ?? 'pgbouncer', ['-q', ini], listenPort, uid)
  return `postgres://${username || 'x'}@127.0.0.1:${listenPort}${pathname}`
}
