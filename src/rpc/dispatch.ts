/**
 * The unary rows of a table behind `json-rpc-2.0`, the only file that knows the library. Seen in
 * 1.8.1 and settled by never reaching it: it accepts an object as id, rejects on a body of null,
 * unwraps a batch of one (envelope.ts and server.ts hand it single, valid requests only), and it
 * answers what is thrown with code 0 and the raw message (the middleware keeps that from it).
 */
import { JSONRPCServer } from 'json-rpc-2.0'
import type { Call, MethodTable, UnaryRow } from '../protocol/method.ts'
import type { RpcRequest } from './envelope.ts'

/** What one unary call carries through the library. */
interface Turn<C> {
  ctx: C
  thrown?: { error: unknown }
}

/** A library server with the table's unary rows; its streams are not in it. */
export const createLibrary = <C extends Call>(table: MethodTable<C>): JSONRPCServer<Turn<C>> => {
  const library = new JSONRPCServer<Turn<C>>({ errorListener: () => undefined })
  library.applyMiddleware(async (next, request, turn) => {
    try {
      return await next(request, turn)
    } catch (error) {
      turn.thrown = { error }
      return null
    }
  })
  const rows = Object.entries(table).filter((entry): entry is [string, UnaryRow<C>] => {
    return entry[1].kind === 'unary'
  })
  for (const [name, row] of rows) {
    library.addMethod(name, (params, turn) => row.call(turn.ctx, params))
  }
  return library
}

/** The row's result (undefined becomes null). Throws what the row threw, as it was thrown. */
export const runUnary = async <C extends Call>(
  library: JSONRPCServer<Turn<C>>,
  request: RpcRequest,
  params: unknown,
  ctx: C,
): Promise<unknown> => {
  const turn: Turn<C> = { ctx }
  const response = await library.receive({ ...request, params }, turn)
  if (turn.thrown) throw turn.thrown.error
  return response?.result ?? null
}
