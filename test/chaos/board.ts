/** Who reads the board's feed through the whole run, over however many connections. */

import type { Answer } from '../support/clients/actors.ts'
import { openStream } from '../support/clients/actors.ts'

export interface BoardReader {
  /** Transitions and ready hooks, as they came. */
  frames: { id: number; event: string; data: Answer }[]
  resumed(): number
  close(): Promise<void>
}

export const readBoard = (url: string, token: string): BoardReader => {
  const frames: BoardReader['frames'] = []
  let resumed = -1
  let closing = false
  let current: { close(): void } | null = null

  const readOnce = async (): Promise<void> => {
    const after = String(frames.at(-1)?.id ?? 0)
    const headers = { 'Last-Event-ID': after }
    const stream = await openStream(`${url}/board/events`, { token, headers })
    current = stream
    if (stream.body !== null) return
    resumed += 1
    for (let frame = await stream.next(); frame; frame = await stream.next()) {
      frames.push({ id: Number(frame.id), event: frame.event ?? '', data: frame.json })
    }
  }

  const reading = (async () => {
    while (!closing) {
      await readOnce().catch(() => {})
      await new Promise((resolve) => setTimeout(resolve, 100))
    }
  })()

  return {
    frames,
    resumed: () => Math.max(0, resumed),
    close: async () => {
      closing = true
      current?.close()
      await reading
    },
  }
}
