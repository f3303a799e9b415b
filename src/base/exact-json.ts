/**
 * JSON whose numbers keep their digits. JSON.parse makes a double of each, and so another number of
 * `9007199254740993`, `0.1234567890123456789` or `1e-400`. Here such a number becomes an object that
 * holds its text, and is written as that text again. Texts without one (nearly all) are parsed and
 * written by JSON itself: a look for sixteen digits, or an exponent of three, is all that it costs.
 */
import { randomUUID } from 'node:crypto'

/** Stands for a number in what JSON itself reads and writes. Nobody outside can have said it. */
const MARK = `#${randomUUID()}:`
const MARKED = new RegExp(`"${MARK}([^"]+)"`, 'g')

const WHOLE_NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/

/** Whether a writer is at work, and whether it came upon a number of ours. */
let writing: { found: boolean } | null = null

/** A number that no double is equal to. Not to be computed with: `BigInt(String(it))` may be. */
export class ExactNumber {
  readonly text: string

  constructor(text: string) {
    if (!WHOLE_NUMBER.test(text)) throw new TypeError('An ExactNumber is made of a number in JSON')
    this.text = text
  }

  toString(): string {
    return this.text
  }

  /** Throws: whoever computes with it would get a changed number. */
  valueOf(): never {
    throw new TypeError(`${this.text} is no double and cannot be computed with; read its text`)
  }

  /** Anybody else's JSON has the digits as a string. */
  toJSON(): string {
    if (!writing) return this.text
    writing.found = true
    return MARK + this.text
  }
}

/** Digits without zeros at either end, and the power of ten of the last one. */
const decimalOf = (text: string): string => {
  const [, sign, whole = '', fraction = '', exponent = '0'] =
    /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(text) ?? []
  const digits = (whole + fraction).replace(/^0+/, '')
  let end = digits.length
  while (end > 0 && digits.charCodeAt(end - 1) === 48) end -= 1
  if (end === 0) return '0'
  const power = Number(exponent) - fraction.length + digits.length - end
  return `${sign}${digits.slice(0, end)}e${power}`
}

/** Whether what JSON.parse makes of this number is written as the same number again. */
const survives = (text: string): boolean => {
  const number = Number(text)
  return Number.isFinite(number) && decimalOf(text) === decimalOf(String(number))
}

/**
 * A double keeps any fifteen digits, unless the exponent takes them to its limits. Inside a string
 * this may find what is none, which only costs a closer look.
 */
const SUSPECT = /(?:^|[\s:,[])-?(?:\d[\d.]{15}|\d[\d.]*[eE][+-]?\d{3})/

/** Where the string that begins here ends, in a text of JSON. */
export const stringEnd = (text: string, start: number): number => {
  for (let quote = text.indexOf('"', start + 1); quote >= 0; quote = text.indexOf('"', quote + 1)) {
    let slash = quote
    while (text.charCodeAt(slash - 1) === 92) slash -= 1
    if ((quote - slash) % 2 === 0) return quote + 1
  }
  return text.length
}

const EXPONENT = /[eE]/
const IS_KEY = /\s*:/y

const isNamed = (text: string, end: number): boolean => {
  IS_KEY.lastIndex = end
  return IS_KEY.test(text)
}

const QUOTE = 34
const PLUS = 43
const MINUS = 45
const DOT = 46
const ZERO = 48
const NINE = 57
const isDigit = (code: number): boolean => code >= ZERO && code <= NINE
const isExponent = (code: number): boolean => code === 69 || code === 101

/** Where the run of characters that numbers are made of ends. */
const numberEnd = (text: string, start: number): number => {
  let end = start + 1
  for (;;) {
    const code = text.charCodeAt(end)
    if (!isDigit(code) && code !== DOT && !isExponent(code) && code !== PLUS && code !== MINUS) {
      return end
    }
    end += 1
  }
}

/** Those are rare that {@link survives} has to look at more closely. */
const isChanged = (text: string): boolean =>
  String(Number(text)) !== text && WHOLE_NUMBER.test(text) && !survives(text)

/** The text with marks in place of the numbers that a double would change, and these. */
const mark = (text: string): { marked: string; numbers: ExactNumber[] } => {
  const numbers: ExactNumber[] = []
  const pieces: string[] = []
  let from = 0
  let at = 0
  while (at < text.length) {
    const code = text.charCodeAt(at)
    if (code === QUOTE) at = stringEnd(text, at)
    else if (isDigit(code) || code === MINUS) {
      const end = numberEnd(text, at)
      // Shorter ones are changed by their exponent alone, which takes five characters.
      const number = end - at > 4 ? text.slice(at, end) : ''
      const isSuspect = number.length > 15 || EXPONENT.test(number)
      // A name in its place would make JSON of what is none.
      if (isSuspect && isChanged(number) && !isNamed(text, end)) {
        pieces.push(text.slice(from, at), `"${MARK}${numbers.length}"`)
        numbers.push(new ExactNumber(number))
        from = end
      }
      at = end
    } else at += 1
  }
  return { marked: pieces.join('') + text.slice(from), numbers }
}

/** Puts the numbers where their marks are. */
const unmark = (root: unknown, numbers: readonly ExactNumber[]): unknown => {
  const numberAt = (value: unknown): ExactNumber | undefined =>
    typeof value === 'string' && value.startsWith(MARK)
      ? numbers[Number(value.slice(MARK.length))]
      : undefined
  const open: unknown[] = [root]
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    if (typeof next !== 'object' || next === null) continue
    for (const [key, member] of Object.entries(next)) {
      const value = numberAt(member)
      if (value) {
        // Assigned, a member named __proto__ would be the prototype.
        const own = { value, enumerable: true, configurable: true, writable: true }
        Object.defineProperty(next, key, own)
      } else if (typeof member === 'object') open.push(member)
    }
  }
  return numberAt(root) ?? root
}

/** As JSON.parse, but that a number which is no double is an ExactNumber. Throws SyntaxError. */
export const parseExact = (text: string): unknown => {
  if (!SUSPECT.test(text)) return JSON.parse(text)
  const { marked, numbers } = mark(text)
  if (numbers.length === 0) return JSON.parse(text)
  return unmark(JSON.parse(marked), numbers)
}

/**
 * What a writer of JSON makes of values, with each ExactNumber as the number it was. The writer must
 * ask for `toJSON`, as JSON.stringify does.
 */
export const keepingDigits = <Text extends string | undefined>(write: () => Text): Text => {
  const outer = writing
  const mine = { found: false }
  writing = mine
  try {
    const text = write()
    return (mine.found ? text?.replace(MARKED, '$1') : text) as Text
  } finally {
    writing = outer
  }
}

/** As JSON.stringify, but that an ExactNumber is the number it was. */
export const exactText = (value: unknown, indent?: number): string =>
  keepingDigits(() => JSON.stringify(value, undefined, indent))
