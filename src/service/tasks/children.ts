/**
 * Child tasks: made within their parent's budget, waited for without a holder, canceled with their
 * parent. Whoever ends tells its parent after the commit, and a parent looks after its own; what is
 * missed even so, the sweep finds, so that no join hangs.
 */

import type { Log } from '../../base/log.ts'
import type { Metrics } from '../../base/metrics.ts'
import { newId } from '../../base/uuid.ts'
import { invalid, Refusal } from '../../domain/errors.ts'
import type { Todo } from '../../domain/todo.ts'
import { addTodo, type NewTodo } from '../../store/move/add.ts'
import {
  countLiveChildren,
  readCutShort,
  readStalledJoins,
  readStranger,
} from '../../store/move/children.ts'
import { tryTransition } from '../../store/move/move.ts'
import type { Database, Session } from '../../store/postgres/database.ts'
import { topics } from '../../store/wake/topics.ts'
import type { Wakes } from '../../store/wake/wake.ts'
import type { NewChild } from '../contract.ts'
import type { Registry } from '../registry.ts'
import { sweepEach } from '../sweep-each.ts'
import { DEPTH_AT_MOST, LIVE_CHILDREN_AT_MOST, shrink } from './budget.ts'
import { cancelBelow } from './cancel.ts'
import { excerpt } from './text.ts'

export interface ChildTasks {
  /** Adds children of a todo that is locked in this session. Refuses: forbidden, limit. */
  add(
    session: Session,
    parent: Todo,
    children: readonly NewChild[],
    clientId: string | null,
  ): Promise<{ id: string; queue: string }[]>
  /**
   * The retry of a child that is dead: a child again, where its parent lives. Refuses: limit,
   * not_found (its queue).
   */
  retry(dead: Todo, todo: Omit<NewTodo, 'parent'>): Promise<Todo>
  /** Refuses ids that are not this todo's children. */
  check(parentId: string, children: readonly string[]): Promise<void>
  /** Wakes the parent if its join holds. */
  look(parentId: string): Promise<void>
  /** Tells parents that were not told, and goes on with cascades cut short; how many todos. */
  sweep(): Promise<number>
  start(): void
  stop(): void
}

export interface ChildTasksParts {
  database: Database
  registry: Registry
  wakes: Wakes
  metrics: Metrics
  log: Pick<Log, 'warn'>
}

export const createChildTasks = (parts: ChildTasksParts): ChildTasks => {
  const { database, registry, wakes, metrics, log } = parts
  let off: () => void = () => {}

  /** The parent is locked: nobody else gives it children meanwhile. */
  const requireRoom = async (session: Session, parentId: string, more: number): Promise<void> => {
    if ((await countLiveChildren(session, parentId)) + more > LIVE_CHILDREN_AT_MOST) {
      throw new Refusal('limit', { limit: LIVE_CHILDREN_AT_MOST })
    }
  }

  const addOne = async (
    session: Session,
    parent: Todo,
    child: NewChild,
    clientId: string | null,
  ): Promise<Todo> => {
    const queue = await registry.queue(child.queue)
    const { timeouts, maxAttempts } = queue?.policy ?? {}
    const id = newId()
    const contextId = newId()
    const deadline = child.deadlineSeconds ?? timeouts?.scheduleToClose
    const effects = shrink(parent.effects, child.effects)
    const added = await addTodo(session, {
      id,
      queue: child.queue,
      contextId,
      clientId,
      priority: parent.priority,
      maxAttempts: child.maxAttempts ?? maxAttempts ?? 1,
      message: { ...child.message, role: 'ROLE_USER', taskId: id, contextId },
      timeouts: { ...timeouts, ...(deadline !== undefined && { scheduleToClose: deadline }) },
      detail: { text: excerpt(child.message) },
      parent: { id: parent.id, depth: parent.depth + 1, closeAt: parent.closeAt },
      ...(effects && { effects }),
    })
    if (!added) throw new Refusal('forbidden', {}, `There is no queue ${child.queue} for a child`)
    return added
  }

  const notMoved = (todo: string, error: unknown): void =>
    log.warn({ todo, err: error }, 'a todo of a family could not be moved')

  const look = async (parentId: string): Promise<void> => {
    await tryTransition(database, 'joined', parentId, {})
  }

  return {
    add: async (session, parent, children, clientId) => {
      if (parent.depth >= DEPTH_AT_MOST) throw new Refusal('limit', { limit: DEPTH_AT_MOST })
      await requireRoom(session, parent.id, children.length)
      const added: Todo[] = []
      for (const child of children) added.push(await addOne(session, parent, child, clientId))
      return added.map(({ id, queue }) => ({ id, queue }))
    },
    retry: async (dead, todo) => {
      const added = await database.transaction(async (session) => {
        const { id: of, parentId, depth } = dead
        const change = { retry: { of, by: todo.id } }
        const adopted = parentId && (await tryTransition(session, 'adopt', parentId, change))
        const parent = adopted ? adopted.todo : null
        if (parent) await requireRoom(session, parent.id, 1)
        const made = await addTodo(session, {
          ...todo,
          parent: { id: parent?.id ?? null, depth, closeAt: parent?.closeAt ?? null },
        })
        if (!made) throw new Refusal('not_found', {}, `there is no queue ${todo.queue} any more`)
        return made
      })
      metrics.todosSent.inc({ queue: added.queue })
      return added
    },
    check: async (parentId, children) => {
      const stranger = await readStranger(database, parentId, children)
      if (stranger === null) return
      throw invalid(`children[${children.indexOf(stranger)}]`, 'is not a child of this todo')
    },
    look,
    sweep: async () => {
      let orphans = 0
      const cascade = async (id: string): Promise<boolean> => {
        const ended = await cancelBelow(database, metrics, [id])
        orphans += ended
        return ended > 0
      }
      await sweepEach((due) => readCutShort(database, due), cascade, notMoved)
      const wake = async (id: string) => (await tryTransition(database, 'joined', id, {})) !== null
      return orphans + (await sweepEach((due) => readStalledJoins(database, due), wake, notMoved))
    },
    start: () => {
      off = wakes.onPrefix(topics.parent.prefix, (parentId) => {
        look(parentId).catch((error: unknown) => {
          if (!(error instanceof Refusal))
            log.warn({ todo: parentId, err: error }, 'a join was not told')
        })
      })
    },
    stop: () => off(),
  }
}
