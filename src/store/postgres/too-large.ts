/**
 * A value that is longer than a string can be (512 MiB). The driver makes a string of every value as it
 * comes in; where that throws, nobody catches it, and the process would end. Here it ends the connection,
 * and with it the one call that asked.
 */
import type { Socket } from 'node:net'
import type pg from 'pg'

/** What the driver does not declare. */
type Driver = pg.PoolClient & { connection: { stream: Socket } }

type Listener = (chunk: Buffer) => void

export const guardParsing = (client: pg.PoolClient): void => {
  const { stream } = (client as Driver).connection
  for (const listener of stream.listeners('data') as Listener[]) {
    stream.removeListener('data', listener)
    stream.on('data', (chunk: Buffer) => {
      if (stream.destroyed) return
      try {
        listener(chunk)
      } catch (error) {
        stream.destroy(error as Error)
      }
    })
  }
}

export const isTooLarge = (error: unknown): boolean =>
  (error as NodeJS.ErrnoException | null)?.code === 'ERR_STRING_TOO_LONG'
