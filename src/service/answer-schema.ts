/**
 * Answers that must look like something: an agent may put a JSON Schema on its question, which the
 * data part of the answer is checked against before it changes anything.
 */
import { Ajv2020, type ErrorObject, type ValidateFunction } from 'ajv/dist/2020.js'
import { invalid, Refusal, type Violation } from '../domain/errors.ts'
import type { JsonObject, Message } from '../domain/todo.ts'

const SCHEMA_CHARACTERS = 20_000
const VIOLATIONS = 20
/** Compiled schemas kept; the oldest goes first. */
const KEPT = 200

const compiled = new Map<string, ValidateFunction>()

const compile = (schema: JsonObject): ValidateFunction => {
  const text = JSON.stringify(schema)
  const known = compiled.get(text)
  if (known) return known
  // A new one each time: an instance keeps every schema with an $id for ever.
  const ajv = new Ajv2020({ strict: false, allErrors: true, validateFormats: false })
  const validate = ajv.compile(schema)
  // It would answer with a promise, which is true of any answer.
  if ('$async' in validate) throw new Error('$async is not supported')
  compiled.set(text, validate)
  if (compiled.size > KEPT) compiled.delete(compiled.keys().next().value!)
  return validate
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
  const validate = compile(schema)
  if (validate(answer.parts[at]?.data)) return
  const violations = (validate.errors ?? []).slice(0, VIOLATIONS).map((e) => violationOf(at, e))
  throw new Refusal('invalid', { violations })
}
