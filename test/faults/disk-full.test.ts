/**
 * `serve` with a PostgreSQL of its own on a small disk that fills up: first there is no room for what
 * clients send, then none for PostgreSQL's log of changes, without which it ends. Needs the right to
 * mount a file system.
 * Field case: a disk that is full.
 */
import { spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import fs from 'node:fs'
import path from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { ADMIN_TOKEN } from '../support/app.ts'
import { a2aClient, post } from '../support/clients/actors.ts'
import { withClient } from '../support/database/database.ts'
import { cleanUp, makeFolder } from '../support/process/child.ts'
import { serveProcessWith } from '../support/process/serve-process.ts'
import { until } from '../support/until.ts'

const disk = makeFolder()
const mounted = spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=200m,mode=711', 'tmpfs', disk])
const canMount = mounted.status === 0

afterAll(async () => {
  if (canMount) spawnSync('umount', ['-l', disk])
  await cleanUp()
})

const filler = path.join(disk, 'filler')
/** Takes all room but so much. */
const fill = (left: number): void => {
  const { bavail, bsize } = fs.statfsSync(disk)
  fs.appendFileSync(filler, Buffer.alloc(Math.max(0, bavail * bsize - left)))
}
const makeRoom = (): void => fs.rmSync(filler, { force: true })

const dataDir = path.join(disk, 'data')

/** On the server of the process, past the process. */
const onServer = async (text: string): Promise<unknown> => {
  const cluster = fs.readdirSync(dataDir).find((name) => /^pg\d+$/.test(name))!
  const file = fs.readFileSync(path.join(dataDir, cluster, 'postmaster.pid'), 'utf8')
  const [, , , port, folder] = file.split('\n')
  const url = `postgresql://postgres@${encodeURIComponent(folder!)}:${port}/postgres`
  return withClient(url, (sql) => sql.query(text))
}

test.runIf(canMount)(
  'it is named while it is full, and all goes on once there is room, with all that was acknowledged',
  async () => {
    const env = { SWITCHBOARD_DATA_DIR: dataDir, LOG_LEVEL: 'fatal' }
    const { child, url, log } = await serveProcessWith(env, '')
    const operate = async (method: string, params: object) => {
      const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params })
      return (await post(`${url}/operator`, body, { token: ADMIN_TOKEN })).body.result
    }
    await operate('queues.put', { name: 'desk', policy: { contexts: 'parallel' } })
    const vended = { name: 'x', queues: ['desk'], verbs: ['send'] }
    const { token } = await operate('endpoints.vend', vended)
    const client = a2aClient(url, 'desk', token)

    const acknowledged: string[] = []
    /** The status of a send of so many bytes that cannot be pressed. */
    const send = async (bytes: number) => {
      const text = randomBytes(bytes).toString('base64')
      const message = { messageId: crypto.randomUUID(), role: 'ROLE_USER', parts: [{ text }] }
      const params = { message, configuration: { returnImmediately: true } }
      const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'SendMessage', params })
      const answer = await post(client.endpoint, body, { token, headers: { 'A2A-Version': '1.0' } })
      if (answer.body.result) acknowledged.push(answer.body.result.task.id)
      return answer
    }
    const readiness = async () => {
      const response = await fetch(`${url}/readyz`)
      const { reasons } = (await response.json()) as { reasons: string[] }
      return { status: response.status, reasons }
    }
    const isFull = async () => {
      const { status, reasons } = await readiness()
      return status === 503 && reasons.includes('the disk of the database is full')
    }
    const isWell = async () => (await readiness()).status === 200 && (await send(10)).status === 200
    const areThere = async () => {
      for (const id of acknowledged) expect((await client.get(id)).id).toBe(id)
    }

    expect((await send(500_000)).status).toBe(200)
    fill(2_000_000)
    const refused = await until(async () => {
      const answer = await send(500_000)
      return answer.status === 200 ? null : answer
    })
    expect([refused.status, refused.body.error.code]).toEqual([503, -32603])
    expect(refused.headers.get('retry-after')).toBe('5')
    await until(isFull, { what: 'the disk is named' })
    await areThere()
    makeRoom()
    await until(isWell, { what: 'writing again' })

    fill(3_000_000)
    const ends = `select pg_logical_emit_message(false, 'x', repeat('x', 1000000))`
    await until(
      () =>
        onServer(ends).then(
          () => false,
          () => true,
        ),
      { what: 'the end of PostgreSQL' },
    )
    const said = (text: string) => log.some((line) => line.includes(text))
    await until(() => said('is full, and it has ended'), { what: 'the word of it' })
    await until(isFull, { what: 'the disk is named' })
    const answer = await send(10)
    expect([answer.status, answer.headers.get('retry-after')]).toEqual([503, '1'])
    expect(child.exitCode).toBeNull()
    makeRoom()
    await until(() => said('there is room again'), { what: 'its return' })
    await until(isWell, { what: 'writing again' })
    await areThere()

    child.kill('SIGTERM')
    expect(await once(child, 'exit')).toEqual([0, null])
  },
)

test.runIf(canMount)('a node that stops while its disk is full ends well', async () => {
  makeRoom()
  fs.rmSync(dataDir, { recursive: true, force: true })
  const env = { SWITCHBOARD_DATA_DIR: dataDir, LOG_LEVEL: 'fatal' }
  const { child, log } = await serveProcessWith(env, '')
  fill(3_000_000)
  const ends = `select pg_logical_emit_message(false, 'x', repeat('x', 1000000))`
  await until(
    () =>
      onServer(ends).then(
        () => false,
        () => true,
      ),
    { what: 'the end of PostgreSQL' },
  )
  await until(() => log.some((line) => line.includes('is full')), { what: 'the word of it' })
  child.kill('SIGTERM')
  expect(await once(child, 'exit')).toEqual([0, null])
})
