/**
 * A network of the tests' own: a TCP proxy on loopback whose connections can be reset, stalled, or
 * cut at the very moment an answer comes through them.
 */
import net from 'node:net'

export interface Link {
  port: number
  /** Resets about this share of the connections there are. */
  drop(share: number, random: () => number): void
  /** The next `count` answers (that fit) are lost, each with its connection. */
  loseAnswers(count: number, fits?: (answer: Buffer) => boolean): void
  /** How many of them have been lost by now. */
  lost(): number
  /** Nothing goes through for so long; nothing is closed. */
  stall(ms: number): void
  /** Everything goes through again. */
  heal(): void
  close(): Promise<void>
}

interface Pair {
  client: net.Socket
  server: net.Socket
}

/** `dial` says where a new connection leads; null: nowhere, it is refused. */
export const openLink = async (dial: () => net.Socket | null): Promise<Link> => {
  const pairs = new Set<Pair>()
  let toLose = 0
  let lost = 0
  let fits: (answer: Buffer) => boolean = () => true
  let stalledUntil = 0
  let timer: NodeJS.Timeout | undefined

  const isStalled = (): boolean => performance.now() < stalledUntil

  const cut = (pair: Pair): void => {
    pairs.delete(pair)
    // What is reset arrives at once, and as an error.
    if (!pair.client.destroyed) pair.client.resetAndDestroy()
    pair.server.destroy()
  }

  const forward = (from: net.Socket, to: net.Socket, loses: (chunk: Buffer) => boolean) => {
    from.on('data', (chunk) => {
      if (loses(chunk) || to.write(chunk)) return
      from.pause()
      to.once('drain', () => {
        if (!isStalled()) from.resume()
      })
    })
    from.on('end', () => to.end())
  }

  const release = (): void => {
    stalledUntil = 0
    clearTimeout(timer)
    for (const { client, server } of pairs) {
      client.resume()
      server.resume()
    }
  }

  const server = net.createServer({ allowHalfOpen: true }, (client) => {
    client.on('error', () => {})
    const upstream = dial()
    if (!upstream) return void client.resetAndDestroy()
    const pair: Pair = { client, server: upstream }
    pairs.add(pair)
    forward(client, upstream, () => false)
    forward(upstream, client, (answer) => {
      if (toLose <= 0 || !fits(answer)) return false
      toLose -= 1
      lost += 1
      cut(pair)
      return true
    })
    upstream.on('error', () => cut(pair))
    for (const socket of [client, upstream]) {
      socket.on('close', () => {
        pairs.delete(pair)
        for (const each of [client, upstream]) each.destroy()
      })
      if (isStalled()) socket.pause()
    }
  })
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve)
  })

  return {
    port: (server.address() as net.AddressInfo).port,
    drop: (share, random) => {
      for (const pair of pairs) if (random() < share) cut(pair)
    },
    loseAnswers: (count, fitting = () => true) => {
      toLose = count
      fits = fitting
    },
    lost: () => lost,
    stall: (ms) => {
      stalledUntil = performance.now() + ms
      for (const pair of pairs) {
        pair.client.pause()
        pair.server.pause()
      }
      clearTimeout(timer)
      timer = setTimeout(release, ms)
    },
    heal: () => {
      toLose = 0
      release()
    },
    close: async () => {
      clearTimeout(timer)
      const closed = new Promise<void>((resolve) => {
        server.close(() => resolve())
      })
      for (const pair of pairs) cut(pair)
      await closed
    },
  }
}
