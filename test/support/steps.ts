/** Steps that many tests take, in a word each. Time passes by aging rows, never by waiting. */

import { ADMIN_TOKEN, type App } from './app.ts'
import type { Answer, Frame, Stream } from './clients/actors.ts'
import { type agentClient, openStream, rpc } from './clients/actors.ts'

export const UNKNOWN_ID = '11111111-1111-4111-8111-111111111111'

/** What must not be changed on its way: markup, quotes, controls, every plane of Unicode. */
export const ODD_TEXT = '<b>&"\'</b> é 漢字 😀 \u2028 \\n \r\n \t'

/** A message or artifact of one text, as the agent API takes it. */
export const saying = (text: string) => ({ parts: [{ text }] })

type AgentClient = ReturnType<typeof agentClient>
export type Claimed = Awaited<ReturnType<AgentClient['claim']>>

export const ask = (
  worker: AgentClient,
  { held }: Claimed,
  question: string,
  more: Record<string, unknown> = {},
): Promise<Answer> =>
  worker.call('todos.interrupt', {
    ...held,
    state: 'input-required',
    message: saying(question),
    ...more,
  })

/** The error of a call of the agent API that must be refused. */
export const refusalOf = (call: Promise<unknown>): Promise<Answer> =>
  call.then(
    (result) => {
      throw new Error(`not refused: ${JSON.stringify(result)}`)
    },
    (thrown: { error?: Answer }) => {
      if (!thrown.error) throw thrown
      return thrown.error
    },
  )

/** The lease of a holder that has worked has run out, long ago on the database's clock. */
export const lapseLease = (app: Pick<App, 'sql'>, ...ids: string[]) =>
  app.sql(
    `update todos set lease_expires_at = now() - interval '1 second',
      last_heartbeat_at = last_heartbeat_at + interval '1 second' where id = any($1::uuid[])`,
    [ids],
  )

/** The lease of whoever claimed has run out, and nothing ever came from there. */
export const loseClaim = (app: Pick<App, 'sql'>, ...ids: string[]) =>
  app.sql(
    `update todos set lease_expires_at = now() - interval '1 second' where id = any($1::uuid[])`,
    [ids],
  )

/** A scheduled retry, or a delayed release, is due. */
export const makeDue = (app: Pick<App, 'sql'>, id: string) =>
  app.sql(
    `update todos set next_retry_at = case when next_retry_at is not null then now() end,
       due_at = case when due_at is not null then now() end
     where id = $1`,
    [id],
  )

/** A call of the operator API with the admin token. */
export const operate = async (
  app: Pick<App, 'url'>,
  method: string,
  params: unknown,
): Promise<Answer> => {
  const { result, error } = await rpc(`${app.url}/operator`, method, params, {
    token: ADMIN_TOKEN,
  })
  if (error) throw Object.assign(new Error(error.message), { error })
  return result
}

/** Attempts of a todo, oldest first. */
export const attemptsOf = async (app: Pick<App, 'url'>, id: string): Promise<Answer[]> =>
  (await operate(app, 'todos.show', { id })).attempts.toReversed()

/** How many rows each table of the database has: that nothing was stored. */
export const rowCounts = async (app: Pick<App, 'sql'>): Promise<Record<string, unknown>> =>
  (
    await app.sql(
      `select (select count(*)::int from todos) as todos,
        (select count(*)::int from messages) as messages,
        (select count(*)::int from events) as events,
        (select count(*)::int from artifacts) as artifacts,
        (select count(*)::int from attempts) as attempts,
        (select count(*)::int from details) as details`,
    )
  )[0]!

/** The value of a series of /metrics, as written there; 0 where there is none. */
export const metric = async (app: Pick<App, 'url'>, series: string): Promise<number> => {
  const text = await (await fetch(`${app.url}/metrics`)).text()
  const line = text.split('\n').find((each) => each.startsWith(`${series} `))
  return Number(line?.slice(series.length + 1) ?? 0)
}

export const openBoard = (app: Pick<App, 'url'>, query: string, token = ADMIN_TOKEN) =>
  openStream(`${app.url}/board/events?${query}`, { token })

/** What the frames of an A2A stream hold. */
export const resultsOf = (frames: Frame[]): Answer[] => frames.map(({ json }) => json.result)

const stateOf = (result: Answer): string | undefined =>
  (result.task ?? result.statusUpdate)?.status.state

export const statesOf = (frames: Frame[]): string[] =>
  resultsOf(frames).flatMap((result) => stateOf(result) ?? [])

/** The next frame, which must be there. */
export const nextOf = async (stream: Stream): Promise<Frame> => {
  const frame = await stream.next()
  if (!frame) throw new Error('the stream ended')
  return frame
}
