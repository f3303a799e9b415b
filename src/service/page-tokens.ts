/**
 * Page tokens, sealed for the list that gave them out. The store's own token says only where a page
 * ended; whoever brings one back could have written it, or got it from another list. So it goes out
 * with a code that also covers the filter and the caller, under a key that only the nodes know.
 */
import { createHmac, timingSafeEqual } from 'node:crypto'
import { invalid } from '../domain/errors.ts'
import { readInstallationKey } from '../store/admin/installation-keys.ts'
import type { Session } from '../store/postgres/database.ts'

const KEY_NAME = 'page tokens'
/** In base64url: 16 bytes of the code. */
const SEAL_LENGTH = 22

/** A list's filter; what says only how much of it is shown is left out of the seal. */
interface Paged {
  pageToken?: string
  pageSize?: number
  includeArtifacts?: boolean
  countTo?: number
}

export interface PageTokens {
  /**
   * Reads one page. `list` and `reader` say which list it is of, and whose. Refuses: invalid, where
   * the token was not given out for this list, filter and reader.
   */
  read<F extends Paged, P extends { nextPageToken: string }>(
    of: { list: string; reader: unknown },
    filter: F,
    read: (filter: F) => Promise<P>,
  ): Promise<P>
}

/** The same text for the same filter, in whatever order its members stand. */
const textOf = (list: string, reader: unknown, filter: Paged): string => {
  const { pageToken: _, pageSize: __, includeArtifacts: ___, countTo: ____, ...rest } = filter
  const members = Object.entries(rest).filter(([, value]) => value !== undefined)
  return JSON.stringify([list, reader, members.sort(([a], [b]) => (a < b ? -1 : 1))])
}

export const createPageTokens = (database: Session): PageTokens => {
  let reading: Promise<Buffer> | null = null
  const key = (): Promise<Buffer> => {
    reading ??= readInstallationKey(database, KEY_NAME).catch((error: unknown) => {
      reading = null
      throw error
    })
    return reading
  }

  const sealOf = async (what: string, position: string): Promise<string> =>
    createHmac('sha256', await key())
      .update(`${what}\n${position}`)
      .digest('base64url')
      .slice(0, SEAL_LENGTH)

  const open = async (what: string, token: string): Promise<string> => {
    const [given, position] = [token.slice(0, SEAL_LENGTH), token.slice(SEAL_LENGTH)]
    const [wanted, found] = [Buffer.from(await sealOf(what, position)), Buffer.from(given)]
    if (wanted.length === found.length && timingSafeEqual(wanted, found)) return position
    throw invalid('pageToken', 'is not a token that this server gave out for this list')
  }

  return {
    read: async ({ list, reader }, filter, read) => {
      // Most lists have one page, and pay for nothing.
      const what = (): string => textOf(list, reader, filter)
      const page = await read(
        filter.pageToken ? { ...filter, pageToken: await open(what(), filter.pageToken) } : filter,
      )
      if (page.nextPageToken === '') return page
      const seal = await sealOf(what(), page.nextPageToken)
      return { ...page, nextPageToken: `${seal}${page.nextPageToken}` }
    },
  }
}
