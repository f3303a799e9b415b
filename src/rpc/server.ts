/**
 * Method tables become a JSON-RPC server: the order of checks, batches, streams, and what is said,
 * logged and counted when something goes wrong. Order: JSON, envelope, table (version), method,
 * right, params, call. Knows no protocol: rows and wordings are handed to it.
 */
import type { Log } from '../base/log.ts'
import { type ErrorWriter, WireRefusal } from '../protocol/errors.ts'
import type { Call, MethodTable, Row } from '../protocol/method.ts'
import { readParams } from '../protocol/params.ts'
import { type Answer, type Answered, framesOf } from './answer.ts'
import { createLibrary, runUnary } from './dispatch.ts'
import {
  errorBody,
  parseJson,
  type RpcId,
  type RpcRequest,
  readEnvelope,
  resultBody,
} from './envelope.ts'
import { createReport, sparingAborts } from './report.ts'

/** Which rows serve a request, and how they word their errors. */
interface Served<C extends Call> {
  table: MethodTable<C>
  writeError: ErrorWriter
  /** What to say of a method that the table lacks, where there is more to say. */
  explain?(method: string): string | undefined
  /** A stream that is refused is one event with the error, for whoever takes nothing but events. */
  refusesByEvent?: boolean
}

export interface RpcParts<C extends Call> {
  /** Words errors that come before a table is chosen. */
  writeError: ErrorWriter
  /** Whether arrays are batches and requests without an id are run (A2A: neither). */
  batches: boolean
  /**
   * What the requests of a batch take turns over: of those with one answer each waits for the one
   * before it, the others run beside. Without it, or where it is null, all wait.
   */
  turnOf?(request: RpcRequest): string | null
  log: Pick<Log, 'debug' | 'warn' | 'error'>
  onCall?: (answered: Answered) => void
  tables: readonly Served<C>[]
}

/** One HTTP request as the dispatcher sees it. */
export interface RpcCall<C extends Call> {
  text: string
  requestId: string
  /** The client said that it takes nothing but an event stream. */
  eventsOnly?: boolean
  /** Picks one of the tables; throws a `version` refusal. Asked once the envelope is known good. */
  serve: () => Served<C>
  /** Makes the row's context; may refuse. Asked once the method is known. */
  enter: () => Promise<C>
}

const MAX_BATCH = 100

const rowOf = <C extends Call>({ table, explain }: Served<C>, method: string): Row<C> => {
  const row = Object.hasOwn(table, method) ? table[method] : undefined
  if (!row) throw new WireRefusal('method', explain?.(method))
  return row
}

/** Without an id nobody is answered, so it is not run; what else is wrong with it is told first. */
const checkAnswerable = ({ id }: RpcRequest): void => {
  if (id !== undefined) return
  const why = 'A request without an id would go unanswered and is not run'
  throw new WireRefusal('envelope', why)
}

async function* once<T>(item: T): AsyncGenerator<T> {
  yield item
}

const codeOf = (body: unknown): number => (body as { error?: { code: number } }).error?.code ?? 0

/**
 * The dispatcher of one surface. `answer` never rejects: what a call threw is in its answer and,
 * when it was a fault, in the log under the same request id.
 */
