/**
 * Several people over one endpoint, and two clients in one context, do what comes: send, are asked, answer,
 * finish. Whatever is drawn, a message that names no task belongs to its own author alone, nobody sees
 * another client's task, and of one line one todo is at work. RANDOM_SEED repeats what is drawn.
 */

import pg from 'pg'
import { afterAll, expect, test } from 'vitest'
import { startApp } from '../support/app.ts'
import { type Answer, a2aClient, agentClient, textMessage } from '../support/clients/actors.ts'
import { randomOf } from '../support/seeded.ts'
import { ask, type Claimed, operate } from '../support/steps.ts'
import { runs } from '../support/tier.ts'

const SEED = Number(process.env.RANDOM_SEED ?? Date.now() % 1_000_000)
const STEPS = runs(30, 200)
const PEOPLE = [undefined, 'ann', 'bob', 'Ann'] as const
const CONTEXTS = ['group', 'other'] as const

const app = await startApp({ reapMs: 3_600_000 })
const database = new pg.Client({ connectionString: app.databaseUrl })
afterAll(() => database.end())
await database.connect()
const sql = async <Row>(text: string, values: unknown[]): Promise<Row[]> =>
  (await database.query(text, values)).rows as Row[]

interface Task {
  id: string
  client: number
  author: string | null
  contextId: string
}
interface Row {
  id: string
  author: string | null
  contextId: string
  clientId: string
  line: string
  front: boolean
  asks: boolean
}

const LIVE = `select id, author, context_id as "contextId", client_id as "clientId", line, front,
    state in ('input-required', 'auth-required') and answered_at is null as asks
  from todos where queue = $1 and finished_at is null`

test.each(
  (['client', 'context'] as const).flatMap((line) =>
    (['explicit', 'question', 'author'] as const).map((reentry) => ({ line, reentry })),
  ),
)('a message goes to nobody but its author (line: $line, reentry: $reentry)', async (policy) => {
  const random = randomOf(SEED)
  const pick = <T>(of: readonly T[]): T => of[Math.floor(random() * of.length)]!
  const queue = `many-${policy.line}-${policy.reentry}`
  const { client, agent } = await app.queue(queue, policy)
  const clients = [client, await app.vend(['send'], [queue])]
  const speakers = clients.map(({ token }) => a2aClient(app.url, queue, token))
  const worker = agentClient(app.url, agent.token)
  const tasks = new Map<string, Task>()
  const held: Claimed[] = []
  const said: { id: string; author: string | null; text: string }[] = []
  const live = () => sql<Row>(LIVE, [queue])

  const ownTo = (task: Omit<Task, 'id'>) => (row: Row) =>
    row.clientId === clients[task.client]!.endpoint.id &&
    row.author === task.author &&
    row.contextId === task.contextId

  const checkAnswer = (task: Answer, client: number): void => {
    const behind = task.metadata?.['urn:switchboard:waits-behind']
    if (behind !== undefined) expect(tasks.get(behind)?.client).toBe(client)
  }

  const send = async (step: number) => {
    const client = Math.floor(random() * clients.length)
    const named = pick(PEOPLE)
    const task = { client, author: named ?? null, contextId: pick(CONTEXTS) }
    const before = (await live()).filter(ownTo(task))
    const text = `message ${step}`
    const { result, error } = await speakers[client]!.call('SendMessage', {
      message: textMessage(text, { contextId: task.contextId }),
      configuration: { returnImmediately: true },
      ...(named !== undefined && { metadata: { 'switchboard/author': named } }),
    })
    expect(error).toBeUndefined()
    const { id, metadata } = result.task
    const questions = before.filter(({ asks }) => asks).map((row) => row.id)
    const known = tasks.get(id)
    if (known) expect(known).toMatchObject(task)
    const mustGoTo = {
      explicit: [],
      question: questions.length === 1 ? questions : [],
      author: questions.length > 0 ? questions : before.filter((row) => row.front).map((r) => r.id),
    }[policy.reentry]
    if (mustGoTo.length > 0) expect(mustGoTo).toContain(id)
    else if (policy.reentry !== 'author') expect(known).toBeUndefined()
    const { openQuestions = [] } = metadata?.['urn:switchboard:receipt'] ?? {}
    for (const open of openQuestions) expect(questions).toContain(open)
    tasks.set(id, { id, ...task })
    said.push({ id, author: task.author, text })
    checkAnswer(result.task, client)
  }

  const claim = async () => {
    const { todos } = await worker.call('todos.claim', { limit: 1 })
    for (const todo of todos) {
      expect(todo.author ?? null).toBe(tasks.get(todo.id)!.author)
      held.push({ ...todo, held: { id: todo.id, fence: todo.fence } })
    }
  }

  /** What was answered is at work again, or will be; the others ask. */
  const working = async (): Promise<Claimed | undefined> => {
    const rows = new Map((await live()).map((row) => [row.id, row]))
    return pick(held.filter(({ id }) => rows.get(id)?.front))
  }

  const finish = async () => {
    const todo = await working()
    if (!todo) return
    const { messages } = await worker.call('todos.messages', todo.held)
    const acknowledge = messages.at(-1)?.seq
    for (const { author = null } of messages) expect(author).toBe(tasks.get(todo.id)!.author)
    await worker.call('todos.complete', { ...todo.held, ...(acknowledge && { acknowledge }) })
    held.splice(held.indexOf(todo), 1)
  }

  const question = async () => {
    const todo = await working()
    if (!todo) return
    const { messages } = await worker.call('todos.messages', todo.held)
    const through = messages.at(-1)?.seq
    if (through) await worker.call('todos.acknowledge', { ...todo.held, through })
    await ask(worker, todo, 'which?')
  }

  for (let step = 0; step < STEPS; step += 1) {
    const act = pick([send, send, send, claim, claim, finish, question])
    await act(step)
    const fronts = (await live()).filter(({ front }) => front).map((row) => row.line)
    expect(new Set(fronts).size, `seed ${SEED}`).toBe(fronts.length)
  }

  for (const { id, author } of tasks.values()) {
    expect((await operate(app, 'todos.show', { id })).author ?? null).toBe(author)
  }
  for (const [n, speaker] of speakers.entries()) {
    for (const contextId of CONTEXTS) {
      const { result } = await speaker.call('ListTasks', { contextId, pageSize: 100 })
      for (const task of result.tasks) {
        expect(tasks.get(task.id)).toMatchObject({ client: n, contextId })
        checkAnswer(task, n)
      }
    }
  }
  const words = await sql<{ id: string; text: string }>(
    `select m.todo_id as id, m.message -> 'parts' -> 0 ->> 'text' as text from messages m
      join todos t on t.id = m.todo_id where t.queue = $1 and m.role = 'user'`,
    [queue],
  )
  expect(words).toHaveLength(said.length)
  for (const { id, author, text } of said) {
    expect(words).toContainEqual({ id, text })
    expect(tasks.get(id)!.author).toBe(author)
  }
  const lines = await sql<{ count: number }>(
    `select count(distinct line)::int as count from todos where queue = $1
      group by context_id, case when $2 then null else client_id end`,
    [queue, policy.line === 'context'],
  )
  for (const { count } of lines) expect(count).toBe(1)
})
