/**
 * Every lease goes through lease_free and lease_until. The same rules are tried with the two whole
 * and with one or both broken: a rule that still held would be kept by something else, which would
 * be a second spelling of a lease.
 */
import { randomUUID } from 'node:crypto'
import { afterEach, describe, expect, test } from 'vitest'
import { rule, VERB_NAMES, type Verb } from '../../src/domain/lifecycle.ts'
import type { Change } from '../../src/store/move/change.ts'
import { readClaimed } from '../../src/store/move/claim.ts'
import { transitionDue, tryTransition } from '../../src/store/move/move.ts'
import { one } from '../../src/store/move/pick.ts'
import { openStore } from '../support/database/store.ts'
import { addWorker } from '../support/database/worker-endpoint.ts'

const { database } = await openStore(2)
const [holder, other] = [await addWorker(database, []), await addWorker(database, [])]

const LAPSED = -1
const RUNNING = 300

/** A todo that `holder` claimed, in a queue of its own; put there by no statement under test. */
const claimed = async (leaseLeft: number) => {
  const [id, queue] = [randomUUID(), randomUUID()]
  await database.query(
    `with made as (
      insert into todos (id, queue, context_id, state, attempt, max_attempts, attempts_total, fence,
        owner, lease_seconds, lease_expires_at, seq, status_seq, progress_at)
      values ($1, $2, 'c', 'claimed', 1, 5, 1, 1, $3, 300, now() + make_interval(secs => $4), 2, 2,
        now()))
    insert into attempts (todo_id, seq, attempt, endpoint_id, claimed_at) values ($1, 1, 1, $3, now())`,
    [id, queue, holder, leaseLeft],
  )
  return { id, queue }
}

const CHANGES: Partial<Record<Verb, Change>> = {
  artifact: { artifact: { id: 'a', json: '{"parts":[]}', append: false, lastChunk: false } },
  interrupt: { asked: 'input-required', park: false },
  join: { children: [], joinUntil: 'all' },
}

const writes = async (verb: Verb, id: string, endpoint = holder, fence = '1'): Promise<boolean> =>
  (await tryTransition(database, verb, id, { ...CHANGES[verb], endpoint, fence })) !== null

const claim = async (queue: string) =>
  (await readClaimed(database, [queue], 1, { endpoint: other, leaseSeconds: 300, claimant: 'x' }))
    .claimed

const isTaken = async (queue: string): Promise<boolean> => (await claim(queue)).length > 0
const isReaped = async (id: string): Promise<boolean> =>
  (await transitionDue(database, 'reapLease', { limit: 100 })).some(({ todo }) => todo.id === id)

const writesWhileItRuns = (verb: Verb) => async (): Promise<void> => {
  expect(await writes(verb, (await claimed(LAPSED)).id)).toBe(false)
  expect(await writes(verb, (await claimed(RUNNING)).id)).toBe(true)
}

/** What the lease means to each verb that asks for it. */
const RULES: Partial<Record<Verb, () => Promise<void>>> = {
  claim: async () => {
    expect(await isTaken((await claimed(RUNNING)).queue)).toBe(false)
    const { id, queue } = await claimed(LAPSED)
    const [taken] = await claim(queue)
    expect(taken?.view.todo.fence).toBe('2')
    // What was claimed is held: by the claimant, and not to be claimed again.
    expect(await writes('heartbeat', id, other, '2')).toBe(true)
    expect(await isTaken(queue)).toBe(false)
    expect(await writes('heartbeat', id)).toBe(false)
  },
  reapLease: async () => {
    expect(await isReaped((await claimed(LAPSED)).id)).toBe(true)
    const { id } = await claimed(RUNNING)
    expect(await isReaped(id)).toBe(false)
    expect(await writes('heartbeat', id)).toBe(true)
  },
  park: async () => {
    const isParked = async (leaseLeft: number): Promise<boolean> => {
      const { id } = await claimed(leaseLeft)
      await database.query(
        `update todos set state = 'input-required', interrupted_at = now(),
          interrupt_held_until = now(), wait_probe_at = now() - interval '1 second' where id = $1`,
        [id],
      )
      const parked = await transitionDue(database, 'park', { limit: 100 })
      return parked.some(({ todo }) => todo.id === id)
    }
    expect(await isParked(LAPSED)).toBe(true)
    expect(await isParked(RUNNING)).toBe(false)
  },
  heartbeat: async () => {
    await writesWhileItRuns('heartbeat')()
    const { id, queue } = await claimed(RUNNING)
    expect(await writes('heartbeat', id)).toBe(true)
    expect(await isTaken(queue)).toBe(false)
  },
}
for (const verb of VERB_NAMES) {
  if (rule(verb).when.includes('held')) RULES[verb] ??= writesWhileItRuns(verb)
}
const rules = Object.entries(RULES)

test('there is a rule for every verb whose statement asks for a lease', () => {
  const asking = VERB_NAMES.filter((verb) =>
    one(verb).parts.some((part) => String(part).includes('lease_free(')),
  )
  expect(Object.keys(RULES).toSorted()).toEqual(asking.toSorted())
})

const SIGNATURES = {
  lease_free: '(owner uuid, expires_at timestamptz) returns boolean',
  lease_until: '(seconds double precision) returns timestamptz',
}
const BODIES = await database.query<{ source: string }>(
  `select pg_get_functiondef(oid) as source from pg_proc where proname = any($1)`,
  [Object.keys(SIGNATURES)],
)

const breakIt = (name: keyof typeof SIGNATURES, body: string) =>
  database.query(
    `create or replace function ${name}${SIGNATURES[name]} language sql stable as $$ ${body} $$`,
    [],
  )
const mend = async (): Promise<void> => {
  for (const { source } of BODIES) await database.query(source, [])
}

describe('with the primitive whole', () => {
  test.each(rules)('the rule of %s holds', (_, holds) => holds())
})

describe.each(['true', 'false'])('with lease_free answering %s', (answer) => {
  afterEach(mend)
  test.each(rules)('the rule of %s breaks', async (_, holds) => {
    await breakIt('lease_free', `select ${answer}`)
    await expect(holds()).rejects.toThrow(/^expected /)
    await mend()
    await holds()
  })
})

describe('with no clock left in either half', () => {
  afterEach(mend)
  test('nothing else keeps a running lease from being claimed, or reaped', async () => {
    const [one, two] = [await claimed(RUNNING), await claimed(RUNNING)]
    await breakIt('lease_free', 'select true')
    await breakIt('lease_until', `select 'infinity'::timestamptz`)
    expect(await isTaken(one.queue)).toBe(true)
    expect(await isReaped(two.id)).toBe(true)
  })
})
