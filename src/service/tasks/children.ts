/**
 * Child tasks: added within their parent's budget, waited for without a holder, canceled with their
 * parent. A child that ends wakes its parent after the commit, and the parent looks after its own;
 * what is missed even so, the sweep finds, so that no join hangs.
 *
 * Budgets only shrink (docs/design/lifecycle-layer.md, section 8): a child may do what is among its
 * parent's effects, and no fixed catalog says otherwise. Depth and number are bounded.
 */

import { defined } from '../../base/defined.ts'
import { idFrom, newId } from '../../base/uuid.ts'
import { invalid, isRefusal, Refusal } from '../../domain/errors.ts'
import { TIMEOUT_NAMES, type Timeouts } from '../../domain/policy.ts'
import { type Amounts, isEmpty, kindsBeyond, leftOf, smaller } from '../../domain/spend.ts'
import type { JoinTerms, Message, Todo } from '../../domain/todo.ts'
import { addTodo, type NewTodo } from '../../store/move/add.ts'
import type { Change } from '../../store/move/change.ts'
import {
  countLiveChildren,
  readCutShort,
  readLeftByJoins,
  readStalledJoins,
  readStranger,
} from '../../store/move/children.ts'
import { type Moved, tryTransition } from '../../store/move/move.ts'
import type { Session } from '../../store/postgres/database.ts'
import { readChildrenMade } from '../../store/todos/repeats.ts'
import { topics } from '../../store/wake/topics.ts'
import { type Checks, createChecks } from '../chores.ts'
import { countEnded } from '../count-ended.ts'
import type { Parts } from '../parts.ts'
import { sweepEach } from '../sweep-runner.ts'
import { cancelBelow, cancelIfLive } from './cancel.ts'
import { excerpt } from './text.ts'

/** A child to be made. What it leaves out comes from its parent, or from its queue. */
export interface NewChild {
  queue: string
  message: Message
  effects?: string[]
  /** Within what its parent has left, which it shares. */
  budget?: Amounts
  /** The same as `timeouts.scheduleToClose`. */
  deadlineSeconds?: number
  /** None is longer than its parent's own. */
  timeouts?: Timeouts
  maxAttempts?: number
}

const MAX_DEPTH = 8
const AT_ONCE = [0]
const MAX_LIVE_CHILDREN = 1000

/** What both allow; null is everything. */
export const narrower = (
  a: readonly string[] | null,
  b: readonly string[] | null,
): string[] | null => {
  if (a === null || b === null) return (a ?? b)?.slice() ?? null
  return a.filter((effect) => b.includes(effect))
}

/**
 * The effects of a child: the requested ones, else its parent's; null is everything. Refuses:
 * forbidden, naming what the parent may not do itself.
 */
export const shrink = (
  parent: readonly string[] | null,
  requested: readonly string[] | undefined,
): readonly string[] | null => {
  if (requested === undefined) return parent
  const refused = parent === null ? [] : requested.filter((effect) => !parent.includes(effect))
  if (refused.length === 0) return [...new Set(requested)]
  throw new Refusal('forbidden', { refused }, `The budget has no ${refused.join(', ')} to give`)
}

const deadlineOf = ({ deadlineSeconds }: NewChild): Timeouts =>
  defined({ scheduleToClose: deadlineSeconds })

/** Of the timeouts that are asked for a child, each at most what its parent has; its end is a moment. */
const within = (asked: Timeouts, parent: Todo): Timeouts => {
  const bounds: Record<keyof Timeouts, number | null> = {
    scheduleToStart: parent.scheduleToStartSeconds,
    startToClose: parent.startToCloseSeconds,
    heartbeat: parent.heartbeatSeconds,
    scheduleToClose: null,
  }
  const bounded = (name: keyof Timeouts): number | undefined =>
    asked[name] && Math.min(asked[name], bounds[name] ?? Number.POSITIVE_INFINITY)
  return defined(
    Object.fromEntries(TIMEOUT_NAMES.map((name) => [name, bounded(name)])) as Record<
      keyof Timeouts,
      number | undefined
    >,
  )
}

/** What a join brings to its move. */
export const joining = ({
  until,
  timeoutSeconds,
  onTimeout,
}: { [K in keyof JoinTerms]: JoinTerms[K] | undefined } & Pick<JoinTerms, 'until'>): Change =>
  defined({
    joinUntil: until,
    joinSeconds: timeoutSeconds,
    joinCancels: onTimeout === 'cancel' || undefined,
  })
