/**
 * Which faults come when. The same seed makes the same plan; what a fault meets depends on the
 * moment. Faults are dealt like cards, so that each kind comes about as often as it is in the deck.
 */
import { randomOf } from '../support/seeded.ts'

/** Each fault with how long what it does lasts, in ms; zero where it is over at once. */
const FAULTS = {
  /** SIGKILL; a supervisor starts it again after so long. */
  'kill node': [300, 2500],
  /** SIGTERM, as in a rolling restart. */
  'end node': [100, 500],
  /** SIGSTOP, then SIGCONT: it takes up what it was doing as if nothing had been. */
  'freeze node': [500, 4500],
  'kill agent': [0, 1000],
  'end agent': [0, 500],
  /** Past its lease, until another has taken over: a holder that comes back late. */
  'freeze agent': [5000, 14_000],
  /** A clean stop and a start. */
  'restart database': [200, 1500],
  /** kill -9 of all its processes, then recovery. */
  'crash database': [100, 1000],
  /** Connections of one node to the database are reset. */
  'drop database connections': [0, 0],
  /** What the database answers next is lost together with its connection: committed or not? */
  'lose database answers': [0, 0],
  /** Nothing goes through for a while, and nothing is closed. */
  'stall database connections': [500, 3000],
  /** The same three for those who talk to the nodes. */
  'drop connections': [0, 0],
  'lose answers': [0, 0],
  'stall connections': [500, 3000],
} as const satisfies Record<string, readonly [number, number]>

type FaultKind = keyof typeof FAULTS

export interface Fault {
  atMs: number
  kind: FaultKind
  /** Which of them, counted from 0; to be taken modulo how many there are. */
  who: number
  forMs: number
  /** How many answers are lost. */
  count: number
}

/** The gentle ones leave nodes and their database alone, so that no counter of a node is lost. */
const DECKS: Record<'everything' | 'gentle', readonly FaultKind[]> = {
  everything: [
    'kill node',
    'kill node',
    'end node',
    'freeze node',
    'kill agent',
    'kill agent',
    'end agent',
    'freeze agent',
    'freeze agent',
    'restart database',
    'crash database',
    'drop database connections',
    'lose database answers',
    'lose database answers',
    'lose database answers',
    'stall database connections',
    'drop connections',
    'drop connections',
    'lose answers',
    'lose answers',
    'lose answers',
    'stall connections',
  ],
  gentle: [
    'kill agent',
    'end agent',
    'freeze agent',
    'drop connections',
    'lose answers',
    'lose answers',
    'stall connections',
  ],
}

const MEAN_GAP_MS = 550

const shuffled = <T>(items: readonly T[], random: () => number): T[] =>
  items
    .map((item) => [random(), item] as const)
    .sort(([a], [b]) => a - b)
    .map(([, item]) => item)

export const planOf = (seed: number, seconds: number, deck: keyof typeof DECKS): Fault[] => {
  const random = randomOf(seed)
  const plan: Fault[] = []
  let cards: FaultKind[] = []
  for (let atMs = 500; ; ) {
    atMs += Math.round(-Math.log(1 - random()) * MEAN_GAP_MS)
    if (atMs >= seconds * 1000) return plan
    if (cards.length === 0) cards = shuffled(DECKS[deck], random)
    const kind = cards.pop()!
    const [least, most] = FAULTS[kind]
    const forMs = Math.round(least + random() * (most - least))
    plan.push({
      atMs,
      kind,
      who: Math.floor(random() * 1000),
      forMs,
      count: 1 + Math.floor(random() * 4),
    })
  }
}
