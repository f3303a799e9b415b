// Field cases: a token in the command line; a data directory of another user; addresses with leftovers.
import { chownSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import http from 'node:http'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterEach, describe, expect, test } from 'vitest'
import {
  type Answer,
  conflict,
  deadUrl,
  type FakeServer,
  type Script,
  startFakeServer,
} from '../agent-kit/fake-server.ts'
import { isRoot } from '../support/system.ts'
import { type RunOptions, runCli } from './run.ts'

let server: FakeServer | undefined
const folders: string[] = []
afterEach(async () => {
  await server?.close()
  server = undefined
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true })
})

const todo = (members: object = {}): object => ({
  id: '11111111-1111-4111-8111-111111111111',
  queue: 'q',
  contextId: 'c',
  state: 'done',
  attempt: 1,
  maxAttempts: 5,
  createdAt: '2030-01-01T00:00:00.000Z',
  finishedAt: '2030-01-01T00:00:01.000Z',
  interruptedAt: null,
  nextRetryAt: null,
  unread: 0,
  message: { messageId: 'm', role: 'ROLE_USER', parts: [{ text: 'hello' }] },
  history: [{ messageId: 'm', role: 'ROLE_USER', parts: [{ text: 'hello' }] }],
  artifacts: [],
  attempts: [],
  events: [],
  result: null,
  ...members,
})

/** The command on a server that answers by `script`. */
const onServer = async (args: string[], script: Script | Answer, options: RunOptions = {}) => {
  server = await startFakeServer(typeof script === 'function' ? script : () => script)
  const env = { SWITCHBOARD_URL: server.url, SWITCHBOARD_TOKEN: 't', ...options.env }
  return runCli(args, { ...options, env })
}

describe('usage', () => {
  test.each([
    ['an unknown command', ['sned']],
    ['no command', []],
    ['a missing argument', ['send', 'q']],
    ['an unknown option', ['list', '--nonsense']],
    ['a number out of bounds', ['send', 'q', 'x', '--priority', '3']],
    ['an option that is required', ['vend', 'name', '--queue', 'q']],
    ['JSON that is none', ['queue', 'put', 'q', '--policy', '{']],
    ['an address that is none', ['list', '--url', 'nonsense']],
    ['no token', ['list']],
  ])('%s is a usage error with a hint on stderr, and nothing on stdout', async (_, args) => {
    const { code, stdout, stderr } = await runCli(args)
    expect(code).toBe(2)
    expect(stdout).toBe('')
    expect(stderr).not.toBe('')
    expect(stderr).not.toMatch(/^\s+at /m)
  })

  test('a bad configuration is reported at once, a line for each value', async () => {
    const { code, stderr } = await runCli(['serve'], { env: { PORT: 'x', LOG_LEVEL: 'loud' } })
    expect(code).toBe(2)
    expect(stderr).toMatch(/PORT/)
    expect(stderr).toMatch(/LOG_LEVEL/)
  })

  test('--help tells the exit codes and ends well', async () => {
    const { code, stdout } = await runCli(['--help'])
    expect(code).toBe(0)
    expect(stdout).toMatch(/Exit codes:\n {2}0 {2}ok/)
  })

  test('each command that --help lists stands in the docs', async () => {
    const docs = readFileSync('docs/configuration.md', 'utf8')
    const table = docs.slice(docs.indexOf('## Command line'))
    const commandsOf = async (...words: string[]): Promise<string[]> => {
      const { stdout } = await runCli([...words, '--help'])
      const [, lines = ''] = /\nCommands:\n((?: .*\n)+)/.exec(stdout) ?? []
      // What has no options of its own is a group of commands.
      const found = [...lines.matchAll(/^ {2}([a-z-]+)( \[options\])?/gm)]
      const below = await Promise.all(
        found
          .filter(([, name]) => name !== 'help')
          .map(([, name = '', options]) =>
            options ? [[...words, name].join(' ')] : commandsOf(...words, name),
          ),
      )
      return below.flat()
    }
    const commands = await commandsOf()
    expect(commands.length).toBeGreaterThan(20)
    expect(commands.filter((command) => !table.includes(`\`${command}`))).toEqual([])
  })
})

