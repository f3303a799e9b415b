/**
 * The services without HTTP and without workers of their own, in a process of its own: reads of
 * todos and ticks of the sweeps, so many a second.
 */
import type { Switchboard } from '../../src/app.ts'
import { EVERYTHING, type Scope } from '../../src/domain/endpoint.ts'
import { answerParent } from '../child.ts'
import { repeat } from '../repeat.ts'
import { QUEUE } from '../statements.ts'
import { makeApp } from './app.ts'

let app: Switchboard | null = null

/** Whose todos are listed and read. */
const open = ({ databaseUrl }: { databaseUrl: string }) => {
  app = makeApp(databaseUrl)
}

interface Reads {
  seconds: number
  clientId: string
}

const scopeOf = ({ clientId }: Reads): Scope => ({ kind: 'client', clientId, queue: QUEUE })

const CALLERS = 4

const page = { pageSize: 50, includeArtifacts: false }

/** The client's newest. */
const list = (reads: Reads) =>
  repeat(CALLERS, reads.seconds, () => app!.services.client.list(page, scopeOf(reads)))

/** The client's, of a state that few are in and that were in it long before the others ended. */
const listWaiting = (reads: Reads) => {
  const filter = { ...page, states: ['input-required' as const] }
  return repeat(CALLERS, reads.seconds, () => app!.services.client.list(filter, scopeOf(reads)))
}

const listAll = ({ seconds }: Reads) =>
  repeat(CALLERS, seconds, () => app!.services.client.list(page, EVERYTHING))

/** Todos of the client, one after the other. */
const get = async (reads: Reads) => {
  const scope = scopeOf(reads)
  const { todos } = await app!.services.client.list(page, scope)
  let next = 0
  return repeat(CALLERS, reads.seconds, () => {
    next += 1
    return app!.services.client.get(todos[next % todos.length]!.todo.id, scope)
  })
}

/** One at a time, as a node does it. */
const tick = ({ seconds, sweep }: Reads & { sweep: 'reap' | 'timeOut' | 'comeDue' }) =>
  repeat(1, seconds, () => app!.sweep[sweep]())

answerParent({ open, list, listWaiting, listAll, get, tick }, async () => app?.stop())
