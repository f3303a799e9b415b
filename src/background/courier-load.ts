/**
 * What a courier has under way, by host and by the endpoint that made the config, and who has had
 * enough. Slots are lent twice: first to those below an even share of them, and only what these do not
 * want to whoever wants it. So one endpoint may use all slots while it is alone, and another waits for
 * one round of tries at most.
 */
import type { Outbox, Owed } from '../service/push/outbox.ts'

type Where = Pick<Owed, 'host' | 'endpoint'>
type Asked = Pick<Parameters<Outbox['lease']>[0], 'busy' | 'crowded' | 'share'>

export interface Load {
  begin(delivery: Where): void
  end(delivery: Where): void
  /** What to pass over: only full hosts, or, where it is to be fair, all that have their share. */
  asked(fair: boolean): Asked
}

/** A count by key; what is at zero is not there. */
const createTally = () => {
  const counts = new Map<string, number>()
  return {
    counts,
    add: (key: string, by: 1 | -1): void => {
      const count = (counts.get(key) ?? 0) + by
      if (count > 0) counts.set(key, count)
      else counts.delete(key)
    },
  }
}

export const createLoad = (limits: { concurrency: number; perHost: number }): Load => {
  const hosts = createTally()
  const endpoints = createTally()
  /** An endpoint at a host, as `host endpoint`. */
  const pairs = createTally()

  const add = ({ host, endpoint }: Where, by: 1 | -1): void => {
    hosts.add(host, by)
    endpoints.add(endpoint, by)
    pairs.add(`${host} ${endpoint}`, by)
  }

  /** An even part of `slots` for each of those there are and one more. */
  const share = (slots: number, there: number): number =>
    Math.max(1, Math.floor(slots / Math.max(2, there + 1)))

  const crowdedPairs = (): string[] => {
    const there = createTally()
    const hostOf = (pair: string): string => pair.slice(0, pair.indexOf(' '))
    for (const pair of pairs.counts.keys()) there.add(hostOf(pair), 1)
    return [...pairs.counts]
      .filter(([pair, n]) => n >= share(limits.perHost, there.counts.get(hostOf(pair)) ?? 0))
      .map(([pair]) => pair)
  }

  return {
    begin: (delivery) => add(delivery, 1),
    end: (delivery) => add(delivery, -1),
    asked: (fair) => {
      const busy = hosts.counts
      const none = { endpoints: [], pairs: [], counts: new Map<string, number>() }
      if (!fair) return { busy, crowded: none, share: limits.concurrency }
      const most = share(limits.concurrency, endpoints.counts.size)
      const over = [...endpoints.counts].filter(([, n]) => n >= most).map(([endpoint]) => endpoint)
      const crowded = { endpoints: over, pairs: crowdedPairs(), counts: endpoints.counts }
      return { busy, crowded, share: most }
    },
  }
}
