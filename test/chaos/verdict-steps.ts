/** What the agents wrote down under their fences, beside the log. */
import type { Log } from '../support/checker.ts'
import type { Step } from '../support/tale.ts'
import type { Violations } from './violations.ts'

/** What the agents wrote down: no write from a stale fence, and none lost that was confirmed. */
export const judgeSteps = (log: Log, steps: readonly Step[], violations: Violations): void => {
  const tried = new Set(steps.map(({ id, fence, name }) => `${id} ${fence} ${name}`))
  const names = new Map<string, string>()
  for (const { todo_id, seq, role, message_id } of log.messages) {
    if (role === 'agent') names.set(`${todo_id} ${seq}`, message_id)
  }
  for (const { todo_id, seq, artifact_id } of log.artifacts) {
    names.set(`${todo_id} ${seq}`, artifact_id)
  }
  const written = new Set<string>()
  for (const { todo_id, seq, fence, verb } of log.events) {
    const name = names.get(`${todo_id} ${seq}`)
    const kept = name ?? `${verb}-${fence}`
    written.add(`${todo_id} ${fence} ${kept}`)
    if (
      name !== undefined &&
      !(tried.has(`${todo_id} ${fence} ${name}`) && name.endsWith(`-${fence}`))
    ) {
      violations.add('a write of nobody', `${todo_id} ${seq}: ${name} under ${fence}`)
    }
  }
  const completed = new Map<string, string>()
  for (const { what, id, fence, name } of steps) {
    if (what !== 'did') continue
    if (!written.has(`${id} ${fence} ${name}`)) violations.add('a write is lost', `${id} ${name}`)
    if (name !== `end-${fence}`) continue
    if (completed.has(id))
      violations.add('completed twice', `${id}: ${completed.get(id)}, ${fence}`)
    completed.set(id, fence)
  }
  judgeOwed(log, steps, violations)
}

/** What may be thrown at a handler: its own errors, the end of its attempt, and that nobody answered. */
const MAY_THROW = [
  /^Error: the first attempt fails/,
  /^NonRetryable: never to be tried again/,
  /^AbortError: /,
  // What ends an attempt may come when it is somebody else's already.
  /^AgentApiError: You no longer hold this todo/,
  /^ConnectionError: /,
  /^AgentApiError: The service is not available/,
]

/** A handler fails where its work does, not because something else broke that could be made good. */
export const judgeThrown = (steps: readonly Step[], violations: Violations): void => {
  for (const { what, id, fence, error = '' } of steps) {
    if (what !== 'threw' || MAY_THROW.some((known) => known.test(error))) continue
    violations.add('thrown at a handler', `${id} ${fence}: ${error}`)
  }
}

/** Every message that was taken from a client was given to whoever completed its task. */
const judgeOwed = (log: Log, steps: readonly Step[], violations: Violations): void => {
  const given = new Set(
    steps
      .filter(({ what }) => what === 'got' || what === 'answered')
      .map(({ id, fence, name }) => `${id} ${fence} ${name}`),
  )
  const fences = new Map(
    log.events
      .filter(({ verb }) => verb === 'complete')
      .map((event) => [event.todo_id, event.fence]),
  )
  for (const { todo_id, role, message_id } of log.messages) {
    const fence = fences.get(todo_id)
    if (role !== 'user' || fence === undefined) continue
    if (!given.has(`${todo_id} ${fence} ${message_id}`)) {
      violations.add('a message was not given to who completed', `${todo_id} ${message_id}`)
    }
  }
}

/** How often an agent tried to write although another had told that it has claimed since. */
export const countStale = (steps: readonly Step[]): number => {
  const newest = new Map<string, number>()
  let stale = 0
  for (const { what, id, fence } of steps) {
    const known = newest.get(id) ?? 0
    if (what === 'claimed') newest.set(id, Math.max(known, Number(fence)))
    else if (what === 'tries' && Number(fence) < known) stale += 1
  }
  return stale
}
