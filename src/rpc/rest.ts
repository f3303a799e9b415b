/**
 * Rows at a path become an HTTP+JSON server: the order of checks, and what is answered, logged and
 * counted if something goes wrong. The order is version, HTTP method, right, body, params, call. It
 * runs the same rows as JSON-RPC does and knows as little about them.
 */
import { defined } from '../base/defined.ts'
import type { Log } from '../base/log.ts'
import { WireRefusal } from '../protocol/wire/errors.ts'
import type { QueueCall, Row } from '../protocol/wire/method.ts'
import { readParams } from '../protocol/wire/params.ts'
import { type Found, paramsOf, type Query, type RestBinding } from '../protocol/wire/path.ts'
import { type Answer, type Answered, framesOf } from './answer.ts'
import { parseJson } from './envelope.ts'
import { createReport, withoutAborts } from './report.ts'

export interface RestParts {
  log: Pick<Log, 'debug' | 'warn' | 'error'>
  onCall?: (answered: Answered) => void
}

/** Which binding writes an answer, and in which type. */
export interface Wanted {
  binding: RestBinding
  requestId: string
  /** Whether the client prefers this media type to application/json, by `Accept`. */
  accepts: (mediaType: string) => boolean
}

/** One HTTP request as the dispatcher sees it. */
export interface RestCall extends Wanted {
  /** The rows at its path: at least one. */
  found: readonly Found[]
  verb: string
  query: Query
  /** Refuses a version that does not have this path. */
  checkVersion: () => void
  /** Makes the row's context; may refuse. Called once the row is known. */
  enter: () => Promise<QueueCall>
  /** The text of the body, `''` if there is none. Called only for rows that read one. */
  readBody: (optional: boolean) => Promise<string>
  /** Called before a row is: may refuse it, or make it wait for its turn. */
  begin?: (row: Row<QueueCall>) => Promise<void> | undefined
}

/** HEAD is answered like GET, and HTTP leaves the body out; a stream would never end. */
const takesHead = ({ row }: Found, { table }: RestBinding): boolean =>
  row.verb === 'GET' && table[row.method]?.kind === 'unary'

/** The HTTP methods of the rows at a path, as `Allow` lists them. */
export const allowOf = (binding: RestBinding, found: readonly Found[]): string =>
  [
    ...found.flatMap((each) => (takesHead(each, binding) ? ['GET', 'HEAD'] : [each.row.verb])),
    'OPTIONS',
  ].join(', ')

/** Refuses: verb. */
const choose = ({ binding, found, verb }: RestCall): Found => {
  const chosen = found.find(
    (each) => each.row.verb === verb || (verb === 'HEAD' && takesHead(each, binding)),
  )
  if (chosen) return chosen
  throw new WireRefusal('verb', undefined, { allow: allowOf(binding, found) })
}

const readBody = async ({ row }: Found, call: RestCall): Promise<unknown> => {
  if (!row.body) return undefined
  const optional = row.body === 'optional'
  const text = await call.readBody(optional)
  return optional && text.trim() === '' ? undefined : parseJson(text)
}

/** The binding's own media type, if the client prefers it. */
const typed = ({ binding: { mediaType }, accepts }: Wanted) => {
  if (mediaType === undefined) return {}
  return accepts(mediaType) ? { mediaType, vary: 'Accept' } : { vary: 'Accept' }
}

type Json = Extract<Answer, { kind: 'json' }>

/** What is known about a call when it fails. */
interface Progress {
  method: string
  signal?: AbortSignal
}

/** `answer` never rejects: what a call threw is in its answer and, if it was a fault, in the log. */
export const createRest = ({ log, onCall }: RestParts) => {
  const report = createReport(log)

  const refused = (error: unknown, wanted: Wanted, method: string): [Json, code: number] => {
    const problem = report(error, wanted.requestId, method)
    const { code, ...rest } = wanted.binding.writeError(problem)
    const allow = problem.kind === 'verb' ? problem.metadata?.allow : undefined
    return [defined<Json>({ kind: 'json', ...rest, ...typed(wanted), allow }), code]
  }

  const run = async (
    call: RestCall,
    progress: Progress,
    refuse: (error: unknown) => [Json, code: number],
  ): Promise<Answer> => {
    call.checkVersion()
    const found = choose(call)
    const { method } = found.row
    const row = call.binding.table[method]
    if (!row) throw new TypeError(`${method} has a path and no row`)
    progress.method = method
    const ctx = await call.enter()
    progress.signal = ctx.signal
    row.right(ctx)
    const params = readParams(row, paramsOf(found, call.query, await readBody(found, call)))
    const waiting = call.begin?.(row)
    if (waiting !== undefined) await waiting
    if (row.kind === 'unary') {
      const body = (await row.call(ctx, params)) ?? null
      return { kind: 'json', status: 200, body, ...typed(call) }
    }
    const frames = framesOf(await row.call(ctx, params), (result) => result)
    // The name tells it from an event: clients of this binding do not look into the data for it.
    const onError = (error: unknown) => ({ event: 'error', data: refuse(error)[0].body })
    return { kind: 'stream', frames, onError }
  }

  return {
    async answer(call: RestCall): Promise<Answer> {
      const progress: Progress = { method: 'unknown' }
      const refuse = (error: unknown) =>
        refused(withoutAborts(error, progress.signal), call, progress.method)
      const started = performance.now()
      let code = 0
      const answer = await run(call, progress, refuse).catch((error) => {
        const [json, refusal] = refuse(error)
        code = refusal
        return json
      })
      onCall?.({ method: progress.method, code, seconds: (performance.now() - started) / 1000 })
      return answer
    },
    /** The answer to a request that HTTP itself refuses (no such path, no token, …). */
    refuse: (error: unknown, wanted: Wanted): Json => {
      const [json, code] = refused(error, wanted, 'unknown')
      onCall?.({ method: 'unknown', code, seconds: 0 })
      return json
    },
  }
}

export type Rest = ReturnType<typeof createRest>