export const createRpc = <C extends Call>(parts: RpcParts<C>) => {
  const { log, onCall, batches, turnOf } = parts
  const libraries = new Map(parts.tables.map((served) => [served, createLibrary(served.table)]))

  const report = createReport(log)

  const refused = (
    error: unknown,
    id: RpcId,
    requestId: string,
    { writeError = parts.writeError, method = 'unknown' } = {},
  ): Answer => {
    const { error: body, ...rest } = writeError(report(error, requestId, method))
    return { kind: 'json', ...rest, body: errorBody(id, body) }
  }

  const dispatch = async (
    request: RpcRequest,
    call: RpcCall<C>,
    alone: boolean,
  ): Promise<Answer> => {
    const id = request.id ?? null
    let method = 'unknown'
    let writeError = parts.writeError
    let signal: AbortSignal | undefined
    let byEvent = false
    const words = (error: unknown): Answer =>
      refused(sparingAborts(error, signal), id, call.requestId, { writeError, method })
    const run = async (): Promise<Answer> => {
      const served = call.serve()
      writeError = served.writeError
      const row = rowOf(served, request.method)
      method = request.method
      byEvent = row.kind === 'stream' && !!served.refusesByEvent && !!call.eventsOnly
      const ctx = await call.enter()
      signal = ctx.signal
      row.right(ctx)
      const params = readParams(row, request.params)
      if (!batches) checkAnswerable(request)
      if (row.kind === 'unary') {
        const result = await runUnary(libraries.get(served)!, request, params, ctx)
        return { kind: 'json', status: 200, body: resultBody(id, result) }
      }
      if (!alone) throw new WireRefusal('envelope', 'A stream cannot be part of a batch')
      const items = await row.call(ctx, params)
      const frames = framesOf(items, (result) => resultBody(id, result))
      return { kind: 'stream', frames, onError: (error) => ({ data: bodyOf(words(error)) }) }
    }
    const started = performance.now()
    const answer = await run().catch(words)
    const code = answer.kind === 'json' ? codeOf(answer.body) : 0
    onCall?.({ method, code, seconds: (performance.now() - started) / 1000 })
    // Under another status than 200 a client looks for JSON, whatever it asked for.
    if (!byEvent || answer.kind !== 'json' || answer.status !== 200) return answer
    const frame = { data: answer.body }
    return { kind: 'stream', frames: once(frame), onError: () => frame }
  }

  const malformed = (error: unknown, id: RpcId, requestId: string): Answer => {
    const answer = refused(error, id, requestId)
    onCall?.({ method: 'unknown', code: codeOf(bodyOf(answer)), seconds: 0 })
    return answer
  }

  const single = async (value: unknown, call: RpcCall<C>, alone: boolean): Promise<Answer> => {
    const envelope = readEnvelope(value)
    if ('refusal' in envelope) return malformed(envelope.refusal, envelope.id, call.requestId)
    const { request } = envelope
    if (request.id !== undefined || !batches) return dispatch(request, call, alone)
    await dispatch(request, call, false)
    return { kind: 'nothing' }
  }

  const turnIn = (value: unknown): string | null => {
    const envelope = readEnvelope(value)
    return 'request' in envelope ? (turnOf?.(envelope.request) ?? null) : null
  }

  /** What a holder sends about one todo happens in the order it was sent in. */
  const batch = async (values: unknown[], call: RpcCall<C>): Promise<Answer> => {
    const refusal = batchRefusal(values, batches)
    if (refusal) return malformed(refusal, null, call.requestId)
    const turns = new Map<string | null, Promise<unknown>>()
    const answers = values.map((value) => {
      const turn = turnIn(value)
      // Without a turn of its own it waits for all before it, and all after it wait for it.
      const before =
        turn === null ? Promise.all(turns.values()) : (turns.get(turn) ?? turns.get(null))
      const answer = Promise.resolve(before).then(() => single(value, call, false))
      if (turn === null) turns.clear()
      turns.set(turn, answer)
      return answer
    })
    const bodies = (await Promise.all(answers)).flatMap((answer) =>
      answer.kind === 'json' ? [answer.body] : [],
    )
    return bodies.length > 0 ? { kind: 'json', status: 200, body: bodies } : { kind: 'nothing' }
  }

  return {
    async answer(call: RpcCall<C>): Promise<Answer> {
      let value: unknown
      try {
        value = parseJson(call.text)
      } catch (error) {
        return malformed(error, null, call.requestId)
      }
      return Array.isArray(value) ? batch(value, call) : single(value, call, true)
    },
    /** The answer to a request that HTTP itself refuses (no token, too large, …). */
    refuse: (error: unknown, requestId: string): Answer => malformed(error, null, requestId),
  }
}

export type Rpc<C extends Call> = ReturnType<typeof createRpc<C>>

const bodyOf = (answer: Answer): unknown => (answer.kind === 'json' ? answer.body : null)

const batchRefusal = (values: unknown[], batches: boolean): WireRefusal | null => {
  if (!batches) return new WireRefusal('envelope', 'Batches are not supported')
  if (values.length === 0) return new WireRefusal('envelope', 'A batch must not be empty')
  if (values.length > MAX_BATCH) {
    return new WireRefusal('envelope', `A batch holds at most ${MAX_BATCH} requests`)
  }
  return null
}
