/**
 * A TCP proxy in front of PostgreSQL that can go deaf: it forwards nothing more and closes nothing,
 * as a network does that lost a route.
 */
import net from 'node:net'
import { afterAll } from 'vitest'

export interface Proxy {
  /** As the given URL, through the proxy. */
  url: string
  /**
   * What is connected now under this application name gets nothing through any more; what connects
   * later does.
   */
  silence(application: string): void
}

export const startProxy = async (databaseUrl: string): Promise<Proxy> => {
  const target = new URL(databaseUrl)
  const host = decodeURIComponent(target.hostname)
  const port = Number(target.port || 5432)
  const dial = (): net.Socket =>
    host.startsWith('/') ? net.connect(`${host}/.s.PGSQL.${port}`) : net.connect(port, host)

  const pairs = new Map<readonly [net.Socket, net.Socket], string>()
  const server = net.createServer((client) => {
    const upstream = dial()
    const pair = [client, upstream] as const
    pairs.set(pair, '')
    // The first packet names the application, between two zeros.
    client.once('data', (packet: Buffer) => {
      pairs.set(pair, /application_name\0([^\0]*)\0/.exec(packet.toString('latin1'))?.[1] ?? '')
    })
    client.pipe(upstream)
    upstream.pipe(client)
    for (const socket of pair) {
      socket.on('error', () => {})
      socket.on('close', () => {
        pairs.delete(pair)
        for (const each of pair) each.destroy()
      })
    }
  })
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve)
  })
  afterAll(
    () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve())
        for (const pair of pairs.keys()) for (const socket of pair) socket.destroy()
      }),
  )

  const through = new URL(databaseUrl)
  through.hostname = '127.0.0.1'
  through.port = String((server.address() as net.AddressInfo).port)
  return {
    url: through.href,
    silence: (application) => {
      for (const [[client, upstream], name] of pairs) {
        if (name !== application) continue
        client.unpipe(upstream)
        upstream.unpipe(client)
        client.pause()
        upstream.pause()
      }
    },
  }
}
