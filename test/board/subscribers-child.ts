/** Opens as many subscriptions as it is told, in a process whose memory is not the node's. */
import { createInterface } from 'node:readline'
import { openStream } from '../support/actors.ts'

const [url = '', token = ''] = process.argv.slice(2)
for await (const count of createInterface({ input: process.stdin })) {
  await Promise.all(
    Array.from({ length: Number(count) }, async () => {
      const stream = await openStream(url, { token })
      await stream.next()
    }),
  )
  process.stdout.write(`${count}\n`)
}
process.exit()
