/** The package's own version, as every card, metric and command gives it. */
import { readFileSync } from 'node:fs'

/** package.json lies two folders above the sources and three above the built files. */
const read = (): string => {
  for (const file of ['../../package.json', '../../../package.json']) {
    try {
      const found: unknown = JSON.parse(readFileSync(new URL(file, import.meta.url), 'utf8'))
      return (found as { version: string }).version
    } catch {
      // It must be the other one.
    }
  }
  return '0.0.0'
}

export const VERSION = read()
