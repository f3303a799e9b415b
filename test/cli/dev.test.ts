/** `npm start` from its banner to Ctrl-C: what the first command of the README promises. */
import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { afterAll, expect, test } from 'vitest'
import { childArgs } from '../support/child-args.ts'
import { scaled } from '../support/timeouts.ts'
import { until } from '../support/until.ts'

const ROOT = path.join(import.meta.dirname, '../..')
const run = promisify(execFile)
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'sb-dev-'))
const running: ChildProcess[] = []
/** Led by a shell: killing that one would leave the others. */
const groups: number[] = []
afterAll(() => {
  for (const child of running) if (child.exitCode === null) child.kill('SIGKILL')
  for (const group of groups) {
    try {
      process.kill(-group, 'SIGKILL')
    } catch {
      // It has ended, as it should.
    }
  }
  fs.rmSync(folder, { recursive: true, force: true })
})

interface Dev {
  child: ChildProcess
  output: () => string
  errors: () => string
  exited: Promise<unknown[]>
}

const startDev = (dataDir: string): Dev => {
  const child = spawn(process.execPath, [...childArgs('src/cli/main.ts'), 'dev'], {
    cwd: ROOT,
    env: {
      PATH: process.env.PATH,
      HOME: folder,
      PORT: '0',
      SWITCHBOARD_DATA_DIR: dataDir,
      LOG_LEVEL: 'error',
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  running.push(child)
  let output = ''
  let errors = ''
  child.stdout!.on('data', (chunk: Buffer) => {
    output += chunk
  })
  child.stderr!.on('data', (chunk: Buffer) => {
    errors += chunk
  })
  return { child, output: () => output, errors: () => errors, exited: once(child, 'exit') }
}

const banner = async (dev: Dev): Promise<string> => {
  await until(() => dev.output().includes('Ctrl-C'), {
    timeoutMs: 60_000,
    what: 'the banner',
  })
  return dev.output()
}

/** Processes whose command line or environment names the data directory. */
const leftovers = (dataDir: string): string[] =>
  fs
    .readdirSync('/proc')
    .filter((pid) => /^\d+$/.test(pid))
    .filter((pid) => {
      try {
        const command = fs.readFileSync(`/proc/${pid}/cmdline`, 'utf8')
        const stat = fs.readFileSync(`/proc/${pid}/stat`, 'utf8')
        const dead = stat[stat.lastIndexOf(')') + 2] === 'Z'
        return !dead && command.includes(dataDir)
      } catch {
        return false
      }
    })

const paste = (command: string): Promise<{ stdout: string }> =>
  run('sh', ['-c', command], { cwd: os.tmpdir(), env: { PATH: process.env.PATH, HOME: folder } })

test(
  'dev prints addresses, tokens and commands that work as pasted; a kill -9 costs nothing; Ctrl-C ends it all',
  async () => {
    const dataDir = path.join(folder, 'one')
    const first = startDev(dataDir)
    const text = await banner(first)
    const url = /(http:\/\/127\.0\.0\.1:\d+)\/board/.exec(text)![1]!
    const card = /Agent card\s+(\S+)/.exec(text)![1]!
    expect((await fetch(card)).status).toBe(200)
    expect((await fetch(`${url}/readyz`)).status).toBe(200)
    const client = /Client token\s+(\S+)/.exec(text)![1]!
    const agent = /Agent token\s+(\S+)/.exec(text)![1]!
    const called = async (place: string, token: string, method: string) =>
      (
        await fetch(`${url}${place}`, {
          method: 'POST',
          headers: {
            'Content-Type': 'application/json',
            'A2A-Version': '1.0',
            Authorization: `Bearer ${token}`,
          },
          body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params: {} }),
        })
      ).json()
    expect(await called('/a2a/concierge/', client, 'ListTasks')).toHaveProperty('result.tasks')
    expect(await called('/agent', agent, 'todos.list')).toHaveProperty('result.todos')

    const board = /Board\s+(\S+)/.exec(text)![1]!
    const login = await fetch(board, { redirect: 'manual' })
    const cookie = login.headers.get('set-cookie') ?? ''
    expect(cookie).toContain('HttpOnly')
    const page = await fetch(`${url}/board`, { headers: { Cookie: cookie.split(';')[0]! } })
    expect(await page.text()).toContain('switchboard')

    const commands = text.split('\n').filter((line) => /^ {2}cd /.test(line))
    const [send, answer, watch] = commands.map((line) => line.trim())
    expect((await paste(send!)).stdout).toContain('input-required')
    expect((await paste(answer!)).stdout).toContain('input-required')
    expect((await paste(answer!.replace(/'[^']*'$/, "'3'"))).stdout).toContain('done')
    const watching = spawn('sh', ['-c', watch!], {
      env: { PATH: process.env.PATH, HOME: folder },
      detached: true,
      stdio: ['ignore', 'pipe', 'ignore'],
    })
    groups.push(watching.pid!)
    let seen = ''
    watching.stdout.on('data', (chunk: Buffer) => {
      seen += chunk
    })
    const boards = async (): Promise<boolean> =>
      /switchboard_streams_open\{kind="board"\} 1/.test(
        await (await fetch(`${url}/metrics`)).text(),
      )
    await until(boards, { what: 'the watching command is connected' })
    const another = paste(send!)
    await until(() => seen.includes('input-required'), { what: 'the board, watched' })
    process.kill(-watching.pid!, 'SIGTERM')
    await another

    const second = startDev(dataDir)
    expect((await second.exited)[0]).not.toBe(0)
    expect(second.errors().trim().split('\n')).toHaveLength(1)
    expect(second.errors()).toContain(String(first.child.pid))

    first.child.kill('SIGKILL')
    await first.exited
    await until(() => leftovers(dataDir).length === 0, { what: 'nothing left after kill -9' })

    const third = startDev(dataDir)
    const again = await banner(third)
    expect(/Client token\s+(\S+)/.exec(again)![1]).toBe(client)
    const listed = await paste(send!.replace(/ send .*$/, ' list --json'))
    expect(JSON.parse(listed.stdout).todos).toHaveLength(2)
    third.child.kill('SIGINT')
    expect((await third.exited)[0]).toBe(0)
    await until(() => leftovers(dataDir).length === 0, { what: 'nothing left after Ctrl-C' })
  },
  scaled(180_000),
)

test('a PostgreSQL that is killed ends dev, which says so', async () => {
  const dataDir = path.join(folder, 'killed')
  const dev = startDev(dataDir)
  await banner(dev)
  const [cluster] = fs.readdirSync(dataDir).filter((name) => /^pg\d+$/.test(name))
  const [pid] = fs.readFileSync(path.join(dataDir, cluster!, 'postmaster.pid'), 'utf8').split('\n')
  process.kill(Number(pid), 'SIGKILL')
  expect((await dev.exited)[0]).toBe(1)
  expect(dev.errors()).toMatch(/^switchboard: The PostgreSQL in .*killed was killed: start again/m)
  await until(() => leftovers(dataDir).length === 0, { what: 'nothing left' })
})
