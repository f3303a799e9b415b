/**
 * Where others reach this node: as it was told, else where it listens. One that listens on every
 * address has none to name, so it names the one that the request came by, where that is plain.
 */
import { type Config, isEveryAddress } from '../config.ts'

import type { PublicUrl } from '../http/cards.ts'

/** A name or an address, and perhaps a port: nothing that would lead elsewhere than it says. */
const PLAIN_HOST = /^([a-z0-9.-]{1,253}|\[[0-9a-f:.]{2,45}\])(:\d{1,5})?$/i

export const addressOf =
  (
    { publicUrl, host: listensOn }: Pick<Config, 'publicUrl' | 'host'>,
    listening: () => string,
  ): PublicUrl =>
  (host) => {
    if (publicUrl !== null) return publicUrl
    const url = listening()
    if (!isEveryAddress(listensOn) || url === '') return url
    const name = host?.replace(/:\d+$/, '')
    // Who asked for every address has reached this node by its own machine.
    if (name !== undefined && PLAIN_HOST.test(host!) && !isEveryAddress(name))
      return `http://${host}`
    return `http://localhost:${new URL(url).port}`
  }
