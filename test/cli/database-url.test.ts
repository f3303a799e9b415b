// A DATABASE_URL that cannot be used is told by its part at fault, without its values.
// Field cases: database address; a database that cannot hold every text.
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import fs from 'node:fs'
import net, { type AddressInfo } from 'node:net'
import os from 'node:os'
import path from 'node:path'
import { afterAll, expect, inject, test } from 'vitest'
import { urlOf, withClient } from '../support/database/database.ts'
import { scaled } from '../support/timeouts.ts'
import { runCli } from './run.ts'

const PASSWORD = `pw-${randomUUID()}`
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'sb-url-'))

const { url, run } = inject('postgres')

const listeners: net.Server[] = []
const sockets = new Set<net.Socket>()
/** The address of a server that says these things, one for each it is told. */
const say = async (...answers: Buffer[]): Promise<string> => {
  const server = net.createServer((socket) => {
    const left = [...answers]
    sockets.add(socket)
    socket.on('error', () => {})
    socket.on('data', () => {
      const answer = left.shift()
      if (answer) socket.write(answer)
    })
  })
  listeners.push(server.listen(0, '127.0.0.1'))
  await once(server, 'listening')
  return `postgres://user:${PASSWORD}@127.0.0.1:${(server.address() as AddressInfo).port}/db`
}
afterAll(() => {
  for (const socket of sockets) socket.destroy()
  for (const server of listeners) server.close()
  fs.rmSync(folder, { recursive: true, force: true })
})

/** A message as PostgreSQL frames it. */
const message = (kind: string, body: string): Buffer => {
  const head = Buffer.alloc(5)
  head.write(kind)
  head.writeInt32BE(body.length + 4, 1)
  return Buffer.concat([head, Buffer.from(body, 'latin1')])
}

// The PostgreSQL of the tests trusts everybody.
const wrongPassword = message('E', `SFATAL\0VFATAL\0C28P01\0Mnot ${PASSWORD}\0\0`)
const scram = [
  message('R', '\0\0\0\x0aSCRAM-SHA-256\0\0'),
  message('R', '\0\0\0\x0br=x,s=eA==,i=4096'),
]

const refusedUrl = async (): Promise<string> => {
  const server = net.createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return `postgres://user:${PASSWORD}@127.0.0.1:${port}/db`
}

const withoutPassword = (address: string): string => address.replace(`:${PASSWORD}`, '')

const cases: [string, string, number, RegExp][] = [
  ['a wrong password', await say(wrongPassword), 2, /its user or password is wrong/],
  ['no password', withoutPassword(await say(...scram)), 2, /it has no password/],
  ['an unknown host', `postgres://u:${PASSWORD}@nowhere.invalid/db`, 4, /its host /],
  ['a port where nothing listens', await refusedUrl(), 4, /its host and port/],
  ['a server that says nothing', await say(), 4, /its host and port/],
  ['a database that is not there', urlOf(url, `${run}_none`), 2, /its database does not exist/],
  ['no TLS', `${await say(Buffer.from('N'))}?sslmode=verify-full`, 2, /its query string/],
  ['what is no address of PostgreSQL', `http://u:${PASSWORD}@h/db`, 2, /must start with/],
  ['a port that is none', `postgres://u:${PASSWORD}@h:123456/db`, 2, /cannot be read/],
]

const expectTold = async (
  command: string[],
  databaseUrl: string,
  expected: number,
  fault: RegExp,
): Promise<void> => {
  const env = { DATABASE_URL: databaseUrl, SWITCHBOARD_DATA_DIR: folder, PORT: '0' }
  const from = performance.now()
  const { code, stdout, stderr } = await runCli(command, { env })
  expect(performance.now() - from).toBeLessThan(scaled(30_000))
  expect(stderr).toMatch(/^switchboard: DATABASE_URL .*\n$/)
  expect(stderr).toMatch(fault)
  expect(stdout + stderr).not.toContain(PASSWORD)
  expect(code).toBe(expected)
}

test.each(cases)('%s is told in one line that names DATABASE_URL', (_, ...told) =>
  expectTold(['migrate'], ...told),
)

test.each([[['serve']], [['serve', '--no-migrate']], [['dev']]])(
  '%j tells it, too',
  async (command) =>
    expectTold(command, await say(wrongPassword), 2, /its user or password is wrong/),
)

test('a database of another encoding than UTF8 is refused, with what to do', async () => {
  const name = `latin_${randomUUID().slice(0, 8)}`
  await withClient(url, (sql) =>
    sql.query(`create database ${name} encoding 'LATIN1' locale 'C' template template0`),
  )
  const latin = new URL(url)
  latin.pathname = `/${name}`
  for (const command of ['serve', 'migrate']) {
    const { code, stderr } = await runCli([command], { env: { DATABASE_URL: latin.href } })
    expect(code).toBe(2)
    expect(stderr).toContain('DATABASE_URL cannot be used: its database has the encoding LATIN1')
    expect(stderr).toContain(`encoding 'UTF8'`)
  }
  await withClient(url, (sql) => sql.query(`drop database ${name}`))
})
