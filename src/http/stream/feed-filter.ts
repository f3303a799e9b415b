/** What a reader of the board, or of its feed, asked to see, and what of that it may see. */
import type { Request } from 'express'
import { type Caller, watchScope } from '../../domain/endpoint.ts'
import { invalid, Refusal } from '../../domain/errors.ts'
import { STATE_NAMES, type State } from '../../domain/lifecycle.ts'
import { isKeepable } from '../../protocol/wire/params.ts'
import type { BoardFilter } from '../../service/board/lanes.ts'

/** `?queue=a&queue=b`, `?queue=a,b` or both; null where none is named. */
export const readNames = (req: Request, name: string): string[] | null => {
  const given = [req.query[name] ?? []].flat()
  if (!given.every((value) => typeof value === 'string')) throw invalid(name, 'must be text')
  if (!given.every(isKeepable)) throw invalid(name, 'must be well-formed text without NUL')
  const names = given.flatMap((value) => value.split(',')).filter((each) => each !== '')
  return names.length > 0 ? names : null
}

/** Those of `allowed` that were asked for; null means every one there is. */
export const narrow = (allowed: readonly string[] | null, asked: string[] | null) => {
  if (asked === null) return allowed
  const queues = allowed === null ? asked : asked.filter((queue) => allowed.includes(queue))
  if (queues.length === 0) throw new Refusal('forbidden')
  return queues
}

const isState = (name: string): name is State => (STATE_NAMES as string[]).includes(name)

const readStates = (req: Request): State[] | null => {
  const names = readNames(req, 'state')
  if (names === null) return null
  if (!names.every(isState)) throw invalid('state', `must be among ${STATE_NAMES.join(', ')}`)
  return names
}

/** The filter that a request of the board asks for. Refuses: forbidden, and what it cannot read. */
export const readFilter = (req: Request, caller: Caller): BoardFilter => {
  const scope = watchScope(caller)
  const allowed = scope.kind === 'queues' ? scope.queues : null
  const { context } = req.query
  if (context !== undefined && typeof context !== 'string') {
    throw invalid('context', 'must be given once')
  }
  if (context && !isKeepable(context)) {
    throw invalid('context', 'must be well-formed text without NUL')
  }
  return {
    queues: narrow(allowed, readNames(req, 'queue')),
    states: readStates(req),
    contextId: context || null,
  }
}
