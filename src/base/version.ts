/** The package's own version, as every card, metric and command says it. */
import { readFileSync } from 'node:fs'

/** package.json lies two folders up from the sources and three from what is built of them. */
const read = (): string => {
  for (const file of ['../../package.json', '../../../package.json']) {
    try {
      const found: unknown = JSON.parse(readFileSync(new URL(file, import.meta.url), 'utf8'))
      return (found as { version: string }).version
    } catch {
      // The other one, then.
    }
  }
  return '0.0.0'
}

export const VERSION = read()
