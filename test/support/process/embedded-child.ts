/**
 * A process of its own that starts an embedded PostgreSQL, or takes the lock of a data directory,
 * tells what came of it in one line of JSON, and stays until its stdin ends. Works under a strict
 * umask, as a careful machine has it.
 *
 *   node --import tsx test/support/process/embedded-child.ts start|lock <data directory> [at]
 */
import { lockDataDir, startEmbedded } from '../../../src/embedded.ts'

const [, , what, dataDir = '', at] = process.argv
process.umask(0o077)

const tell = (outcome: object) => process.stdout.write(`${JSON.stringify(outcome)}\n`)

const take = async (): Promise<() => Promise<void>> => {
  // Several that race begin at one moment, however long each took to load.
  if (at) await new Promise((resolve) => setTimeout(resolve, Number(at) - Date.now()))
  if (what === 'lock') {
    const lock = lockDataDir(dataDir)
    tell({ locked: true })
    return async () => lock.release()
  }
  const { stop, ...server } = await startEmbedded(dataDir, { settings: ['fsync=off'] })
  tell(server)
  return stop
}

try {
  const giveBack = await take()
  process.stdin.resume().once('end', () => giveBack().then(() => process.exit()))
} catch (error) {
  const { name, message } = error as Error
  tell({ error: name, message })
}
