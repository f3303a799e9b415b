/** Opens as many subscriptions as it is told, in a process whose memory is not the node's. */
import { createInterface } from 'node:readline'
import { setTimeout } from 'node:timers/promises'
import { openStream } from '../support/clients/actors.ts'

const [url = '', token = ''] = process.argv.slice(2)
/**
 * As a real subscriber does, it comes again where the node has no room for it at the moment, or the
 * system has none: thousands that connect at once are more than wait to be accepted, and some are reset.
 */
const subscribe = async (): Promise<void> => {
  const stream = await openStream(url, { token }).catch((error: Error) => {
    if (!/ECONNRESET/.test(String((error.cause as { code?: unknown })?.code))) throw error
    return null
  })
  if (stream?.status === 200) {
    await stream.next()
    return
  }
  if (stream && stream.status !== 503) throw new Error(`answered with ${stream.status}`)
  await setTimeout(500)
  await subscribe()
}

for await (const count of createInterface({ input: process.stdin })) {
  await Promise.all(Array.from({ length: Number(count) }, subscribe))
  process.stdout.write(`${count}\n`)
}
process.exit()