/** The budget of a child: what was asked for, else what its parent has left; null is without limit. Refuses: forbidden. */
const budgetFor = (
  parent: Pick<Todo, 'budget' | 'spent'>,
  asked: Amounts | undefined,
): Amounts | null => {
  const left = leftOf(parent.budget, parent.spent)
  const refused = asked ? kindsBeyond(asked, left) : []
  if (refused.length > 0) {
    const most = refused.map((kind) => `${left[kind]} ${kind}`).join(', ')
    throw new Refusal('forbidden', { refused }, `The budget has no more to give than ${most}`)
  }
  const budget = { ...left, ...asked }
  return isEmpty(budget) ? null : budget
}

/** What of this the parent has left. */
const cutTo = (parent: Pick<Todo, 'budget' | 'spent'>, budget: Amounts = {}): Amounts =>
  smaller(budget, leftOf(parent.budget, parent.spent))

/** Of the parent's: by which children are known when they are asked for again. */
interface Once {
  parentId: string
  key: string
}

export interface ChildTasks {
  /**
   * Adds children of the todo that `lock` locks, in one transaction. Refuses: forbidden, limit,
   * idempotency_conflict (the key was used for others).
   */
  fork(
    children: readonly NewChild[],
    once: Once | undefined,
    lock: (session: Session) => Promise<{ parent: Todo; clientId: string | null }>,
  ): Promise<{ id: string; queue: string }[]>
  /**
   * Adds the retry of a dead child: a child again if its parent lives. Refuses: limit, not_found
   * (its queue).
   */
  retry(dead: Todo, todo: Omit<NewTodo, 'parent'>): Promise<Todo>
  /** Parks the parent by this move. Refuses ids that are not its children. */
  join(parentId: string, children: readonly string[], move: () => Promise<Moved>): Promise<Todo>
  /**
   * Cancels the children that joins of these parents, or of any, were to cancel when their time was up;
   * how many.
   */
  cancelLeft(parents: readonly string[] | null): Promise<number>
  /** Wakes parents that missed it, and goes on with cascades cut short; how many todos. */
  sweep(): Promise<number>
  /** The parents of which a child has ended. */
  checks: Checks
  start(): void
  stop(): void
}

/** The id of a child that is asked for under a key: the same whenever it is asked for. */
const childId = ({ parentId, key }: Once, place: number): string =>
  idFrom(parentId, JSON.stringify([parentId, key, place]))

/** What a fork under this key has made before. Throws the refusal where it was another, or none. */
const madeBefore = async (
  database: Session,
  refusal: unknown,
  once: Once | undefined,
  ids: readonly string[],
  children: readonly NewChild[],
): Promise<{ id: string; queue: string }[]> => {
  if (!once || !isRefusal(refusal, 'duplicate', 'limit')) throw refusal
  const made = await readChildrenMade(database, once.parentId, ids)
  if (made.length === 0) throw refusal
  const isSame = ({ queue, message }: (typeof made)[number], place: number): boolean =>
    queue === children[place]?.queue && message.messageId === children[place].message.messageId
  if (made.length !== children.length || !made.every(isSame)) {
    throw new Refusal('idempotency_conflict')
  }
  return made.map(({ id, queue }) => ({ id, queue }))
}

/** The parent is locked, so nobody else gives it children meanwhile. Refuses: limit. */
const checkNumber = async (session: Session, parentId: string, more: number): Promise<void> => {
  if ((await countLiveChildren(session, parentId)) + more > MAX_LIVE_CHILDREN) {
    throw new Refusal('limit', { limit: MAX_LIVE_CHILDREN })
  }
}

