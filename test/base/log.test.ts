import { spawnSync } from 'node:child_process'
import { expect, test } from 'vitest'
import { createLog } from '../../src/base/log.ts'
import { Refusal } from '../../src/domain/errors.ts'
import { until } from '../support/until.ts'

const linesOf = (write: (log: ReturnType<typeof createLog>) => void, level = 'info' as const) => {
  const lines: string[] = []
  write(createLog(level, { write: (line) => lines.push(line) }))
  return lines
}

test('a fact is one line of JSON with its level as a word', () => {
  const [line] = linesOf((log) => log.info({ todo: 't1', fence: '7' }, 'claimed'))
  expect(JSON.parse(line ?? '')).toMatchObject({
    level: 'info',
    msg: 'claimed',
    todo: 't1',
    fence: '7',
    time: expect.stringMatching(/^\d{4}-.*Z$/),
  })
})

test('facts below the level are not written', () => {
  expect(linesOf((log) => log.debug('a detail'))).toEqual([])
})

test('no field that may hold a secret is written, at the top or two levels down', () => {
  const secrets = {
    token: 'hush',
    authorization: 'hush',
    credentials: { scheme: 'Bearer', value: 'hush' },
    password: 'hush',
    adminToken: 'hush',
    metricsToken: 'hush',
    databaseUrl: 'postgres://u:hush@h/db',
  }
  const [line] = linesOf((log) =>
    log.warn({ ...secrets, config: secrets, request: { headers: secrets } }, 'denied'),
  )
  expect(line).not.toContain('hush')
  expect(JSON.parse(line ?? '').request.headers.authorization).toBe('[redacted]')
})

test('an error is written with its stack, whichever field carries it', () => {
  const [err, error] = linesOf((log) => {
    log.error({ err: new Error('broken') }, 'failed')
    log.error({ error: new Error('broken') }, 'failed')
  })
  expect(JSON.parse(err ?? '').err.stack).toContain('log.test.ts')
  expect(JSON.parse(error ?? '').error.stack).toContain('log.test.ts')
})

test('stdout belongs to data: the log goes to stderr, its last line before an exit included', () => {
  const script = `import { createLog } from './src/base/log.ts'
    createLog('info').info('the last words')
    process.exit(1)`
  const args = ['--import', 'tsx', '--input-type=module', '-e', script]
  const { stdout, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8' })
  expect(stdout).toBe('')
  expect(JSON.parse(stderr).msg).toBe('the last words')
})

test('an outage is written once a second for each message, with how often it came and without a stack', async () => {
  const lines: string[] = []
  const log = createLog('info', { write: (line) => lines.push(line) })
  const cause = new Error('connect ECONNREFUSED', { cause: new Error('the reason') })
  const away = () => Object.assign(new Refusal('unavailable'), { cause })
  for (let n = 0; n < 50; n += 1) {
    log.warn({ err: away(), request: `r${n}` }, 'a call could not be served')
    log.child({ part: 'x' }).error({ error: away() }, 'a feed failed')
    log.error({ err: new Error('a fault') }, 'a call failed')
    log.error({ err: new Refusal('limit') }, 'a call failed')
  }
  const written = () => lines.map((line) => JSON.parse(line))
  const told = () => written().filter(({ msg }) => msg !== 'a call failed')
  expect(written().filter(({ msg }) => msg === 'a call failed')).toHaveLength(100)
  expect(told()).toHaveLength(2)
  await until(() => told().length === 4)
  expect(told()).toMatchObject([
    { level: 'warn', msg: 'a call could not be served', request: 'r0' },
    { level: 'error', msg: 'a feed failed', part: 'x' },
    { level: 'warn', msg: 'a call could not be served', request: 'r49', times: 49 },
    { level: 'error', msg: 'a feed failed', part: 'x', times: 49 },
  ])
  // Whoever has the id of a request from its error finds the line that stands for it.
  const requests = Array.from({ length: 49 }, (_, n) => `r${n + 1}`)
  expect(told().map((line) => line.requests)).toEqual([undefined, undefined, requests, undefined])
  for (const { err } of told()) {
    expect(err).toBe('The service is not available at the moment: connect ECONNREFUSED: the reason')
  }
})

test('the line of an outage names a thousand requests, and counts those beyond', async () => {
  const lines: string[] = []
  const log = createLog('info', { write: (line) => lines.push(line) })
  const err = new Refusal('unavailable')
  for (let n = 0; n < 1500; n += 1) log.warn({ err, request: `r${n}` }, 'a call failed')
  const last = await until(() => (lines.length === 2 ? JSON.parse(lines[1]!) : null))
  expect([last.times, last.requests.length]).toEqual([1499, 1000])
})
