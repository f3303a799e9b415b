/**
 * A method table behind `json-rpc-2.0`, in the only file of the server that knows the library. Its
 * middleware is the chain that every call passes: what was thrown becomes a JSON-RPC error, then method, right
 * and params are checked, then the row is called. Four habits of 1.8.1 would break the protocol,
 * so envelope.ts and server.ts keep them from ever showing: it accepts an object as id, rejects on
 * a body of null, unwraps a batch of one, and drops the errors of a request without an id. They
 * hand it single, valid requests that all have an id.
 */
import {
  createJSONRPCErrorResponse,
  createJSONRPCSuccessResponse,
  JSONRPCErrorException,
  type JSONRPCRequest,
  JSONRPCServer,
  type JSONRPCServerMiddleware,
} from 'json-rpc-2.0'
import { type ErrorAnswer, type ErrorWriter, WireRefusal } from '../protocol/wire/errors.ts'
import type { Call, MethodTable, Row } from '../protocol/wire/method.ts'
import { readParams } from '../protocol/wire/params.ts'

/** Which rows serve a request, and how they write their errors. */
export interface Served<C extends Call> {
  table: MethodTable<C>
  writeError: ErrorWriter
  /** What to say about a method that the table lacks, if there is more to say. */
  explain?(method: string): string | undefined
  /** A refused stream is one event with the error, for clients that take nothing but events. */
  refusesByEvent?: boolean
}

/** What one call carries through the chain, and what it learns on the way. */
export interface Turn<C extends Call> {
  /** Makes the row's context; may refuse. Called once the method is known. */
  enter(): Promise<C>
  /** The last check before the call. Throws if the row may not be run, and may make it wait. */
  admit(row: Row<C>): Promise<void> | undefined
  /** Logs what was thrown and writes it as an error. */
  writeError(error: unknown): ErrorAnswer
  /** A name of the table; `unknown` until the row is found. */
  method: string
  row?: Row<C>
  ctx?: C
  /** The HTTP side of the error, which the library has no place for. */
  refusal?: Omit<ErrorAnswer, 'error'>
}

export const createDispatcher = <C extends Call>({ table, explain }: Served<C>) => {
  const library = new JSONRPCServer<Turn<C>>({ errorListener: () => undefined })

  const withErrors: JSONRPCServerMiddleware<Turn<C>> = async (next, request, turn) => {
    try {
      return await next(request, turn)
    } catch (thrown) {
      const { error, ...refusal } = turn.writeError(thrown)
      turn.refusal = refusal
      throw new JSONRPCErrorException(error.message, error.code, error.data)
    }
  }

  const withRight: JSONRPCServerMiddleware<Turn<C>> = async (next, request, turn) => {
    const { method } = request
    const row = Object.hasOwn(table, method) ? table[method] : undefined
    if (!row) throw new WireRefusal('method', explain?.(method))
    turn.row = row
    turn.method = method
    turn.ctx = await turn.enter()
    row.right(turn.ctx)
    return next(request, turn)
  }

  const withParams: JSONRPCServerMiddleware<Turn<C>> = async (next, request, turn) => {
    const row = turn.row!
    const params = readParams(row, request.params)
    const waiting = turn.admit(row)
    if (waiting !== undefined) await waiting
    return next({ ...request, params }, turn)
  }

  library.applyMiddleware(withErrors, withRight, withParams)
  for (const [name, row] of Object.entries(table)) {
    library.addMethod(name, (params, turn) => row.call(turn!.ctx!, params))
  }
  return (request: JSONRPCRequest, turn: Turn<C>) => library.receive(request, turn)
}

export const resultBody = createJSONRPCSuccessResponse
export const errorBody = (
  id: string | number | null,
  { code, message, data }: ErrorAnswer['error'],
) => createJSONRPCErrorResponse(id, code, message, data)
