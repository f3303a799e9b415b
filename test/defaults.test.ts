/**
 * What the docs say a default or a bound is, against the code: a number that is off in either is found
 * here. Tables whose second column is `default` are read as they stand, and each of their rows is
 * compared; where a row cannot be looked up by its name, the tables below say where it comes from.
 * Field case: defaults are what the docs say.
 */
import fs from 'node:fs'
import { Command } from 'commander'
import { expect, test } from 'vitest'
import { DEFAULT_GRACE_MS, DEFAULT_MAX_BLOCKED_MS } from '../src/agent-kit/agent.ts'
import { NODE_DEFAULTS } from '../src/app/options.ts'
import { WINDOW_MS as OUTAGE_MS, MAX_REQUESTS as OUTAGE_REQUESTS } from '../src/base/outages.ts'
import { addServe } from '../src/cli/commands/node/serve.ts'
import { LAST_MS } from '../src/cli/run-until-signal.ts'
import { KEEP_ALIVE_SECONDS, readConfig, VARIABLES } from '../src/config.ts'
import { DEFAULT_POLICY, LEASE } from '../src/domain/policy.ts'
import { PROBE_AFTER_MS } from '../src/http/listener.ts'
import { LIMIT_BYTES, TIMEOUT_MS } from '../src/http/request/body.ts'
import { UNACKNOWLEDGED_MS } from '../src/http/request/dead-peers.ts'
import { GRACE_MS, LATER_MS } from '../src/http/request/half-closed.ts'
import { MAX_STREAMS } from '../src/http/stream/feeds.ts'
import { DRAIN_MS, PING_MS } from '../src/http/stream/sse.ts'
import { MAX_WAIT_MS as CLAIM_WAIT_MS } from '../src/protocol/agent/schema.ts'
import { putQueue, vend } from '../src/protocol/operator/schema.ts'
import { MAX_WAIT_MS as SEND_WAIT_MS } from '../src/protocol/v1/methods.ts'
import { SETTINGS } from '../src/service/operator/settings.ts'
import { TTL_MS } from '../src/service/registry.ts'
import { QUESTION_MS } from '../src/store/doctor/reader.ts'
import {
  DATABASE_DEFAULTS,
  IDLE_IN_TRANSACTION_MS,
  LOST_AFTER_MS,
  openDatabase,
} from '../src/store/postgres/database.ts'
import { TROUBLES } from '../src/store/postgres/pg-errors.ts'
import { ANSWER_MS } from '../src/store/wake/listen-notify.ts'
import { KEEP_ALIVE_MS } from '../src/store/wake/wake.ts'
import { startApp } from './support/app.ts'
import { a2aClient, agentClient } from './support/clients/actors.ts'

/** A row by the text of its first cell, without the marks of markdown. */
type Table = { head: readonly string[]; rows: ReadonlyMap<string, readonly string[]> }

const cellsOf = (line: string): string[] =>
  line
    .replaceAll('\\|', '\u0000')
    .split('|')
    .slice(1, -1)
    .map((cell) => cell.replaceAll('\u0000', '|').trim())

const tablesIn = (text: string): Table[] =>
  [...text.matchAll(/^\|.*\n\|[ -|]*\n(?:\|.*\n?)*/gm)].map(([table]) => {
    const [head, , ...rows] = table.trim().split('\n').map(cellsOf)
    return { head: head!, rows: new Map(rows.map(([name, ...rest]) => [name!, rest])) }
  })

const docs = (file: string): string => fs.readFileSync(`docs/${file}.md`, 'utf8')
const configuration = tablesIn(docs('configuration'))

const tableOf = (tables: readonly Table[], first: string): Table => {
  const found = tables.find(({ head }) => head[0] === first)
  if (!found) throw new Error(`no table of ${first}`)
  return found
}

const plain = (cell: string): string => cell.replaceAll('`', '').replaceAll('*', '')

