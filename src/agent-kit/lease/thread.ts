/**
 * The thread in which all agents of a process claim and renew their leases. The handlers' thread writes
 * into shared memory when it last came round; one that has not for too long is not waited for.
 */
import { parentPort, workerData } from 'node:worker_threads'
import { exactText } from '../../base/exact-json.ts'
import { connect } from '../connection/connection.ts'
import { createKeeper, type Keeper } from './keeper.ts'
import { type Order, threadClock, toPlain, type Word } from './messages.ts'

const { cameRoundAt } = workerData as { cameRoundAt: Float64Array }
const port = parentPort!
const agents = new Map<number, { keeper: Keeper; claims: Map<number, AbortController> }>()

const say = (word: Word): void => port.postMessage(word)

const open = ({ agent, ...order }: Extract<Order, { op: 'open' }>): void => {
  const keeper = createKeeper({
    connection: connect(order),
    mayRenew: () => threadClock() - cameRoundAt[0]! <= order.maxBlockedMs,
    report: (report) =>
      say(
        'beat' in report
          ? { agent, op: 'renewed', ...report }
          : { agent, op: 'failed', ...report, error: toPlain(report.error) },
      ),
  })
  agents.set(agent, { keeper, claims: new Map() })
}

const claim = async ({ agent, call, claim }: Extract<Order, { op: 'claim' }>): Promise<void> => {
  const { keeper, claims } = agents.get(agent)!
  const controller = new AbortController()
  claims.set(call, controller)
  try {
    const todos = await keeper.claim(claim, controller.signal)
    say({ agent, op: 'claimed', call, todos: exactText(todos) })
  } catch (error) {
    say({ agent, op: 'refused', call, error: toPlain(error) })
  } finally {
    claims.delete(call)
  }
}

const obey = (order: Order): void => {
  if (order.op === 'open') {
    open(order)
    return
  }
  const known = agents.get(order.agent)
  if (!known) return
  const { keeper, claims } = known
  switch (order.op) {
    case 'claim':
      void claim(order)
      break
    case 'abort':
      claims.get(order.call)?.abort()
      break
    case 'change':
      keeper.change(order.key, order.change, order.renewed)
      break
    case 'beat':
    case 'drop':
      keeper[order.op](order.key)
      break
    case 'close':
      for (const controller of claims.values()) controller.abort()
      keeper.close()
      agents.delete(order.agent)
  }
}

port.on('message', (orders: readonly Order[]) => {
  for (const order of orders) obey(order)
})
port.postMessage('ready')