describe('failures have exit codes of their own', () => {
  const refusal = (code: number, reason: string, status = 200): Answer => ({
    error: { code, message: `it is ${reason}`, data: { reason } },
    status,
  })

  test.each<[string, Answer, number]>([
    ['a thing that is not there', refusal(-32012, 'not_found'), 3],
    ['a service that is not available', refusal(-32014, 'unavailable', 503), 4],
    ['a conflict', conflict('wrong_state', { state: 'done' }), 5],
    ['a wrong token', refusal(-32000, 'unauthenticated', 401), 6],
    ['a token that may not do this', refusal(-32011, 'forbidden'), 6],
    ['what the server does not understand', refusal(-32602, 'invalid'), 2],
    ['what went wrong in the server', refusal(-32603, 'internal'), 1],
  ])('%s', async (_, answer, expected) => {
    const id = '11111111-1111-4111-8111-111111111111'
    const { code, stdout, stderr } = await onServer(['cancel', id, '--json'], answer)
    expect(code).toBe(expected)
    expect(stdout).toBe('')
    expect(stderr).toMatch(/^switchboard: /)
  })

  test('a server that is not there', async () => {
    const url = await deadUrl()
    const { code, stderr } = await runCli(['list', '--url', url, '--token', 't'])
    expect(code).toBe(4)
    expect(stderr).toContain(url)
  })

  test('a port in use', async () => {
    const taken = http.createServer().listen(0, '127.0.0.1')
    await new Promise((resolve) => taken.once('listening', resolve))
    const { port } = taken.address() as { port: number }
    const folder = mkdtempSync(path.join(tmpdir(), 'sb-cli-'))
    folders.push(folder)
    const env = { PORT: String(port), SWITCHBOARD_DATA_DIR: folder, LOG_LEVEL: 'silent' }
    const { code, stdout, stderr } = await runCli(['dev'], { env })
    taken.close()
    expect(code).toBe(7)
    expect(stdout).toBe('')
    expect(stderr.trim().split('\n')).toEqual([expect.stringContaining(`Port ${port}`)])
  })

  test('a task that failed', async () => {
    const failed = todo({ state: 'failed', result: { error: 'boom' } })
    const { code, stdout } = await onServer(['send', 'q', 'hello'], { result: failed })
    expect(code).toBe(1)
    expect(stdout).toMatch(/failed: boom/)
  })
})

describe('output', () => {
  test.each<[string[], unknown]>([
    [['list'], { todos: [todo()], nextPageToken: '', totalSize: 1 }],
    [['show', '11111111-1111-4111-8111-111111111111'], todo()],
    [['send', 'q', 'hello'], todo()],
    [['send', 'q', 'hello', '--no-wait'], todo()],
    [['cancel', '11111111-1111-4111-8111-111111111111'], todo()],
    [['queue', 'list'], { queues: [] }],
    [['settings', 'set', 'k', 'v'], { key: 'k', value: 'v' }],
    [['vend', 'n', '--queue', 'q', '--verb', 'send'], { endpoint: { id: 'e' }, token: 'x' }],
  ])('%j with --json prints what the server gave, as one line of JSON', async (args, result) => {
    const { code, stdout } = await onServer([...args, '--json'], { result })
    expect(code).toBe(0)
    expect(stdout.split('\n')).toHaveLength(2)
    expect(JSON.parse(stdout)).toEqual(result)
  })

  test('nothing is coloured where no terminal is', async () => {
    const page = { todos: [todo()], nextPageToken: '' }
    const { stdout, stderr } = await onServer(['list'], { result: page })
    expect(stdout).toMatch(/^ID .*STATE/)
    expect(stdout + stderr).not.toContain('\u001b')
  })

  test('what others wrote cannot steer the terminal', async () => {
    const parts = [{ text: 'ring\u0007 \u001b[2J clear' }]
    const history = [{ messageId: 'a', role: 'ROLE_AGENT', parts }]
    const { stdout } = await onServer(['send', 'q', 'x'], { result: todo({ history }) })
    expect(stdout).toContain('done: ring [2J clear')
  })

  test('a reader that goes away ends it silently', async () => {
    const many = Array.from({ length: 5000 }, () => todo())
    const result = { todos: many, nextPageToken: '' }
    const { code, stderr } = await onServer(['list', '--json'], { result }, { closeAfter: 1 })
    expect(code).toBe(0)
    expect(stderr).toBe('')
  })

  test('a question is printed with the command that answers it', async () => {
    const asking = todo({
      state: 'input-required',
      finishedAt: null,
      interruptedAt: '2030-01-01T00:00:01.000Z',
      history: [{ messageId: 'a', role: 'ROLE_AGENT', parts: [{ text: 'Which day?' }] }],
    })
    const { code, stdout, stderr } = await onServer(['send', 'q', 'x'], { result: asking })
    expect(code).toBe(0)
    expect(stdout).toMatch(/input-required: Which day\?/)
    expect(stderr).toMatch(/switchboard answer 11111111/)
  })
})

