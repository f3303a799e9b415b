/**
 * Answers with a schema: an agent may put a JSON Schema on its question, and the data part of the
 * answer is checked against it before it changes anything. The schema comes from outside: a pattern in
 * it can backtrack for years, a reference can lead in circles or multiply. So all of it happens in a
 * thread of its own, with bounds on time and memory, and what was costly is charged to the endpoint
 * that asked the question.
 */
import { exactText } from '../../base/exact-json.ts'
import type { Log } from '../../base/log.ts'
import { invalid, Refusal } from '../../domain/errors.ts'
import type { Json, JsonObject, Message } from '../../domain/todo.ts'
import { createThread, type Result, type ThreadLimits } from './thread.ts'
import { createTurns, type Turn, type TurnLimits } from './turns.ts'
import type { Work } from './worker.ts'

const MAX_SCHEMA_LENGTH = 20_000
const MAX_REFS = 200
const MAX_SCHEMA_DEPTH = 64

export const SCHEMA_LIMITS: ThreadLimits & TurnLimits = {
  compileMs: 2000,
  checkMs: 1000,
  memoryMb: 256,
  idleMs: 60_000,
  perSubject: 8,
  perOwner: 100,
  waitMs: 10_000,
  costlyMs: 250,
  restFactor: 2,
  forgetMs: 60_000,
}

/** The question: its schema, the endpoint that asked it, and its todo. */
interface Asked extends Turn {
  schema: JsonObject
}

export interface AnswerSchemas {
  /** Refuses what is not a JSON Schema, or one that cannot be compiled within the bounds. */
  checkSchema(asked: Asked): Promise<void>
  /** Refuses an answer whose data part does not fit, and names the paths at fault. */
  checkAnswer(asked: Asked, answer: Message): Promise<void>
  stop(): Promise<void>
}

/** How many references there are in it, and how deep it is. */
const measure = (value: Json, depth = 1): { refs: number; depth: number } => {
  const found = { refs: 0, depth }
  if (typeof value !== 'object' || value === null || depth > MAX_SCHEMA_DEPTH) return found
  for (const [name, member] of Object.entries(value)) {
    if (/^\$(ref|dynamicRef|recursiveRef)$/.test(name)) found.refs += 1
    const inside = measure(member, depth + 1)
    found.refs += inside.refs
    found.depth = Math.max(found.depth, inside.depth)
  }
  return found
}

const schemaProblem = (schema: JsonObject, text: string): string | null => {
  if (text.length > MAX_SCHEMA_LENGTH) return `is longer than ${MAX_SCHEMA_LENGTH} characters`
  const { refs, depth } = measure(schema)
  if (depth > MAX_SCHEMA_DEPTH) return `is deeper than ${MAX_SCHEMA_DEPTH} levels`
  return refs > MAX_REFS ? `holds more than ${MAX_REFS} references` : null
}

/** What went beyond a bound, in words that follow "the schema"; null where nothing did. */
const excess = (result: Result): string | null => {
  if (result.kind === 'out of memory') return 'needs too much memory'
  if (result.kind === 'too deep') return 'leads in circles'
  if (result.kind !== 'out of time') return null
  return `takes longer than ${result.limitMs} ms to ${result.doing}`
}

interface AnswerSchemasParts {
  log: Pick<Log, 'warn'>
  limits?: Partial<typeof SCHEMA_LIMITS>
}

export const createAnswerSchemas = ({ log, limits }: AnswerSchemasParts): AnswerSchemas => {
  const bounds = { ...SCHEMA_LIMITS, ...limits }
  const thread = createThread(bounds)
  const turns = createTurns(bounds)

  const run = async ({ owner, subject }: Asked, work: Work): Promise<Result> => {
    const { result } = await turns.take({ owner, subject }, () => thread.run(work))
    const beyond = excess(result)
    if (beyond) log.warn({ endpoint: owner, todo: subject }, `the schema of a question ${beyond}`)
    return result
  }

  return {
    checkSchema: async (asked) => {
      const text = exactText(asked.schema)
      const problem = schemaProblem(asked.schema, text)
      if (problem) throw invalid('schema', problem)
      const result = await run(asked, { schema: text })
      const beyond = excess(result)
      if (beyond) throw invalid('schema', beyond)
      if (result.kind === 'bad schema') {
        throw invalid('schema', `is not a JSON Schema: ${result.reason}`)
      }
    },

    checkAnswer: async (asked, answer) => {
      const at = answer.parts.findIndex((part) => 'data' in part)
      if (at < 0) throw invalid('message.parts', 'needs a data part: the question has a schema')
      const field = `message.parts[${at}].data`
      const data = exactText(answer.parts[at]?.data)
      const result = await run(asked, { schema: exactText(asked.schema), data })
      if (result.kind === 'checked') {
        if (result.faults.length === 0) return
        const violations = result.faults.map(({ path, message }) => ({
          field: `${field}${path}`,
          description: message,
        }))
        throw new Refusal('invalid', { violations })
      }
      const why = excess(result) ?? 'cannot be compiled'
      throw invalid(field, `cannot be checked: the schema of the question ${why}`)
    },

    stop: async () => {
      turns.stop()
      await thread.stop()
    },
  }
}
