/**
 * Answers that must look like something: an agent may put a JSON Schema on its question, which the
 * data part of the answer is checked against before it changes anything. The schema is somebody's
 * text: a pattern in it can backtrack for years and a reference can lead in circles, so each check
 * has a bound, and one that reached it is not tried again at once.
 */
import vm from 'node:vm'
import { Ajv2020, type ErrorObject, type ValidateFunction } from 'ajv/dist/2020.js'
import { invalid, Refusal, type Violation } from '../../domain/errors.ts'
import type { JsonObject, Message } from '../../domain/todo.ts'

const SCHEMA_CHARACTERS = 20_000
const VIOLATIONS = 20
/** Compiled schemas kept; the oldest goes first. */
const KEPT = 200

/** Nothing else runs while an answer is checked. */
const CHECK_MS = 500
/** So that whoever sends such answers again and again gets a small part of the time. */
const REST_MS = 20 * CHECK_MS

interface Check {
  validate: ValidateFunction
  /** Not to be tried before then (`performance.now()`). */
  restsUntil: number
}

const compiled = new Map<string, Check>()

const compile = (schema: JsonObject): Check => {
  const text = JSON.stringify(schema)
  const known = compiled.get(text)
  if (known) return known
  // A new one each time: an instance keeps every schema with an $id for ever.
  const ajv = new Ajv2020({ strict: false, allErrors: true, validateFormats: false })
  const validate = ajv.compile(schema)
  // It would answer with a promise, which is true of any answer.
  if ('$async' in validate) throw new Error('$async is not supported')
  const check = { validate, restsUntil: 0 }
  compiled.set(text, check)
  if (compiled.size > KEPT) compiled.delete(compiled.keys().next().value!)
  return check
}

const bounded = vm.createContext({ run: null })
const script = new vm.Script('run()')

/** `run`, broken off when its time is up: a script of its own is all that can be broken off. */
const within = <Result>(ms: number, run: () => Result): Result => {
  bounded.run = run
  try {
    return script.runInContext(bounded, { timeout: ms }) as Result
  } finally {
    bounded.run = null
  }
}

/** Whether it fits; null where that cannot be told. */
const fits = (check: Check, data: unknown): boolean | null => {
  const begunAt = performance.now()
  if (begunAt < check.restsUntil) return null
  try {
    return within(CHECK_MS, () => check.validate(data))
  } catch {
    const now = performance.now()
    if (now - begunAt >= CHECK_MS) check.restsUntil = now + REST_MS
    return null
  }
}

/** Refuses a schema that is none. */
export const checkSchema = (schema: JsonObject): void => {
  if (JSON.stringify(schema).length > SCHEMA_CHARACTERS) {
    throw invalid('schema', `is longer than ${SCHEMA_CHARACTERS} characters`)
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

/** Refuses an answer whose data part does not fit, naming the path at fault. */
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
  const found = (check.validate.errors ?? []).slice(0, VIOLATIONS)
  throw new Refusal('invalid', { violations: found.map((error) => violationOf(at, error)) })
}
