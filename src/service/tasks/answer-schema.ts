/**
 * Answers with a schema: an agent may put a JSON Schema on its question, and the data part of the
 * answer is checked against it before it changes anything. The schema comes from outside: a pattern
 * in it can backtrack for years and a reference can lead in circles, so each check has a time limit,
 * and one that reached it is not tried again at once.
 */
import vm from 'node:vm'
import { Ajv2020, type ErrorObject, type ValidateFunction } from 'ajv/dist/2020.js'
import { invalid, Refusal, type Violation } from '../../domain/errors.ts'
import type { JsonObject, Message } from '../../domain/todo.ts'

const MAX_SCHEMA_LENGTH = 20_000
const MAX_VIOLATIONS = 20
/** How many compiled schemas are kept; the oldest goes first. */
const MAX_COMPILED = 200

/** Short, since nothing else runs while an answer is checked. */
const CHECK_MS = 500
/** Whoever sends such answers again and again gets only a small share of the time. */
const REST_MS = 20 * CHECK_MS

interface Check {
  validate: ValidateFunction
  /** It is not tried again before then (`performance.now()`). */
  restsUntil: number
}

const compiled = new Map<string, Check>()

const compile = (schema: JsonObject): Check => {
  const text = JSON.stringify(schema)
  const known = compiled.get(text)
  if (known) return known
  // A new instance each time, because an instance keeps every schema with an $id for ever.
  const ajv = new Ajv2020({ strict: false, allErrors: true, validateFormats: false })
  const validate = ajv.compile(schema)
  // Such a schema would answer with a promise, which is truthy for any answer.
  if ('$async' in validate) throw new Error('$async is not supported')
  const check = { validate, restsUntil: 0 }
  compiled.set(text, check)
  if (compiled.size > MAX_COMPILED) compiled.delete(compiled.keys().next().value!)
  return check
}

const sandbox = vm.createContext({ run: null })
const script = new vm.Script('run()')

/** Runs something within a time limit. Only a script of its own can be broken off, hence the vm. */
const within = <Result>(ms: number, run: () => Result): Result => {
  sandbox.run = run
  try {
    return script.runInContext(sandbox, { timeout: ms }) as Result
  } finally {
    sandbox.run = null
  }
}

/** Whether the data fits; null if we cannot tell. */
const fits = (check: Check, data: unknown): boolean | null => {
  const startedAt = performance.now()
  if (startedAt < check.restsUntil) return null
  try {
    return within(CHECK_MS, () => check.validate(data))
  } catch {
    const now = performance.now()
    if (now - startedAt >= CHECK_MS) check.restsUntil = now + REST_MS
    return null
  }
}

/** Refuses what is not a JSON Schema. */
export const checkSchema = (schema: JsonObject): void => {
  if (JSON.stringify(schema).length > MAX_SCHEMA_LENGTH) {
    throw invalid('schema', `is longer than ${MAX_SCHEMA_LENGTH} characters`)
  }
  try {
    compile(schema)
  } catch (error) {
    throw invalid('schema', `is not a JSON Schema: ${(error as Error).message}`)
  }
}

const violationOf = (part: number, { instancePath, message }: ErrorObject): Violation => ({
  field: `message.parts[${part}].data${instancePath}`,
  description: message ?? 'does not fit the schema of the question',
})

/** Refuses an answer whose data part does not fit, and names the paths at fault. */
export const checkAnswer = (schema: JsonObject, answer: Message): void => {
  const at = answer.parts.findIndex((part) => 'data' in part)
  if (at < 0) throw invalid('message.parts', 'needs a data part: the question has a schema')
  const check = compile(schema)
  const fit = fits(check, answer.parts[at]?.data)
  if (fit) return
  if (fit === null) {
    throw invalid(
      `message.parts[${at}].data`,
      'cannot be checked: the schema of the question takes too long or leads in circles',
    )
  }
  const found = (check.validate.errors ?? []).slice(0, MAX_VIOLATIONS)
  throw new Refusal('invalid', { violations: found.map((error) => violationOf(at, error)) })
}
