/**
 * An agent of the chaos run, as a process of its own to be killed and frozen. What it does is what
 * the task's text says; each step is told with its fence (support/tale.ts). It claims once it is told
 * a line, its server's address and its token, so that some are always loaded; SIGTERM ends it as it
 * would end any agent.
 */
import { once } from 'node:events'
import { createAgent } from '../../src/agent-kit/agent.ts'
import type { Handler } from '../../src/agent-kit/attempt.ts'
import type { Context, Outcome } from '../../src/agent-kit/context.ts'
import { NonRetryable } from '../../src/agent-kit/errors.ts'
import { textOf } from '../../src/agent-kit/wire.ts'
import { sleep } from '../../src/base/time.ts'
import { taleOf, tell, words } from '../support/tale.ts'
import { CHUNKS, LEASE_SECONDS, type Work } from './work.ts'

type Tale = ReturnType<typeof taleOf>

/** A little while, up to `ms`. */
const while_ = ({ signal }: Context, ms: number): Promise<void> => sleep(Math.random() * ms, signal)

/** Whether an attempt before this one has asked, and was answered. */
const wasAnswered = ({ todo: { history } }: Context): boolean => {
  const asked = history.findLastIndex(({ messageId }) => messageId.startsWith('ask-'))
  return asked >= 0 && history.slice(asked).some(({ role }) => role === 'ROLE_USER')
}

const writes = async (ctx: Context, { does }: Tale): Promise<void> => {
  const artifactId = `artifact-${ctx.todo.fence}`
  for (let n = 0; n < CHUNKS; n += 1) {
    const parts = [{ text: String(n) }]
    await does(artifactId, () => ctx.artifact({ artifactId, append: n > 0, parts }))
    await while_(ctx, 150)
  }
}

const asks = async (ctx: Context, { tell }: Tale, auth: boolean): Promise<void> => {
  if (wasAnswered(ctx)) return
  const name = `ask-${ctx.todo.fence}`
  tell({ what: 'tries', name })
  const answer = await (auth ? ctx.requireAuth(words(name)) : ctx.requireInput(words(name)))
  tell({ what: 'did', name })
  tell({ what: 'answered', name: answer.messageId })
}

/** Ends the attempt in its own way; what comes back is true where the handler is to return. */
type Way = (ctx: Context, tale: Tale) => Promise<boolean>

const end = (name: string, act: (ctx: Context) => Promise<void>): Way => {
  return async (ctx, { tell }) => {
    tell({ what: 'tries', name: `${name}-${ctx.todo.fence}` })
    await act(ctx)
    return true
  }
}

const WAYS: Record<Work, Way> = {
  work: async () => false,
  linger: async (ctx, { does }) => {
    for (let n = 0; n < 4; n += 1) {
      await while_(ctx, 700)
      await does(`progress-${ctx.todo.fence}`, () => ctx.progress(`step ${n}`))
    }
    return false
  },
  ask: async (ctx, tale) => {
    await asks(ctx, tale, false)
    return false
  },
  authorize: async (ctx, tale) => {
    await asks(ctx, tale, true)
    return false
  },
  park: async (ctx, { tell }) => {
    if (wasAnswered(ctx)) return false
    const name = `ask-${ctx.todo.fence}`
    tell({ what: 'tries', name })
    await ctx.park(words(name))
    return true
  },
  fail: async ({ todo }) => {
    if (todo.attempt === 1) throw new Error('the first attempt fails')
    return false
  },
  die: async () => {
    throw new NonRetryable('never to be tried again', { code: 'hopeless' })
  },
  decline: end('decline', (ctx) => ctx.reject(words(`decline-${ctx.todo.fence}`))),
  'hand back': async (ctx) => {
    if (ctx.todo.attemptsTotal > 1) return false
    await ctx.release({ summary: 'for another' })
    return true
  },
  fork: async (ctx, { does }) => {
    let ids = ctx.todo.children.map(({ id }) => id)
    if (ids.length === 0) {
      await does(`fork-${ctx.todo.fence}`, async () => {
        ids = await ctx.fork([1, 2].map(() => ({ queue: 'kids', message: 'work' })))
      })
    } else if (ctx.todo.children.every(({ state, retrying }) => isOver(state, retrying))) {
      return false
    }
    await ctx.join(ids)
    return true
  },
}

const isOver = (state: string, retrying: boolean): boolean =>
  ['done', 'canceled', 'rejected'].includes(state) || (state === 'failed' && !retrying)

const work: Handler = async (ctx): Promise<Outcome> => {
  const { fence, message } = ctx.todo
  const tale = taleOf(ctx)
  tale.tell({ what: 'claimed' })
  ctx.onMessage(({ messageId }) => void tale.tell({ what: 'got', name: messageId }))
  try {
    await tale.does(`say-${fence}`, () => ctx.say(words(`say-${fence}`)))
    await while_(ctx, 150)
    if (await WAYS[textOf(message) as Work](ctx, tale)) return
    await writes(ctx, tale)
    tale.tell({ what: 'tries', name: `end-${fence}` })
    return { message: words(`end-${fence}`), result: { fence } }
  } catch (error) {
    tale.threw(error)
    throw error
  }
}

/** Of what the kit logs, that the server said a todo is complete. */
const debug = (facts: object, text: string): void => {
  if (text !== 'todo completed') return
  const { todo: id, fence } = facts as { todo: string; fence: string }
  tell({ what: 'did', id, fence, name: `end-${fence}` })
}
const quiet = () => {}
const log = { debug, info: quiet, warn: quiet, error: quiet }
process.stdout.write('loaded\n')
const [line] = (await once(process.stdin, 'data')) as [Buffer]
const [url, token] = line.toString().trim().split(' ') as [string, string]
const agent = createAgent({ url, token, concurrency: 4, leaseSeconds: LEASE_SECONDS, log }, work)
agent.start()
process.once('SIGTERM', () => {
  void agent.stop({ graceMs: 300 }).then(() => process.exit(0))
})
