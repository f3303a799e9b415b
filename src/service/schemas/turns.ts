/**
 * Who has the thread next. Each endpoint pays for what its schemas cost: it rests for a while after
 * something costly, and whoever has cost less goes first. So nobody's check waits for more than what
 * runs at that moment, and a costly answer holds up neither another question nor another agent.
 */
import { Refusal } from '../../domain/errors.ts'

export interface Turn {
  /** The endpoint whose schema it is; null for one of nobody. */
  owner: string | null
  /** Within an endpoint: the todo. Its costly checks come after those of others. */
  subject: string
}

export interface TurnLimits {
  /** How much may wait for one todo, and for one endpoint. */
  perSubject: number
  perOwner: number
  /** How long one may wait. */
  waitMs: number
  /** What took less is not costly. */
  costlyMs: number
  /** A rest is this many times as long as what was costly. */
  restFactor: number
  /** After so long without work an endpoint's costs are forgotten. */
  forgetMs: number
}

export interface Turns {
  /** Runs `work` when its turn has come, one at a time; `ms` is what it costs. Refuses: unavailable. */
  take<T extends { ms: number }>(turn: Turn, work: () => Promise<T>): Promise<T>
  stop(): void
}

interface Waiting {
  subject: string
  /** Resolves to what it has cost, however it ended. */
  run: () => Promise<number>
  refuse: (retryAfterSeconds: number) => void
}

interface Owner {
  waiting: Waiting[]
  costMs: number
  costs: Map<string, number>
  restsUntil: number
  seenAt: number
}

const MAX_OWNERS = 1000
const MAX_SUBJECTS = 200
const BUSY = 'Too many answers wait for a check against a schema'

export const createTurns = (
  limits: TurnLimits,
  now: () => number = () => performance.now(),
): Turns => {
  const owners = new Map<string | null, Owner>()
  let running = false
  let alarm: NodeJS.Timeout | undefined

  const ownerOf = (id: string | null): Owner => {
    const at = now()
    for (const [key, owner] of owners) {
      const isOld = at - owner.seenAt > limits.forgetMs || owners.size > MAX_OWNERS
      if (owner.waiting.length === 0 && owner.restsUntil <= at && isOld) owners.delete(key)
    }
    const owner = owners.get(id) ?? {
      waiting: [],
      costMs: 0,
      costs: new Map<string, number>(),
      restsUntil: 0,
      seenAt: at,
    }
    owners.set(id, owner)
    owner.seenAt = at
    return owner
  }

  const charge = (owner: Owner, subject: string, ms: number): void => {
    owner.seenAt = now()
    if (ms < limits.costlyMs) return
    owner.costMs += ms
    owner.costs.set(subject, (owner.costs.get(subject) ?? 0) + ms)
    if (owner.costs.size > MAX_SUBJECTS) owner.costs.delete(owner.costs.keys().next().value!)
    owner.restsUntil = now() + ms * limits.restFactor
  }

  const costOf = ({ costs }: Owner, { subject }: Waiting): number => costs.get(subject) ?? 0

  /** The first of those that have cost least. */
  const leastOf = <T>(all: readonly T[], cost: (one: T) => number): T | undefined =>
    all.reduce<T | undefined>(
      (least, one) => (least === undefined || cost(one) < cost(least) ? one : least),
      undefined,
    )

  const next = (): void => {
    clearTimeout(alarm)
    if (running) return
    const waiting = [...owners.values()].filter((owner) => owner.waiting.length > 0)
    const rested = waiting.filter(({ restsUntil }) => restsUntil <= now())
    const owner = leastOf(rested, ({ costMs }) => costMs)
    if (!owner) {
      const soonest = Math.min(...waiting.map(({ restsUntil }) => restsUntil))
      if (waiting.length > 0) alarm = setTimeout(next, Math.max(1, soonest - now()))
      return
    }
    const one = leastOf(owner.waiting, (job) => costOf(owner, job))!
    owner.waiting.splice(owner.waiting.indexOf(one), 1)
    running = true
    void one.run().then((ms) => {
      running = false
      charge(owner, one.subject, ms)
      next()
    })
  }

  /** Makes room for one more, at the cost of what is likely to be costly, itself included. */
  const admit = (owner: Owner, one: Waiting): void => {
    owner.waiting.push(one)
    const ofSubject = owner.waiting.filter(({ subject }) => subject === one.subject)
    let victim: Waiting | undefined
    if (ofSubject.length > limits.perSubject) victim = one
    else if (owner.waiting.length > limits.perOwner) {
      victim = leastOf(owner.waiting.toReversed(), (job) => -costOf(owner, job))
    }
    if (!victim) return
    owner.waiting.splice(owner.waiting.indexOf(victim), 1)
    victim.refuse(Math.max(1, Math.ceil((owner.restsUntil - now()) / 1000)))
  }

  return {
    take: <T extends { ms: number }>({ owner: id, subject }: Turn, work: () => Promise<T>) =>
      new Promise<T>((done, failed) => {
        const owner = ownerOf(id)
        const refuse = (retryAfterSeconds: number): void => {
          clearTimeout(late)
          failed(new Refusal('unavailable', { retryAfterSeconds }, BUSY))
        }
        const one: Waiting = {
          subject,
          refuse,
          run: async () => {
            clearTimeout(late)
            try {
              const result = await work()
              done(result)
              return result.ms
            } catch (error) {
              failed(error)
              return 0
            }
          },
        }
        const late = setTimeout(() => {
          owner.waiting.splice(owner.waiting.indexOf(one), 1)
          refuse(Math.max(1, Math.ceil((owner.restsUntil - now()) / 1000)))
        }, limits.waitMs)
        admit(owner, one)
        next()
      }),
    stop: () => {
      clearTimeout(alarm)
      for (const owner of owners.values()) {
        for (const one of owner.waiting.splice(0)) one.refuse(1)
      }
    },
  }
}
