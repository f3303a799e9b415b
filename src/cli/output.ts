/**
 * All that the command line writes. Data goes to stdout, everything else to stderr. Only a terminal
 * that wants colors gets them, and a reader that has gone away ends the program silently.
 */
import { exactText } from '../base/exact-json.ts'

/** SGR codes: on and off. */
const STYLES = {
  bold: [1, 22],
  dim: [2, 22],
  red: [31, 39],
  green: [32, 39],
  yellow: [33, 39],
} as const

type Style = keyof typeof STYLES

/** A pipe that its reader has closed (`| head -1`) is no failure, and there is nobody to tell. */
export const endSilentlyWithoutReader = (): void => {
  for (const stream of [process.stdout, process.stderr]) {
    stream.on('error', (error: NodeJS.ErrnoException) => {
      process.exit(error.code === 'EPIPE' ? 0 : 1)
    })
  }
}

export const print = (text: string): void => {
  process.stdout.write(`${text}\n`)
}

/** One value, as JSON on one line: what `--json` prints. */
export const printJson = (value: unknown): void => print(exactText(value))

/** For a person beside the data: progress, hints, failures. */
export const note = (text: string): void => {
  process.stderr.write(`${text}\n`)
}

/** NO_COLOR counts with any value but the empty one, as no-color.org asks. */
const wantsColors = (): boolean => process.stdout.isTTY === true && !process.env.NO_COLOR

export const style = (name: Style, text: string): string => {
  if (!wantsColors()) return text
  const [on, off] = STYLES[name]
  return `\u001b[${on}m${text}\u001b[${off}m`
}

/** Left-aligned columns, two spaces apart; the last one is as long as it is. */
export const printTable = (head: readonly string[], rows: readonly (readonly string[])[]): void => {
  const widths = head.map((title, column) =>
    Math.max(title.length, ...rows.map((row) => (row[column] ?? '').length)),
  )
  const line = (cells: readonly string[]): string =>
    cells
      .map((cell, column) => (column === head.length - 1 ? cell : cell.padEnd(widths[column] ?? 0)))
      .join('  ')
      .trimEnd()
  print(style('bold', line(head)))
  for (const row of rows) print(line(row))
}

/** One line of at most `length` characters; control characters must not reach the terminal. */
export const oneLine = (text: string, length = 60): string => {
  const flat = plain(text).replace(/\s+/g, ' ').trim()
  return flat.length > length ? `${flat.slice(0, length - 1)}…` : flat
}

/** Text from others without what could steer a terminal; line breaks and tabs stay. */
export const plain = (text: string): string =>
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is taken out
  text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g, '')

/** A duration in its two largest units: `3m 5s`. */
export const span = (ms: number): string => {
  const seconds = Math.max(0, Math.round(ms / 1000))
  if (seconds < 60) return `${seconds}s`
  const minutes = Math.floor(seconds / 60)
  if (minutes < 60) return `${minutes}m ${seconds % 60}s`
  const hours = Math.floor(minutes / 60)
  return hours < 48 ? `${hours}h ${minutes % 60}m` : `${Math.floor(hours / 24)}d ${hours % 24}h`
}

/** A server's time in this terminal's time zone. */
export const localTime = (time: string): string => new Date(time).toLocaleTimeString('sv-SE')
export const localMoment = (time: string | null | undefined): string =>
  time ? new Date(time).toLocaleString('sv-SE') : '-'