describe('which server and which token', () => {
  const withDevFile = (url: string): string => {
    const folder = mkdtempSync(path.join(tmpdir(), 'sb-cli-'))
    folders.push(folder)
    const file = { url, adminToken: 'admin', clientToken: 'c', agentToken: 'a' }
    writeFileSync(path.join(folder, 'dev.json'), JSON.stringify(file))
    return folder
  }

  test('what dev left in its data directory is enough', async () => {
    server = await startFakeServer(() => ({ result: { queues: [] } }))
    const env = { SWITCHBOARD_DATA_DIR: withDevFile(server.url) }
    const { code } = await runCli(['queue', 'list', '--json'], { env })
    expect(code).toBe(0)
  })

  test('the list of queues says how long each keeps what has ended', async () => {
    const queue = (name: string, retentionDays?: number) => ({
      name,
      card: { name, description: 'x', version: '1' },
      policy: { maxAttempts: 5, contexts: 'serial', ...(retentionDays && { retentionDays }) },
    })
    server = await startFakeServer(() => ({ result: { queues: [queue('a', 30), queue('b')] } }))
    const env = { SWITCHBOARD_DATA_DIR: withDevFile(server.url) }
    const { stdout } = await runCli(['queue', 'list'], { env })
    expect(stdout).toMatch(/^a +serial +5 +30 d +x$/m)
    expect(stdout).toMatch(/^b +serial +5 +for ever +x$/m)
  })

  test('the token that dev left is not given to another server', async () => {
    server = await startFakeServer(() => ({ result: { queues: [] } }))
    const env = { SWITCHBOARD_DATA_DIR: withDevFile('http://127.0.0.1:4100') }
    const { code } = await runCli(['queue', 'list', '--url', server.url], { env })
    expect(code).toBe(2)
    expect(server.calls).toEqual([])
  })

  const withFile = (text: string): string => {
    const folder = mkdtempSync(path.join(tmpdir(), 'sb-cli-'))
    folders.push(folder)
    const file = path.join(folder, 'token')
    writeFileSync(file, text)
    return file
  }

  /** How the list of queues ended, and with which token it was asked for. */
  const listed = async (args: string[], env: NodeJS.ProcessEnv = {}) => {
    server = await startFakeServer(() => ({ result: { queues: [] } }))
    const all = { SWITCHBOARD_URL: server.url, ...env }
    const { code, stdout, stderr } = await runCli(['queue', 'list', '--json', ...args], {
      env: all,
    })
    const asked = server.tokens
    await server.close()
    return { code, asked, stdout, stderr }
  }

  test('an address is read without what a file leaves at its ends, and refused by name with more', async () => {
    server = await startFakeServer(() => ({ result: { queues: [] } }))
    const list = (url: string) =>
      runCli(['queue', 'list', '--json'], {
        env: { SWITCHBOARD_URL: url, SWITCHBOARD_TOKEN: 't' },
      })
    expect((await list(` \t${server.url}/\r\n`)).code).toBe(0)
    const wrong = [server.url.replace('//', '/'), server.url.replace('1', '1 '), 'ftp://h', '//h']
    for (const url of wrong) {
      const { code, stderr } = await list(url)
      expect([url, code, stderr]).toEqual([url, 2, expect.stringContaining('Not an http')])
    }
  })

  test('a token comes from a file or the environment, and in the command line it is warned of', async () => {
    const file = withFile('from-file\n')
    const other = withFile('from-other-file')
    const env = { SWITCHBOARD_TOKEN_FILE: other, SWITCHBOARD_ADMIN_TOKEN: 'admin' }
    const quiet = { code: 0, stderr: '' }
    expect(await listed(['--token-file', file], env)).toMatchObject({
      ...quiet,
      asked: ['from-file'],
    })
    expect(await listed([], env)).toMatchObject({ ...quiet, asked: ['from-other-file'] })
    const named = { ...env, SWITCHBOARD_TOKEN: 'from-env' }
    expect(await listed([], named)).toMatchObject({ ...quiet, asked: ['from-env'] })

    const told = await listed(['--token', 'from-argv'], named)
    expect(told).toMatchObject({
      code: 0,
      asked: ['from-argv'],
      stdout: expect.stringMatching(/^\{/),
    })
    expect(told.stderr).toMatch(/^switchboard: warning: .*--token-file or SWITCHBOARD_TOKEN\n$/)
    expect(told.stderr).not.toContain('from-argv')
  })

  test.each([
    ['is not there', () => '/nonexistent/token', 'cannot be read (ENOENT)'],
    ['is empty', () => withFile('\n'), 'holds no token'],
    ['holds two tokens', () => withFile('one\ntwo\n'), 'more than one'],
  ])(
    'a token file that %s is refused by its name, and nothing is asked',
    async (_, make, fault) => {
      const file = make()
      const { code, asked, stderr } = await listed(['--token-file', file])
      expect([code, asked]).toEqual([2, []])
      expect(stderr).toContain(file)
      expect(stderr).toContain(fault)
      expect(stderr).not.toContain('two')
    },
  )

  test('two tokens in one command line are one too many', async () => {
    const { code, asked } = await listed(['--token', 'a', '--token-file', withFile('b')])
    expect([code, asked]).toEqual([2, []])
  })

  test.runIf(isRoot)(
    'what stands in a data directory of another user is not believed',
    async () => {
      server = await startFakeServer(() => ({ result: { queues: [] } }))
      const folder = withDevFile(server.url)
      chownSync(folder, 65_534, 65_534)
      const env = { SWITCHBOARD_DATA_DIR: folder }
      // Neither the token that is there nor ours goes to the address that is there.
      for (const more of [{}, { SWITCHBOARD_TOKEN: 'mine' }]) {
        const { code, stderr } = await runCli(['queue', 'list'], { env: { ...env, ...more } })
        expect(code).toBe(2)
        expect(stderr).toContain(`${folder} belongs to uid 65534`)
      }
      expect(server.calls).toEqual([])
      const both = { SWITCHBOARD_URL: server.url, SWITCHBOARD_TOKEN: 'mine' }
      expect((await runCli(['queue', 'list'], { env: { ...env, ...both } })).code).toBe(0)
      for (const command of ['dev', 'serve', 'migrate']) {
        const { code, stderr } = await runCli([command], { env: { ...env, PORT: '0' } })
        expect([command, code]).toEqual([command, 1])
        expect(stderr).toContain(`${folder} belongs to uid 65534`)
      }
    },
  )

  test.each([
    ['todos.answer', ['answer', 'latest', 'yes', '--no-wait']],
    ['todos.show', ['show', 'latest', '--json']],
    ['todos.why', ['why', 'latest']],
  ])('"latest" is the newest open question, to %s', async (method, args) => {
    const asking = (id: string, state: string, interruptedAt: string) =>
      todo({ id, state, interruptedAt, finishedAt: null })
    const older = asking('older', 'input-required', '2030-01-01T00:00:01.000Z')
    const newer = asking('newer', 'auth-required', '2030-01-01T00:00:02.000Z')
    const { code } = await onServer(args, (call) => {
      if (call.method === 'todos.list') {
        const todos = call.params.state === 'input-required' ? [older] : [newer]
        return { result: { todos, nextPageToken: '' } }
      }
      return { result: newer }
    })
    expect(code).toBe(0)
    expect(server?.paramsOf(method)).toMatchObject([{ id: 'newer' }])
  })

  test.each([
    ['2030-01-02T00:00:00.000Z', /answer until +2030-01-0/],
    [null, /answer until +no deadline/],
  ])('a question that may be answered until %s says so', async (deadline, shown) => {
    const asking = todo({ state: 'input-required', question: { seq: 3, deadline } })
    const { stdout } = await onServer(['show', '11111111-1111-4111-8111-111111111111'], () => ({
      result: asking,
    }))
    expect(stdout).toMatch(shown)
  })

  test('the beginning or the end of an id is enough where it is the only one', async () => {
    const page = { todos: [todo({ id: 'abc-1' }), todo({ id: 'abd-2' })], nextPageToken: '' }
    const script: Script = ({ method }) => ({ result: method === 'todos.list' ? page : todo() })
    expect(await onServer(['show', 'abc', '--json'], script)).toMatchObject({ code: 0 })
    expect(server?.paramsOf('todos.show')).toEqual([{ id: 'abc-1' }])
    await server?.close()
    expect(await onServer(['show', 'd-2', '--json'], script)).toMatchObject({ code: 0 })
    expect(server?.paramsOf('todos.show')).toEqual([{ id: 'abd-2' }])
    await server?.close()
    expect(await onServer(['show', 'ab'], script)).toMatchObject({ code: 2 })
    await server?.close()
    expect(await onServer(['show', 'zz'], script)).toMatchObject({ code: 3 })
  })
})
