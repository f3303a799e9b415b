/**
 * How many values a JSON text holds, counted in its bytes before anything is made of them. Four
 * megabytes of tiny values would keep the only thread of the process busy for seconds: they cost
 * some hundred times their size to parse, to check and to store.
 */
import { Refusal } from '../../domain/errors.ts'

/** How many values one body may hold: objects, arrays and what they contain, at any depth. */
export const MAX_VALUES = 200_000
/** So many take the thread for some ten milliseconds. */
const MANY = 20_000

const QUOTE = 0x22
const COMMA = 0x2c
const BACKSLASH = 0x5c
const SPACE = 0x20
const OPEN_ARRAY = 0x5b
const OPEN_OBJECT = 0x7b
const CLOSE_ARRAY = 0x5d
const CLOSE_OBJECT = 0x7d

/**
 * The number of values in a JSON text, or `most + 1` where there are more. What is not JSON gets
 * some number, and is refused when it is parsed.
 */
export const countValues = (bytes: Uint8Array, most: number): number => {
  const { length } = bytes
  let values = 1
  let at = 0
  while (at < length) {
    const byte = bytes[at]
    at += 1
    if (byte === QUOTE) {
      while (at < length) {
        const inside = bytes[at]
        at += inside === BACKSLASH ? 2 : 1
        if (inside === QUOTE) break
      }
    } else if (byte === COMMA) {
      values += 1
      if (values > most) return values
    } else if (byte === OPEN_ARRAY || byte === OPEN_OBJECT) {
      while (at < length && bytes[at]! <= SPACE) at += 1
      const first = bytes[at]
      if (first !== CLOSE_ARRAY && first !== CLOSE_OBJECT) {
        values += 1
        if (values > most) return values
      }
    }
  }
  return values
}

let turns: Promise<unknown> = Promise.resolve()

/** Resolves for one caller in each round of the event loop, so that others are served in between. */
const turn = (): Promise<unknown> => {
  turns = turns.then(() => new Promise((resolve) => setImmediate(resolve)))
  return turns
}

/**
 * Lets a text pass that holds at most so many values. Those with many pass one at a time, since all
 * that follows up to the first wait for the database is done at once. Refuses: limit.
 */
export const admitValues = async (bytes: Uint8Array, most: number): Promise<void> => {
  const values = countValues(bytes, most)
  if (values > most) {
    throw new Refusal('limit', { limit: most }, `A request body holds at most ${most} JSON values`)
  }
  if (values > MANY) await turn()
}

/** Whether the text is long enough to hold many: a value takes two bytes with what follows it. */
export const mayHoldMany = ({ length }: Uint8Array, most: number): boolean =>
  length > 2 * Math.min(most, MANY)
