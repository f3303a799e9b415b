/**
 * A life of todos, of which there is nothing but their rows: all verbs, drawn by a seed, and what
 * the nodes do meanwhile: place, delete, count.
 */
import { randomUUID } from 'node:crypto'
import { Refusal } from '../../src/domain/errors.ts'
import { rule, type State, VERB_NAMES, type Verb } from '../../src/domain/lifecycle.ts'
import { forgetTodos, type Position } from '../../src/store/admin/retention.ts'
import { addTodo, addTodos, type NewTodo } from '../../src/store/move/add.ts'
import { transitionLine, tryTransition } from '../../src/store/move/move.ts'
import type { Database } from '../../src/store/postgres/database.ts'
import { countTodos } from '../../src/store/todos/counts.ts'
import { sequenceEvents } from '../../src/store/todos/events.ts'
import { randomOf } from '../support/seeded.ts'
import { AGES } from './model/model.ts'
import { AGENTS, changeOf, SETS } from './model/world.ts'

export const QUEUES = ['q', 'r', 's']
export const CLIENTS = [randomUUID(), randomUUID(), randomUUID()]
const LINES = [randomUUID(), randomUUID()]

const newTodo = (random: () => number, more: Partial<NewTodo> = {}): NewTodo => ({
  id: randomUUID(),
  queue: pick(random, QUEUES),
  contextId: 'c',
  clientId: pick(random, [...CLIENTS, null]),
  priority: 1,
  maxAttempts: 2,
  message: { messageId: randomUUID(), role: 'ROLE_USER', parts: [{ text: 'x' }] },
  timeouts: { heartbeat: 600, scheduleToClose: 86_400 },
  detail: {},
  ...more,
})

function pick<T>(random: () => number, all: readonly T[]): T {
  return all[Math.floor(random() * all.length)] as T
}

interface Standing {
  id: string
  state: State
  owner: string | null
  fence: string
}

export const USUAL: readonly Verb[] = ['claim', 'complete', 'fail', 'release', 'join', 'interrupt']

/** A verb that may leave the state of one of some todos, by its holder. */
const move = async (database: Database, random: () => number, ids: string[]): Promise<string> => {
  const [row] = await database.query<Standing>(
    'select id, state, owner, fence from todos where id = $1',
    [pick(random, ids.slice(-20))],
  )
  if (!row) return 'gone'
  const allowed = VERB_NAMES.filter((verb) => rule(verb).from.includes(row.state))
  const usual = allowed.filter((verb) => USUAL.includes(verb))
  const verb = pick(random, usual.length > 0 && random() < 0.6 ? usual : allowed)
  if (verb === undefined) return 'ended'
  const step = {
    verb,
    agent: (row.owner === AGENTS[1] ? 1 : 0) as 0 | 1,
    staleFence: false,
    asked: 'input-required' as const,
    park: random() < 0.3,
    retry: random() < 0.7,
    delay: false,
    acknowledgeAll: true,
    until: 'any' as const,
    timeout: random() < 0.5,
    children: [],
  }
  const joined = { children: [pick(random, ids)] }
  const change = { ...changeOf({ fence: Number(row.fence) }, step, []), ...joined }
  return (await tryTransition(database, verb, row.id, change)) ? verb : 'not allowed'
}

/** Lets a time pass for some of what waits for it, or makes old what has ended. */
const age = async (database: Database, random: () => number, ids: string[]): Promise<string> => {
  const some = ids.filter(() => random() < 0.3)
  if (random() < 0.4) {
    await database.query(
      `update todos set finished_at = now() - interval '40 days'
      where id = any($1) and finished_at is not null`,
      [some],
    )
    return 'old'
  }
  const what = pick(random, AGES)
  const where = {
    lapse: `state = 'claimed'`,
    due: `due_at is not null`,
    retry: `next_retry_at is not null`,
    expire: `interrupted_at is not null`,
    silence: `state = 'claimed'`,
    late: 'finished_at is null',
    gone: 'interrupted_at is not null and owner is not null',
    overdue: 'join_timeout_at is not null',
    time: 'later_line is not null',
  }[what]
  await database.query(`update todos set ${SETS[what]} where id = any($1) and ${where}`, [some])
  return what
}

const begin = async (database: Database, random: () => number, ids: string[]): Promise<string> => {
  const kind = pick(random, ['plain', 'many', 'refused', 'in line', 'child'] as const)
  const line = { line: pick(random, LINES) }
  const parent = { parent: { id: pick(random, ids), depth: 1, closeAt: null } }
  const more = { refused: { rejected: true }, 'in line': line, child: parent, plain: {}, many: {} }
  const made = newTodo(random, more[kind])
  if (kind === 'many') {
    const all = Array.from({ length: 3 }, () => newTodo(random))
    ids.push(...all.map(({ id }) => id))
    await addTodos(database, all)
    return kind
  }
  ids.push(made.id)
  await addTodo(database, made)
  return kind
}

const forget = async (database: Database, queue: string): Promise<number> => {
  let sum = 0
  let place: Position | null = null
  do {
    const { deleted, next } = await forgetTodos(database, queue, place)
    sum += deleted
    place = next
  } while (place)
  return sum
}

type Duty = 'place' | 'count' | 'forget'

export interface Life {
  /** How often what has come about. */
  readonly happened: Readonly<Record<string, number>>
  /** So many steps of one writer, on one of the nodes. */
  write(number: number, steps: number): Promise<void>
  /** What every node does over and over, with whatever else is to be done so, until `work` is over. */
  during(work: Promise<unknown>, duties: readonly Duty[], ...more: (() => unknown)[]): Promise<void>
}

/** `nodes` share a database that has the queues. */
export const createLife = (nodes: readonly Database[], seed: number): Life => {
  const happened: Record<string, number> = {}
  const count = (what: string): void => {
    happened[what] = (happened[what] ?? 0) + 1
  }
  const random = randomOf(seed)
  const duties: Record<Duty, (node: Database) => Promise<unknown>> = {
    place: async (node) => (await sequenceEvents(node, 7))?.length,
    count: (node) => countTodos(node, 5),
    forget: (node) => forget(node, pick(random, QUEUES)),
  }

  return {
    happened,

    write: async (number, steps) => {
      const drawn = randomOf(seed * 31 + number)
      const database = nodes[number % nodes.length]!
      const ids: string[] = [newTodo(drawn).id]
      for (let step = 0; step < steps; step += 1) {
        const roll = drawn()
        const act = roll < 0.15 ? begin : roll < 0.22 ? age : move
        try {
          if (roll > 0.95) {
            const moved = await transitionLine(database, pick(drawn, LINES))
            count(moved ? 'line' : 'not allowed')
          } else count(await act(database, drawn, ids))
        } catch (error) {
          if (!(error instanceof Refusal)) throw error
          count(error.kind)
        }
      }
    },

    during: async (work, names, ...more) => {
      let over = false
      const meanwhile = async (each: () => unknown, what?: string): Promise<void> => {
        while (!over) if ((await each()) && what !== undefined) count(what)
      }
      const all = nodes.flatMap((node) =>
        names.map((name) => meanwhile(() => duties[name](node), name)),
      )
      const ended = work.finally(() => {
        over = true
      })
      await Promise.all([ended, ...all, ...more.map((each) => meanwhile(each, 'looked'))])
    },
  }
}
