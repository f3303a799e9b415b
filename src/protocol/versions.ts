/**
 * Which version of A2A answers a request (spec 3.6): the header `A2A-Version`, else the query
 * parameter of that name; absent or empty means 0.3, patch numbers do not count. What is not
 * served is refused before the method is looked at. A version that we serve is one row.
 */
import type { Dialect } from '../domain/push.ts'
import { createV1Methods, type V1Options } from './v1/methods.ts'
import { V1_PATHS } from './v1/paths.ts'
import { createV01Methods } from './v01/methods.ts'
import { v03Error, v03RestError } from './v03/errors.ts'
import { createV03Methods } from './v03/methods.ts'
import { V03_PATHS } from './v03/paths.ts'
import { createV03RestMethods } from './v03/rest-methods.ts'
import { a2aError, type ErrorWriter, WireRefusal } from './wire/errors.ts'
import type { MethodTable, QueueCall } from './wire/method.ts'
import { compilePaths, NOTHING_HERE, type RestBinding } from './wire/path.ts'
import { restError } from './wire/rest-errors.ts'

/** What an absent or empty version means (spec 3.6.2). */
const ASSUMED = '0.3'

export interface Version {
  /** `Major.Minor`, as the agent card declares it. */
  version: Dialect
  table: MethodTable<QueueCall>
  writeError: ErrorWriter
  rest: RestBinding
  /** Its clients of JSON-RPC read a refused stream as an event, and no error in plain JSON. */
  refusesByEvent: boolean
  /** What to tell a client whose method this version lacks and another one has. */
  explain(method: string): string | undefined
}

/** The version of each row, the preferred one first. What cards declare is in interfaces.ts. */
const SERVED_VERSIONS = ['1.0', '0.3'] as const satisfies Dialect[]

/** All served versions, in that order. */
export const createVersions = (options: V1Options): readonly Version[] => {
  const v1 = createV1Methods(options)
  const v03 = createV03Methods(v1)
  const rows: Record<(typeof SERVED_VERSIONS)[number], Omit<Version, 'version' | 'explain'>> = {
    '1.0': {
      table: v1,
      writeError: a2aError,
      refusesByEvent: false,
      rest: {
        table: v1,
        paths: compilePaths(V1_PATHS),
        writeError: restError,
        mediaType: 'application/a2a+json',
      },
    },
    '0.3': {
      // The oldest clients say no version, which means 0.3.
      table: { ...v03, ...createV01Methods(v1, v03) },
      writeError: v03Error,
      refusesByEvent: true,
      rest: {
        table: createV03RestMethods(v1, v03),
        paths: compilePaths(V03_PATHS),
        writeError: v03RestError,
      },
    },
  }
  const explain = (method: string): string | undefined => {
    const other = SERVED_VERSIONS.find((version) => Object.hasOwn(rows[version].table, method))
    return (
      other &&
      `Method not found: ${method} is of A2A ${other}; send the header A2A-Version: ${other}`
    )
  }
  return SERVED_VERSIONS.map((version) => ({ version, ...rows[version], explain }))
}

/**
 * `Major.Minor` of what a client asked for, or null for what is no version. `header` and `query`
 * are the raw values; the header wins, also where both are there and disagree. A parameter that is
 * there twice reads as a header that is: as no version.
 */
export const askedVersion = (header: string | undefined, query: unknown): string | null => {
  const asked = (header ?? [query].flat().join(', ')).trim()
  if (asked === '') return ASSUMED
  return /^(\d+\.\d+)(\.\d+)?$/.exec(asked)?.[1] ?? null
}

const notServed = (versions: readonly Version[], because: string): WireRefusal => {
  const supportedVersions = versions.map(({ version }) => version).join(',')
  const remedy = `send the header A2A-Version with one of: ${supportedVersions}`
  return new WireRefusal('version', `${because}; ${remedy}`, { supportedVersions })
}

/** The row that serves this request. Refuses with kind `version`, naming what is served. */
export const versionFor = (
  versions: readonly Version[],
  header: string | undefined,
  query: unknown,
): Version => {
  const asked = askedVersion(header, query)
  const found = versions.find(({ version }) => version === asked)
  if (found) return found
  throw notServed(versions, 'This protocol version is not supported')
}

/**
 * That the version whose path was asked for is the one that was asked for. A path that only a newer
 * version has was most likely meant for that one and sent without the header, and saying so tells
 * the client what to fix; a bare 404 would not. Refuses: version, method.
 */
export const checkVersion = (
  versions: readonly Version[],
  header: string | undefined,
  query: unknown,
  ofPath: Version,
): void => {
  const asked = versionFor(versions, header, query)
  if (asked === ofPath) return
  if (versions.indexOf(ofPath) < versions.indexOf(asked))
    throw notServed([ofPath], `This path is not one of A2A ${asked.version}`)
  throw new WireRefusal('method', NOTHING_HERE)
}
