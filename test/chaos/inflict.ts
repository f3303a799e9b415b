/** Does to a town what its plan says, and mends it afterwards. */
import { setTimeout as pause } from 'node:timers/promises'
import { randomOf } from '../support/seeded.ts'
import type { Fault } from './plan.ts'
import type { Town } from './town.ts'

export interface Inflicted {
  /** How many of each kind. */
  counts: Map<string, number>
  /** The database is there, and nothing stands in anybody's way. */
  mended: Promise<void>
}

/** Resolves once the last fault of the plan has begun. */
export const inflict = async (
  { postgres, nodes, front, crew }: Town,
  plan: readonly Fault[],
  seed: number,
  say: (line: string) => void,
): Promise<Inflicted> => {
  const random = randomOf(seed * 73)
  const counts = new Map<string, number>()
  let database: Promise<unknown> = Promise.resolve()

  const withDatabase = (work: () => Promise<unknown>): void => {
    database = database.then(work)
  }
  const away = (stop: () => Promise<void>, forMs: number): void =>
    withDatabase(async () => {
      await stop()
      await pause(forMs)
      await postgres.start()
    })

  const act = ({ kind, who, forMs, count }: Fault): void => {
    const node = nodes[who % nodes.length]!
    const acts = {
      'kill node': () => node.kill(forMs),
      'end node': () => node.end(forMs),
      'freeze node': () => node.freeze(forMs),
      'kill agent': () => crew.kill(who, forMs),
      'end agent': () => crew.end(who, forMs),
      'freeze agent': () => crew.freeze(forMs),
      'restart database': () => away(postgres.stop, forMs),
      'crash database': () => away(postgres.crash, forMs),
      'drop database connections': () => node.database.drop(0.7, random),
      'lose database answers': () => node.database.loseAnswers(count),
      'stall database connections': () => node.database.stall(forMs),
      'drop connections': () => front.drop(0.5, random),
      'lose answers': () => front.loseAnswers(count),
      'stall connections': () => front.stall(forMs),
    }
    acts[kind]()
  }

  const began = performance.now()
  for (const fault of plan) {
    await pause(Math.max(0, fault.atMs - (performance.now() - began)))
    say(`${fault.kind}, ${fault.who % 6}, ${fault.forMs} ms`)
    counts.set(fault.kind, (counts.get(fault.kind) ?? 0) + 1)
    act(fault)
  }
  const mend = async (): Promise<void> => {
    await database
    for (const link of [front, ...nodes.map((node) => node.database)]) link.heal()
  }
  return { counts, mended: mend() }
}
