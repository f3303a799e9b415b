/**
 * `watch`: the board's feed as lines; after a break it goes on where it was. Silence is no event,
 * so it looks at the claimed tasks now and then, and prints once each one that has gone idle.
 */
import type { Command } from 'commander'
import type { StreamedEvent } from '../../../agent-kit/connection/event-stream.ts'
import { defined } from '../../../base/defined.ts'
import { sleep } from '../../../base/time.ts'
import { spendText } from '../../../domain/spend.ts'
import type { Client } from '../../client.ts'
import { localTime, note, oneLine, print, printJson, style } from '../../output.ts'
import { clientCommand, withClient } from '../../program.ts'
import { idleText, type TodoEvent, type TodoPage } from '../../todo.ts'

const LOOK_FOR_IDLE_MS = 10_000

export const addWatch = (program: Command): void => {
  clientCommand(program, 'watch', 'print what happens, as it happens, until interrupted')
    .option('--queue <name>', 'only this queue')
    .action(
      withClient(async ({ client, json }, { queue }: { queue?: string }) => {
        const stop = new AbortController()
        for (const signal of ['SIGINT', 'SIGTERM'] as const) {
          process.once(signal, () => stop.abort())
        }
        const onBreak = (error: Error): void => note(`${error.message}; reconnecting`)
        const feed = client.feed({ queue, signal: stop.signal, onBreak })
        // What --json prints is the feed and nothing else.
        if (!json) void printIdle(client, queue, stop.signal)
        try {
          for await (const event of feed) {
            if (json) printJson({ event: event.name, ...(event.data as object) })
            else printEvent(event)
          }
        } finally {
          stop.abort()
        }
      }),
    )
}

const printIdle = async (
  client: Client,
  queue: string | undefined,
  signal: AbortSignal,
): Promise<void> => {
  /** The silence of each todo that was printed, by when it began: a later one is another. */
  let printed = new Map<string, string | null>()
  while (!signal.aborted) {
    const { todos } = await client
      .call<TodoPage>('todos.list', defined({ state: 'claimed', pageSize: 100, queue }))
      .catch((): Pick<TodoPage, 'todos'> => ({ todos: [] }))
    const idle = todos.filter((todo) => idleText(todo) !== '')
    for (const todo of idle) {
      if (printed.get(todo.id) === todo.progressAt) continue
      const by = todo.claimant === null ? '' : `held by ${oneLine(todo.claimant)}`
      print(line({ ...todo, at: new Date().toISOString() }, style('yellow', idleText(todo)), by))
    }
    printed = new Map(idle.map(({ id, progressAt }) => [id, progressAt]))
    await sleep(LOOK_FOR_IDLE_MS, signal).catch(() => {})
  }
}

const printEvent = ({ name, data }: StreamedEvent): void => {
  if (name === 'transition') {
    const event = data as TodoEvent
    print(line(event, `${event.from ?? 'new'} -> ${style('bold', event.to)}`, eventDetail(event)))
  } else if (name === 'ready') {
    const event = data as { at: string; queue: string; id: string; reason: string }
    print(line(event, 'ready', event.reason))
  } else if (name === 'gap') {
    const { oldest } = data as { oldest: number }
    note(`events before ${oldest} are no longer kept; some were missed`)
  }
}

const line = (
  { at, queue, id }: { at: string; queue: string; id: string },
  what: string,
  detail: string,
): string => `${localTime(at)}  ${queue}  ${shortId(id)}  ${what}  ${detail}`.trimEnd()

/** The end of an id: ids made in the same instant begin alike. */
const shortId = (id: string): string => id.slice(-8)

/** What an event carried, on one line. */
export const eventDetail = ({ verb, detail, claimant, from, to, author }: TodoEvent): string => {
  const { text, note: said, percent, error, retryAt, owed, spent, schedule } = detail ?? {}
  const parts = [
    from === null && author !== undefined ? `from ${author}` : '',
    to === 'claimed' && claimant !== null ? `by ${claimant}` : '',
    verb === 'park' ? `parked: ${claimant ?? 'its holder'} has stopped` : '',
    text ?? '',
    said ?? '',
    schedule === undefined ? '' : `by schedule ${schedule}`,
    percent === undefined ? '' : `${percent}%`,
    error === undefined ? '' : `${error.code}: ${error.message}`,
    retryAt === undefined ? '' : `retry at ${localTime(retryAt)}`,
    spent === undefined ? '' : `spent ${spendText(null, spent)}`,
    owed === undefined ? '' : `${owed} unread`,
  ]
  return oneLine(parts.filter((part) => part !== '').join(', '), 100)
}
