/**
 * Finds peers that died without a word while something was on its way to them. TCP's own probes find
 * the others, but what was sent and not acknowledged puts those off, and is sent again for a quarter
 * of an hour. Node cannot have the system give up sooner, so the system's table of connections is
 * looked up for those that are sent the same again and again. Linux has such a table; elsewhere the
 * system's patience counts.
 */
import { createReadStream } from 'node:fs'
import type { ServerResponse } from 'node:http'
import { endianness } from 'node:os'
import ipaddr from 'ipaddr.js'

const LOOK_MS = 3000
/** A connection on which nothing has been acknowledged for so long leads to nobody. */
export const UNACKNOWLEDGED_MS = 8000
/** Resends that any network may need. */
const RESENDS = 2
const TABLES = ['/proc/self/net/tcp', '/proc/self/net/tcp6']

/** How the timer of a connection is written that waits for an acknowledgment of what it has sent. */
const RESENDING = ' 01:'
const ROW =
  /^ *\d+: [\dA-F]+:([\dA-F]{4}) ([\dA-F]+:[\dA-F]{4}) [\dA-F]{2} [\dA-F:]+ 01:[\dA-F]+ ([\dA-F]+) /

/** An address and port as the table writes them: each 32 bits as the machine has them. */
const inTable = (address: string, port: number): string => {
  const bytes = Buffer.from(ipaddr.parse(address).toByteArray())
  if (endianness() === 'LE') bytes.swap32()
  return `${bytes.toString('hex')}:${port.toString(16).padStart(4, '0')}`.toUpperCase()
}

/** The rows of a text that wait for an acknowledgment: few of many, so the others are passed over. */
function* resendingIn(text: string): Iterable<string> {
  for (let at = text.indexOf(RESENDING); at >= 0; ) {
    const end = text.indexOf('\n', at)
    yield text.slice(text.lastIndexOf('\n', at) + 1, end)
    at = text.indexOf(RESENDING, end)
  }
}

/** How often each peer of the port has been sent the same, where that is often. */
const readResends = async (port: number): Promise<Map<string, number>> => {
  const own = port.toString(16).padStart(4, '0').toUpperCase()
  const resends = new Map<string, number>()
  for (const table of TABLES) {
    let rest = ''
    for await (const chunk of createReadStream(table, 'latin1')) {
      const text = rest + chunk
      const whole = text.lastIndexOf('\n') + 1
      rest = text.slice(whole)
      for (const row of resendingIn(text.slice(0, whole))) {
        const [, local, peer, count] = ROW.exec(row) ?? []
        if (local !== own) continue
        const times = Number.parseInt(count!, 16)
        if (times >= RESENDS) resends.set(peer!, times)
      }
    }
  }
  return resends
}

/** Looks until it is told to stop; breaks off the calls of peers that are gone. */
export const findDeadPeers = (port: number, calls: ReadonlySet<ServerResponse>): (() => void) => {
  /** Since when each has acknowledged nothing, and how often it had been sent the same at the last look. */
  let silent = new Map<string, { since: number; times: number }>()
  let timer: NodeJS.Timeout
  let stopped = false

  /** Where nothing has been written, the system's probes are enough. */
  const isWriting = (): boolean => {
    for (const { headersSent } of calls) if (headersSent) return true
    return false
  }

  const breakOff = (dead: ReadonlySet<string>): void => {
    if (dead.size === 0) return
    for (const { req } of calls) {
      const { remoteAddress, remotePort } = req.socket
      if (remoteAddress === undefined || remotePort === undefined) continue
      if (dead.has(inTable(remoteAddress, remotePort))) req.socket.destroy()
    }
  }

  const look = async (): Promise<void> => {
    const resends = isWriting() ? await readResends(port) : new Map<string, number>()
    const now = performance.now()
    const dead = new Set<string>()
    const before = silent
    silent = new Map()
    for (const [peer, times] of resends) {
      const known = before.get(peer)
      // An acknowledgment sets the count back.
      const since = known !== undefined && known.times <= times ? known.since : now
      if (now - since >= UNACKNOWLEDGED_MS) dead.add(peer)
      else silent.set(peer, { since, times })
    }
    breakOff(dead)
  }

  const next = (): void => {
    timer = setTimeout(() => {
      look().then(
        () => {
          if (!stopped) next()
        },
        // Without such a table there is nothing to look up.
        () => {},
      )
    }, LOOK_MS).unref()
  }
  next()
  return () => {
    stopped = true
    clearTimeout(timer)
  }
}
