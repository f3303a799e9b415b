/**
 * Method tables become a JSON-RPC server: batches, streams, and what is logged and counted. The
 * order of checks is JSON, envelope, table (version), method, right, params, call; from the method
 * on it is the chain of dispatch.ts. It knows no protocol: rows and error writers are handed to it.
 */
import { exactText } from '../base/exact-json.ts'
import type { Log } from '../base/log.ts'
import { Refusal } from '../domain/errors.ts'
import { type ErrorWriter, WireRefusal } from '../protocol/wire/errors.ts'
import type { Call, Row } from '../protocol/wire/method.ts'
import { type Answer, type Answered, framesOf } from './answer.ts'
import { createDispatcher, errorBody, resultBody, type Served, type Turn } from './dispatch.ts'
import { parseJson, type RpcId, type RpcRequest, readEnvelope } from './envelope.ts'
import { createReport, withoutAborts } from './report.ts'

export interface RpcParts<C extends Call> {
  /** Writes errors that come before a table is chosen. */
  writeError: ErrorWriter
  /** Whether arrays are batches and requests without an id are run. A2A allows neither. */
  batches: boolean
  /**
   * What the requests of a batch take turns over: requests with the same key run one after another,
   * others beside them. A request with the key null, or without this function, waits for all.
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
  /** Picks one of the tables; throws a `version` refusal. Called once the envelope is known good. */
  serve: () => Served<C>
  /** Makes the row's context; may refuse. Called once the method is known. */
  enter: () => Promise<C>
  /** Called before a row is: may refuse it, or make it wait for its turn. */
  begin?: (row: Row<C>) => Promise<void> | undefined
}

const MAX_BATCH = 100
/** Once the answers of a batch hold so much, what has not begun is refused. */
const MAX_BATCH_BYTES = 8 * 1024 * 1024

const requestIn = (value: unknown): RpcRequest | null => {
  const envelope = readEnvelope(value)
  return 'request' in envelope ? envelope.request : null
}

async function* once<T>(item: T): AsyncGenerator<T> {
  yield item
}

/**
 * The dispatcher of one surface. `answer` never rejects: what a call threw is in its answer and,
 * when it was a fault, in the log under the same request id.
 */