export const createChildTasks = (parts: Omit<Parts, 'pollMs'>): ChildTasks => {
  const { database, registry, wakes, metrics, stuckRows } = parts
  let off: () => void = () => {}

  const addOne = async (
    session: Session,
    parent: Todo,
    child: NewChild,
    clientId: string | null,
    id: string,
  ): Promise<Todo> => {
    const queue = await registry.queue(child.queue)
    const { timeouts, maxAttempts } = queue?.policy ?? {}
    const contextId = newId()
    const asked = within({ ...child.timeouts, ...deadlineOf(child) }, parent)
    const effects = shrink(parent.effects, child.effects)
    const budget = budgetFor(parent, child.budget)
    const added = await addTodo(session, {
      id,
      queue: child.queue,
      contextId,
      clientId,
      author: parent.author,
      priority: parent.priority,
      maxAttempts: child.maxAttempts ?? maxAttempts ?? 1,
      message: { ...child.message, role: 'ROLE_USER', taskId: id, contextId },
      timeouts: { ...timeouts, ...asked },
      detail: { text: excerpt(child.message) },
      parent: { id: parent.id, depth: parent.depth + 1, closeAt: parent.closeAt },
      ...(effects && { effects }),
      ...(budget && { budget }),
    })
    if (!added) throw new Refusal('forbidden', {}, `There is no queue ${child.queue} for a child`)
    return added
  }

  const notMoved = (todo: string, error: unknown): void =>
    stuckRows('reap', { todo }, 'a todo of a family could not be moved', error)

  /** Wakes the parent if its join holds; whether it did. */
  const look = async (parentId: string): Promise<boolean> =>
    (await tryTransition(database, 'joined', parentId, {})) !== null
  const checks = createChecks({ of: 'todo', check: look })

  /** A child that ends meanwhile is left as it ended. */
  const cancelLeft: ChildTasks['cancelLeft'] = (parents) =>
    sweepEach(
      (due) => readLeftByJoins(database, due, parents),
      async (id) => {
        await cancelIfLive(database, metrics, id)
        return true
      },
      notMoved,
    )

  return {
    fork: async (children, once, lock) => {
      const ids = children.map((_, place) => (once ? childId(once, place) : newId()))
      const adding = database.transaction(async (session) => {
        const { parent, clientId } = await lock(session)
        if (parent.depth >= MAX_DEPTH) throw new Refusal('limit', { limit: MAX_DEPTH })
        await checkNumber(session, parent.id, children.length)
        const todos: Todo[] = []
        for (const [place, child] of children.entries()) {
          todos.push(await addOne(session, parent, child, clientId, ids[place]!))
        }
        return todos.map(({ id, queue }) => ({ id, queue }))
      })
      const before = await adding.then(
        () => null,
        // A repeat may be held to the limit that its own children have filled.
        (refusal: unknown) => madeBefore(database, refusal, once, ids, children),
      )
      if (before) return before
      const added = await adding
      for (const { queue } of added) metrics.todosSent.inc({ queue })
      return added
    },
    retry: async (dead, todo) => {
      const added = await database.transaction(async (session) => {
        const { id: of, parentId, depth } = dead
        const change = { retry: { of, by: todo.id } }
        const adopted = parentId && (await tryTransition(session, 'adopt', parentId, change))
        const parent = adopted ? adopted.todo : null
        if (parent) await checkNumber(session, parent.id, 1)
        const budget = parent ? budgetFor(parent, cutTo(parent, todo.budget)) : todo.budget
        const retried = await addTodo(session, {
          ...todo,
          ...(budget && { budget }),
          parent: { id: parent?.id ?? null, depth, closeAt: parent?.closeAt ?? null },
        })
        if (!retried) throw new Refusal('not_found', {}, `there is no queue ${todo.queue} any more`)
        return retried
      })
      metrics.todosSent.inc({ queue: added.queue })
      return added
    },
    join: async (parentId, children, move) => {
      const stranger = await readStranger(database, parentId, children)
      if (stranger !== null) {
        throw invalid(`children[${children.indexOf(stranger)}]`, 'is not a child of this todo')
      }
      const moved = await move()
      countEnded(metrics, moved, 'released')
      // A child may have ended a moment ago, when nobody waited for it yet.
      await look(parentId)
      return moved.todo
    },
    cancelLeft,
    sweep: async () => {
      let orphans = await cancelLeft(null)
      const cascade = async (id: string): Promise<boolean> => {
        const ended = await cancelBelow(database, metrics, [id])
        orphans += ended
        return ended > 0
      }
      await sweepEach((due) => readCutShort(database, due), cascade, notMoved)
      return orphans + (await sweepEach((due) => readStalledJoins(database, due), look, notMoved))
    },
    checks,
    start: () => {
      off = wakes.onPrefix(topics.parent.prefix, (parentId) => checks.ask(parentId, AT_ONCE))
    },
    stop: () => off(),
  }
}