/** Whether a cell says this value; nothing at all is `unset`, `none`, or what holds in its place. */
const says = (cell: string | undefined, value: unknown): boolean => {
  const text = plain(cell ?? '')
  if (value === null || value === undefined || (Array.isArray(value) && value.length === 0)) {
    return text !== '' && !/^[\d'"]/.test(text)
  }
  return text === String(value) || text.startsWith(`${value}:`)
}

/** `min…max` in a cell, as numbers. */
const boundsIn = (cell: string): { min: number; max: number } | null => {
  const [, min, max] = /(?<![\w.])(-?\d+)…(\d+)/.exec(cell) ?? []
  return min === undefined ? null : { min: Number(min), max: Number(max) }
}

interface Bounded {
  name: string
  cell: string | undefined
  takes: (value: number) => boolean
}

/** What has bounds takes them, and nothing beyond. */
const expectBounds = (all: readonly Bounded[]): void => {
  const bounded = all.filter(({ cell = '' }) => boundsIn(cell) !== null)
  expect(bounded).not.toEqual([])
  for (const { name, cell = '', takes } of bounded) {
    const { min, max } = boundsIn(cell)!
    // Some say in words what zero means.
    const below = cell.includes('; 0 ') ? min : min - 1
    expect({ name, at: [below, min, max, max + 1].map(takes) }).toEqual({
      name,
      at: [below === min, true, true, false],
    })
  }
}

test('each variable has the default that the docs give it, and the bounds', () => {
  const { rows } = tableOf(configuration, 'variable')
  expect([...rows.keys()].map(plain).toSorted()).toEqual(VARIABLES.map(([name]) => name).toSorted())
  for (const [name, unset] of VARIABLES) {
    const [cell] = rows.get(`\`${name}\``)!
    expect([name, cell, says(cell, unset)]).toEqual([name, cell, true])
  }
  expect(readConfig({}).keepAliveSeconds).toBe(KEEP_ALIVE_SECONDS)
  const reads = (name: string, value: number): boolean => {
    try {
      return Boolean(readConfig({ [name]: String(value) }))
    } catch {
      return false
    }
  }
  expectBounds(
    VARIABLES.map(([name]) => ({
      name,
      cell: rows.get(`\`${name}\``)![1],
      takes: (value) => reads(name, value),
    })),
  )
})

test('each setting has the default that the docs give it, and the bounds', () => {
  const { rows } = tableOf(configuration, 'key')
  expect([...rows.keys()].map(plain).toSorted()).toEqual(Object.keys(SETTINGS).toSorted())
  for (const [key, { unset }] of Object.entries(SETTINGS)) {
    const [cell] = rows.get(`\`${key}\``)!
    expect([key, cell, says(cell, unset)]).toEqual([key, cell, true])
  }
  expectBounds(
    Object.entries(SETTINGS)
      // Anything may be set, and a value that is too short is raised.
      .filter(([key]) => key !== 'interrupt_lease_ttl_seconds')
      .map(([name, { accepts }]) => ({
        name,
        cell: rows.get(`\`${name}\``)![1],
        takes: (value) => accepts(String(value)),
      })),
  )
})

/** `a.b`, `.c` are a.b and a.c. */
const pathsIn = (cell: string): string[] => {
  const [first = '', ...more] = plain(cell).split(', ')
  const prefix = first.slice(0, first.lastIndexOf('.') + 1)
  return [first, ...more.map((name) => (name.startsWith('.') ? prefix + name.slice(1) : name))]
}

const valueAt = (value: unknown, path: string): unknown =>
  path.split('.').reduce<unknown>((at, key) => (at as Record<string, unknown>)?.[key], value)

test('each member of a policy has the default that the docs give it, and the bounds', () => {
  const { rows } = tableOf(configuration, 'policy member')
  const described = new Set<string>()
  for (const [name, [cell]] of rows) {
    const paths = pathsIn(name)
    const cells =
      paths.length > 1 && cell!.includes(', ') ? cell!.split(', ') : paths.map(() => cell)
    paths.forEach((path, index) => {
      described.add(path.split('.')[0]!)
      const value = valueAt(DEFAULT_POLICY, path)
      expect([path, says(cells[index], value)]).toEqual([path, true])
    })
  }
  const members = Object.keys(putQueue.shape.policy.unwrap().shape)
  expect([...described].toSorted()).toEqual(members.toSorted())
  expectBounds(
    [...rows].map(([name, [, cell]]) => ({
      name,
      cell,
      takes: (value) => putQueue.safeParse({ name: 'q', policy: { [plain(name)]: value } }).success,
    })),
  )
})

const FLAGS = new Command()
addServe(FLAGS)

test('flags with a number have the default and the bounds that the docs give them', () => {
  const found = [...docs('configuration').matchAll(/`(--[\w-]+) <n>` \((\d+); (\d+)…(\d+)\)/g)]
  expect(found.map(([, flag]) => flag)).toEqual(['--drain-seconds', '--linger-seconds'])
  for (const [, flag, unset, min, max] of found) {
    const option = FLAGS.commands[0]!.options.find(({ long }) => long === flag)!
    expect([flag, option.defaultValue]).toEqual([flag, Number(unset)])
    const takes = (value: number): boolean => {
      try {
        return option.parseArg!(String(value), undefined as never) === (value as never)
      } catch {
        return false
      }
    }
    expectBounds([{ name: flag!, cell: `${min}…${max}`, takes }])
  }
})

const s = (ms: number): string => `${ms / 1000} s`
/** The system sends ten probes, a second apart. */
const DEAD_PEER_MS = PROBE_AFTER_MS + 10_000
const { acquireMs, lockMs, statementMs, poolSize } = DATABASE_DEFAULTS
const lostMs = statementMs + LOST_AFTER_MS
const { pollMs, reapMs } = NODE_DEFAULTS

const WAITS: Readonly<Record<string, string>> = {
  'for a connection of the pool': s(acquireMs),
  'of a statement for a lock': s(lockMs),
  'of a statement': s(statementMs),
  'for a database that went away without a word': s(lostMs),
  [`of the LISTEN connection for its keep-alive, asked every ${s(KEEP_ALIVE_MS)}`]: s(ANSWER_MS),
  'of a claim, or for messages (waitMs)': `as asked, up to ${s(CLAIM_WAIT_MS)}`,
  'of a blocking send': s(SEND_WAIT_MS),
  'for a lost wake': `${s(pollMs)}, the poll`,
  'of a stream for its reader to drain': s(DRAIN_MS),
  'for a peer that died without a word': `${s(DEAD_PEER_MS)} of silence, by TCP's own probes`,
  'for a peer that acknowledges nothing of what it was sent (Linux)': s(UNACKNOWLEDGED_MS),
  'for a peer that has closed its sending side': `probed after ${GRACE_MS} ms, then every ${s(LATER_MS)}`,
}

test('the waits of a node are those that the docs list', () => {
  const { rows } = tableOf(tablesIn(docs('lifecycle')), 'wait')
  const listed = [...rows].map(([name, [limit]]) => [plain(name), plain(limit!)])
  expect(Object.fromEntries(listed)).toEqual(WAITS)
})

const option = (flag: string): number =>
  FLAGS.commands[0]!.options.find(({ long }) => long === flag)!.defaultValue

const LIMITS: Readonly<Record<string, string>> = {
  'log lines of one message about an outage': `${1000 / OUTAGE_MS} a second`,
  'ids of requests that such a line names in requests': `${OUTAGE_REQUESTS}`,
  'idle connection of a client': `${KEEP_ALIVE_SECONDS} s`,
  'idle connections of a node that stops': `${option('--linger-seconds')} s`,
  'stopping, in all': `${option('--drain-seconds')} s`,
  'connections of a node to its database, beside the one that listens': `${poolSize}`,
  'wait for one of them': s(acquireMs),
  'wait of a statement for a lock': s(lockMs),
  'length of a statement': s(statementMs),
  'silence of the database about a statement': s(lostMs),
  'one question of the doctor': s(QUESTION_MS),
  'idleness of a transaction': s(IDLE_IN_TRANSACTION_MS),
  'silence of the connection that listens': `${s(KEEP_ALIVE_MS)}, then ${s(ANSWER_MS)} for an answer`,
  'a wake that is lost, of claims, blocking sends and streams': s(pollMs),
  'a lapsed lease that nobody else takes over': s(reapMs),
  'a time limit or retry of a todo that comes due': s(NODE_DEFAULTS.comeDueMs),
  "silence of a dead peer's connection": s(DEAD_PEER_MS),
  'of one on which something is on its way (Linux)': s(UNACKNOWLEDGED_MS),
}

test('the limits of a node and its database are those that the docs list', () => {
  const [, section] = docs('limits').split('\n## Nodes and the database\n')
  const [table] = tablesIn(section!)
  const listed = [...table!.rows].map(([name, [limit]]) => [plain(name), plain(limit!)])
  expect(Object.fromEntries(listed)).toEqual(LIMITS)
})

/** Sentences that name a default, where it stands in no table. */
const SENTENCES: readonly [file: string, sentence: string][] = [
  ['lifecycle', `The reaper ticks every ${s(reapMs)}`],
  ['lifecycle', 'the alarm (everything in the table but lease and interrupt) every second'],
  ['lifecycle', `at most ${s(NODE_DEFAULTS.drainMs + LAST_MS)} after the signal`],
  ['protocol', `A body of ${LIMIT_BYTES / 1024 ** 2} MiB, read within ${s(TIMEOUT_MS)}`],
  ['board-feed', `each ${s(PING_MS)}`],
  ['board-feed', `${MAX_STREAMS.toLocaleString('en')} streams a node`],
  ['board-feed', `for ${s(DRAIN_MS)} is cut off`],
]

test('sentences of the docs give the defaults that hold', () => {
  const read = (file: string): string => docs(file).replaceAll(/\s+/g, ' ')
  const missing = SENTENCES.filter(([file, sentence]) => !read(file).includes(sentence))
  expect(missing).toEqual([])
  // What the sentences say in words.
  expect([NODE_DEFAULTS.comeDueMs, TTL_MS]).toEqual([1000, 2000])
  expect([DEFAULT_GRACE_MS, DEFAULT_MAX_BLOCKED_MS]).toEqual([10_000, 600_000])
})

test('what readiness says of a database is in the docs, word for word', () => {
  const { rows } = tableOf(tablesIn(docs('operating')), 'reason')
  const reasons = Object.values(TROUBLES).map(({ reason }) => reason)
  expect([...rows.keys()]).toEqual(reasons)
})

test('an endpoint is vended with the defaults of the docs, and its claims have that lease', async () => {
  const app = await startApp()
  const { rows } = tableOf(configuration, 'field')
  const { client, agent } = await app.queue('desk')
  const made = agent.endpoint as unknown as Record<string, unknown>
  for (const [name, [cell]] of rows) {
    // What has to be named has no default.
    if (cell === '') continue
    const member = plain(name)
    expect([member, says(cell, made[member])]).toEqual([member, true])
  }
  expect(made.defaultLeaseSeconds).toBe(LEASE.defaultSeconds)
  expectBounds(
    [...rows].map(([name, [, cell]]) => ({
      name,
      cell,
      takes: (value) => {
        const wanted = { name: 'x', queues: ['desk'], verbs: ['work'], [plain(name)]: value }
        return vend.safeParse(wanted).success
      },
    })),
  )
  const { id } = await a2aClient(app.url, 'desk', client.token).submit('x')
  await agentClient(app.url, agent.token).claim()
  const granted = await app.sql(
    `select lease_seconds as seconds,
      round(extract(epoch from t.lease_expires_at - a.claimed_at))::int as left
    from todos t join attempts a on a.todo_id = t.id where t.id = $1`,
    [id],
  )
  expect(granted).toEqual([{ seconds: LEASE.defaultSeconds, left: LEASE.defaultSeconds }])

  const database = openDatabase({ connectionString: app.databaseUrl })
  try {
    expect(database.counts().size).toBe(poolSize)
    const held = await database.query<{ name: string; setting: string; unit: string }>(
      `select name, setting::int * case unit when 's' then 1000 else 1 end as ms from pg_settings
      where name in ('statement_timeout', 'lock_timeout', 'idle_in_transaction_session_timeout')
      order by name`,
      [],
    )
    expect(held).toEqual([
      { name: 'idle_in_transaction_session_timeout', ms: IDLE_IN_TRANSACTION_MS },
      { name: 'lock_timeout', ms: lockMs },
      { name: 'statement_timeout', ms: statementMs },
    ])
  } finally {
    await database.close()
  }
})
