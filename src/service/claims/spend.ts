/**
 * Spending: counted in the row of the todo and of all above it, which share one budget with it. A spend
 * that stays within is one statement. One that goes past a budget is counted as well, for it has been
 * spent, and ends its todo in the same transaction.
 */
import { defined } from '../../base/defined.ts'
import { type Caller, endpointWith } from '../../domain/endpoint.ts'
import { Refusal } from '../../domain/errors.ts'
import {
  type Amounts,
  BUDGET_EXHAUSTED,
  kindsBeyond,
  leftOf,
  SPEND_KINDS,
  smaller,
} from '../../domain/spend.ts'
import type { EventDetail } from '../../domain/todo.ts'
import type { Change } from '../../store/move/change.ts'
import { lockSpenders, type Spender } from '../../store/move/children.ts'
import { type Moved, transitionOne, tryTransition } from '../../store/move/move.ts'
import { readDone } from '../../store/todos/repeats.ts'
import type { Parts } from '../parts.ts'
import { type Held, type Holder, scopeOf } from './holder.ts'

/** What the todo has spent, with all below it, and what is left of each kind that has a limit. */
export interface Spent {
  spent: Amounts
  left: Amounts
}

interface SpendParts extends Pick<Parts, 'database'> {
  holder: Holder
}

/** What is left to the todo, by the narrowest of the budgets that it shares. */
const leftIn = (line: readonly Spender[]): Amounts =>
  line.map(({ budget, spent }) => leftOf(budget, spent)).reduce(smaller, {})

const added = (spent: Amounts | null, more: Amounts): Amounts =>
  Object.fromEntries(
    SPEND_KINDS.flatMap((kind) => {
      const sum = (spent?.[kind] ?? 0) + (more[kind] ?? 0)
      return spent?.[kind] === undefined && more[kind] === undefined ? [] : [[kind, sum]]
    }),
  )

/** Whose budget this would go past, with its kinds; null where all can afford it. */
const passed = (line: readonly Spender[], id: string, more: Amounts) => {
  for (const { id: of, budget, spent } of line.toSorted((a) => (a.id === id ? -1 : 0))) {
    const sum = added(spent, more)
    const kinds = budget ? kindsBeyond(sum, budget) : []
    if (kinds.length === 0) continue
    const sums = kinds.map((kind) => `${sum[kind]} of ${budget?.[kind]} ${kind}`).join(', ')
    return { kinds, text: of === id ? `spent ${sums}` : `spent ${sums} of the task it belongs to` }
  }
  return null
}

const exhausted = (id: string, kinds: readonly string[] = [], text = ''): Refusal =>
  new Refusal(
    'budget_exhausted',
    { id, state: 'failed', ...(kinds.length > 0 && { refused: [...kinds] }) },
    text === '' ? undefined : `The budget is exhausted, and the todo has ended: ${text}`,
  )

export const createSpend = ({ database, holder }: SpendParts) => {
  /** Under locks: what is found is what the move will see. */
  const inFamily = (held: Held, amounts: Amounts, change: Change, caller: Caller) =>
    database.transaction(async (session) => {
      const { id } = held
      const line = await lockSpenders(session, id)
      const own = line.find((each) => each.id === id.toLowerCase())
      const key = change.spend?.key
      if (own && key !== undefined && own.keys?.includes(key)) {
        // Read after the lock was had: the statement that waited for it saw no event of the end.
        const end = { id, fence: held.fence, endpoint: change.endpoint!, messageId: undefined }
        if (await readDone(session, 'exhaust', end)) throw exhausted(id)
        return { spent: own.spent ?? {}, left: leftIn(line), over: undefined }
      }
      const over = passed(line, id.toLowerCase(), amounts)
      const scope = scopeOf(endpointWith(caller, 'work'))
      const move = (verb: 'spend' | 'exhaust', more: Change): Promise<Moved> =>
        transitionOne(session, verb, id, { ...change, ...more }, scope)
      if (!over) {
        const { todo } = await move('spend', { afforded: true })
        const after = line.map((each) => ({ ...each, spent: added(each.spent, amounts) }))
        return { spent: todo.spent ?? {}, left: leftIn(after), over: undefined }
      }
      const error = { code: BUDGET_EXHAUSTED, message: over.text }
      const ended = await move('exhaust', {
        detail: { ...change.detail, error },
        result: { error: BUDGET_EXHAUSTED, detail: over.text },
        summary: over.text,
        cause: BUDGET_EXHAUSTED,
      })
      return { ended, over }
    })

  return async (
    { key, tokens, cents, calls, ...held }: Held & Amounts & { key?: string },
    caller: Caller,
  ): Promise<Spent> => {
    const endpoint = endpointWith(caller, 'work')
    const amounts = defined<Amounts>({ tokens, cents, calls })
    const change: Change = {
      endpoint: endpoint.id,
      fence: held.fence,
      spend: { amounts, key: key && `${endpoint.id}/${held.fence}/${key}` },
      detail: { spent: amounts } satisfies EventDetail,
    }
    const moved = await tryTransition(database, 'spend', held.id, change)
    if (moved) {
      const { budget, spent } = moved.todo
      return { spent: spent ?? {}, left: leftOf(budget, spent) }
    }
    const outcome = await inFamily(held, amounts, change, caller)
    if (outcome.over === undefined) return { spent: outcome.spent, left: outcome.left }
    await holder.end(Promise.resolve(outcome.ended), 'failed')
    throw exhausted(held.id, outcome.over.kinds, outcome.over.text)
  }
}