export const createRpc = <C extends Call>(parts: RpcParts<C>) => {
  const { log, onCall, batches, turnOf } = parts
  const dispatchers = new Map(parts.tables.map((served) => [served, createDispatcher(served)]))

  const report = createReport(log)

  /** Nobody would get the answer to a request without an id, so A2A does not run it. */
  const checkAdmitted = (row: Row<C>, named: boolean, alone: boolean): void => {
    if (!batches && !named) {
      const why = 'A request without an id would go unanswered and is not run'
      throw new WireRefusal('envelope', why)
    }
    if (row.kind === 'stream' && !alone) {
      throw new WireRefusal('envelope', 'A stream cannot be part of a batch')
    }
  }

  /** The answer if no table was chosen. */
  const malformed = (thrown: unknown, id: RpcId, requestId: string): Answer => {
    const { error, ...rest } = parts.writeError(report(thrown, requestId, 'unknown'))
    onCall?.({ method: 'unknown', code: error.code, seconds: 0 })
    return { kind: 'json', ...rest, body: errorBody(id, error) }
  }

  const dispatch = async (
    request: RpcRequest,
    call: RpcCall<C>,
    alone: boolean,
  ): Promise<Answer> => {
    const id = request.id ?? null
    // What a stream keeps must not hold its request, which may be large.
    const named = request.id !== undefined
    const { requestId, begin } = call
    let served: Served<C>
    try {
      served = call.serve()
    } catch (error) {
      return malformed(error, id, requestId)
    }
    const started = performance.now()
    const turn: Turn<C> = {
      method: 'unknown',
      enter: call.enter,
      admit: (row) => {
        checkAdmitted(row, named, alone)
        return begin?.(row)
      },
      writeError: (thrown) => {
        const error = withoutAborts(thrown, turn.ctx?.signal)
        return served.writeError(report(error, requestId, turn.method))
      },
    }
    const body = await dispatchers.get(served)!({ ...request, id }, turn)
    const code = body?.error?.code ?? 0
    onCall?.({ method: turn.method, code, seconds: (performance.now() - started) / 1000 })
    const streams = turn.row?.kind === 'stream'
    if (streams && !turn.refusal) {
      const frames = framesOf(body?.result, (result) => resultBody(id, result))
      const onError = (error: unknown) => ({ data: errorBody(id, turn.writeError(error).error) })
      return { kind: 'stream', frames, onError }
    }
    const answer = { kind: 'json' as const, status: 200, ...turn.refusal, body }
    // Under another status than 200 a client looks for JSON, whatever it asked for.
    const byEvent = streams && served.refusesByEvent && call.eventsOnly && answer.status === 200
    return byEvent
      ? { kind: 'stream', frames: once({ data: body }), onError: () => ({ data: body }) }
      : answer
  }

  const single = async (value: unknown, call: RpcCall<C>, alone: boolean): Promise<Answer> => {
    const envelope = readEnvelope(value)
    if ('refusal' in envelope) return malformed(envelope.refusal, envelope.id, call.requestId)
    const { request } = envelope
    if (request.id !== undefined || !batches) return dispatch(request, call, alone)
    await dispatch(request, call, false)
    return { kind: 'nothing' }
  }

  /** Whether it would be answered with whole tasks: of these, one of a batch runs at a time. */
  const readsIn = ({ method }: RpcRequest): boolean =>
    parts.tables.some(({ table }) => Object.hasOwn(table, method) && table[method]?.reads)

  /** The answer to what came after a batch was full; without an id there is nothing to answer. */
  const beyond = (request: RpcRequest | null, call: RpcCall<C>): Answer | null => {
    if (request?.id === undefined) return null
    const why = `The answers of a batch hold at most ${MAX_BATCH_BYTES} bytes; this one was not run`
    const refusal = new Refusal('limit', { limit: MAX_BATCH_BYTES }, why)
    return malformed(refusal, request.id, call.requestId)
  }

  /**
   * What a holder sends about one todo takes effect in the order in which it was sent. The answers
   * are counted as they come, since a hundred large ones are more than a process can hold.
   */
  const batch = async (values: unknown[], call: RpcCall<C>): Promise<Answer> => {
    const refusal = batchRefusal(values, batches)
    if (refusal) return malformed(refusal, null, call.requestId)
    const turns = new Map<string | null, Promise<unknown>>()
    let reads: Promise<unknown> | undefined
    let bytes = 0
    const run = async (value: unknown, request: RpcRequest | null): Promise<Answer> => {
      const full = bytes >= MAX_BATCH_BYTES ? beyond(request, call) : null
      if (full) return full
      const answer = await single(value, call, false)
      if (answer.kind === 'json') bytes += Buffer.byteLength(exactText(answer.body))
      return answer
    }
    const answers = values.map((value) => {
      const request = requestIn(value)
      const turn = request && (turnOf?.(request) ?? null)
      // Without a turn of its own it waits for all before it, and all after it wait for it.
      const before =
        turn === null ? Promise.all(turns.values()) : (turns.get(turn) ?? turns.get(null))
      const isRead = request !== null && readsIn(request)
      const ready = isRead && reads ? Promise.all([before, reads]) : Promise.resolve(before)
      const answer = ready.then(() => run(value, request))
      if (isRead) reads = answer
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

const batchRefusal = (values: unknown[], batches: boolean): WireRefusal | null => {
  if (!batches) return new WireRefusal('envelope', 'Batches are not supported')
  if (values.length === 0) return new WireRefusal('envelope', 'A batch must not be empty')
  if (values.length > MAX_BATCH) {
    return new WireRefusal('envelope', `A batch holds at most ${MAX_BATCH} requests`)
  }
  return null
}
