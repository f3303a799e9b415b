/** The same todos in a real database, moved by the verbs that the model is moved by. */
import { randomUUID } from 'node:crypto'
import { expect } from 'vitest'
import { EVERYTHING } from '../../../src/domain/endpoint.ts'
import { Refusal } from '../../../src/domain/errors.ts'
import { OPEN_STATES, rule } from '../../../src/domain/lifecycle.ts'
import { addTodo } from '../../../src/store/move/add.ts'
import type { Change } from '../../../src/store/move/change.ts'
import { transitionLine, transitionOne } from '../../../src/store/move/move.ts'
import type { Database } from '../../../src/store/postgres/database.ts'
import { countTodos } from '../../../src/store/todos/counts.ts'
import { sequenceEvents } from '../../../src/store/todos/events.ts'
import { expectTotals } from '../totals.ts'
import { type Age, finished, MAX_ATTEMPTS, type Model, type Row, type Step } from './model.ts'

export const AGENTS = [randomUUID(), randomUUID()] as const
const CLIENT = randomUUID()

const message = (role: 'ROLE_USER' | 'ROLE_AGENT') => ({
  messageId: randomUUID(),
  role,
  parts: [{ text: 'x' }],
})

export const SETS: Record<Age, string> = {
  lapse: `lease_expires_at = now() - interval '1 second'`,
  due: `due_at = now() - interval '1 second'`,
  retry: `next_retry_at = now() - interval '1 second'`,
  expire: `interrupted_at = now() - interval '25 hours', interrupt_held_until = null`,
  silence: `progress_at = now() - interval '601 seconds', alarm_at = now()`,
  late: 'close_at = now(), alarm_at = now()',
  gone: `lease_expires_at = now() - interval '1 second', wait_probe_at = now() - interval '1 second',
    interrupt_held_until = now() - interval '1 second'`,
  overdue: `join_timeout_at = now() - interval '1 second', alarm_at = now()`,
  time: 'not_before = now()',
}

/** No word of the holder comes in the very millisecond of its claim. */
const CLAIMED_BEFORE = `update todos set started_at = started_at - interval '1 second',
  last_heartbeat_at = last_heartbeat_at - interval '1 second',
  progress_at = progress_at - interval '1 second' where id = $1`

export interface World {
  add(line: string | null, delayed?: boolean): Promise<void>
  /** The state after; null where the step was refused. */
  apply(place: number, row: Row, step: Step): Promise<string | null>
  /** The place of whoever went on. */
  look(line: string): Promise<number | null>
  age(place: number, what: Age): Promise<void>
  /** Every row is as the model has it. */
  check(model: Model): Promise<void>
}

export const changeOf = (row: Pick<Row, 'fence'>, step: Step, ids: readonly string[]): Change => {
  const { by } = rule(step.verb)
  return {
    endpoint: by === 'client' ? CLIENT : AGENTS[step.agent],
    fence: String(step.staleFence ? row.fence - 1 : row.fence),
    leaseSeconds: 300,
    claimant: 'model',
    asked: step.asked,
    park: step.park,
    holdSeconds: 60,
    maxWaitSeconds: 604_800,
    children: step.children.map((child) => ids[child]!),
    joinUntil: step.until,
    ...(step.timeout && { joinSeconds: 3600 }),
    message: message(by === 'client' ? 'ROLE_USER' : 'ROLE_AGENT'),
    artifact: { id: 'a', json: '{"artifactId":"a","parts":[]}', append: false, lastChunk: false },
    ttlSeconds: 86_400,
    queues: ['q'],
    detail: { error: { code: 'x', message: 'x' } },
    ...(step.retry && { retrySeconds: 3600 }),
    // Only a release is ever delayed.
    ...(step.delay && step.verb === 'release' && { dueSeconds: 3600 }),
    ...(step.acknowledgeAll && { through: 1_000_000 }),
  }
}

export const createWorld = (database: Database): World => {
  const ids: string[] = []
  const client = randomUUID()
  let looked = 0
  return {
    add: async (line, delayed = false) => {
      const id = randomUUID()
      ids.push(id)
      await addTodo(database, {
        id,
        queue: 'q',
        contextId: 'c',
        clientId: client,
        priority: 1,
        maxAttempts: MAX_ATTEMPTS,
        message: message('ROLE_USER'),
        timeouts: { heartbeat: 600, scheduleToClose: 86_400 },
        detail: {},
        ...(line !== null && { line }),
        ...(delayed && { delaySeconds: 3600 }),
      })
    },
    apply: async (place, row, step) => {
      try {
        const change = changeOf(row, step, ids)
        const { todo } = await transitionOne(database, step.verb, ids[place]!, change, EVERYTHING)
        if (step.verb === 'claim') await database.query(CLAIMED_BEFORE, [ids[place]])
        return todo.state
      } catch (error) {
        if (error instanceof Refusal) return null
        throw error
      }
    },
    look: async (line) => {
      const moved = await transitionLine(database, line)
      return moved && ids.indexOf(moved.todo.id)
    },
    age: async (place, what) => {
      await database.query(`update todos set ${SETS[what]} where id = $1`, [ids[place]])
    },
    check: async (model) => {
      const rows = await database.query<Record<string, unknown>>(
        `select state, owner, fence::int, seq, attempt, unread, attempts_total as attempts, line,
          later_line as later, front, due_at is not null as dated, answered_at is not null as answered, join_until,
          finished_at is not null as finished, ready_reason is not null as bell,
          (select count(*)::int from attempts where todo_id = t.id and ended_at is null) as open,
          coalesce((select cause = 'never_started' from attempts where todo_id = t.id
            and ended_at is not null order by seq desc limit 1), false) as unstarted,
          unheard_since is not null as unheard,
          join_until is null and join_timeout_at is not null as timed_out,
          exists (select from attempts where todo_id = t.id and ended_at is null
            and cause = 'holder_lost') as lost
        from todos t join unnest($1::uuid[]) with ordinality as w(id, place) using (id)
        order by place`,
        [ids],
      )
      expect(rows).toEqual(
        model.map((row) => ({
          state: row.state,
          owner: row.owner === null ? null : AGENTS[row.owner],
          fence: row.fence,
          seq: row.seq,
          attempt: row.attempt,
          unread: row.unread,
          attempts: row.attempts,
          line: row.line,
          later: row.later,
          front: row.front,
          dated: row.due !== 'never',
          answered: row.answered !== null,
          join_until: row.join?.until ?? null,
          finished: finished(row),
          bell: row.bell,
          open: row.openAttempts,
          unstarted: row.unstarted,
          unheard: row.unheard,
          timed_out: row.timedOut,
          lost: row.lost,
        })),
      )
      await expectTotals(database, client)
      // By turns events are not yet placed, not yet counted, counted in part.
      looked += 1
      if (looked % 3 === 0) await sequenceEvents(database, 1000)
      if (looked % 5 === 0) await countTodos(database, 10)
      for (const { state, openAttempts } of model) {
        expect(openAttempts).toBe(OPEN_STATES.includes(state) ? 1 : 0)
      }
    },
  }
}
