/**
 * What runs in the thread that compiles answer schemas and checks answers: nothing else of the node
 * waits for it, and it may be ended at any moment. A schema is an agent's text and an answer a
 * client's, so neither is trusted to be small, quick or finite.
 */
import { parentPort } from 'node:worker_threads'
import { Ajv2020, type ErrorObject, type ValidateFunction } from 'ajv/dist/2020.js'
import { createKept } from '../kept.ts'

/** Both as JSON. Without data the schema is only compiled. */
export interface Work {
  schema: string
  data?: string
}

export interface Fault {
  path: string
  message: string
}

export type Report =
  | { kind: 'ready' }
  /** The schema is compiled; what follows is the check. */
  | { kind: 'checking' }
  | { kind: 'compiled' }
  | { kind: 'bad schema'; reason: string }
  | { kind: 'checked'; faults: Fault[] }
  /** The references of the schema lead deeper than the stack goes. */
  | { kind: 'too deep' }

/** How many compiled schemas are kept, and how much code of theirs, in characters. */
const MAX_KEPT = 200
const MAX_KEPT_CODE = 8_000_000
/** One schema makes no more code than this, whatever its references say. */
const MAX_CODE = 1_000_000
const MAX_FAULTS = 20
const MAX_TEXT = 500

/**
 * Beyond this product of two lengths only the first fault is looked for: a list of all of them grows
 * with the answer times the schema, and would be most of the thread's memory.
 */
const ALL_FAULTS = 10_000_000

const kept = createKept<ValidateFunction>(MAX_KEPT, MAX_KEPT_CODE)

/** It would print the code of a schema that it cannot compile. */
const OPTIONS = {
  strict: false,
  validateFormats: false,
  inlineRefs: false,
  logger: false,
} as const

/** Knows what a schema is, which takes a while to learn. It keeps nothing of those it looks at. */
const judge = new Ajv2020(OPTIONS)
void judge.validateSchema({})

const parse = (text: string): object => {
  const schema = JSON.parse(text)
  if (judge.validateSchema(schema) === true) return schema
  throw new Error(`schema is invalid: ${judge.errorsText(judge.errors)}`)
}

const compile = (text: string, allErrors: boolean): ValidateFunction => {
  const key = `${allErrors} ${text}`
  const known = kept.get(key)
  if (known) return known
  let size = text.length
  const process = (code: string): string => {
    size += code.length
    if (size > MAX_CODE) throw new Error(`it makes more than ${MAX_CODE} characters of code`)
    return code
  }
  // A new instance each time, because an instance keeps every schema with an $id for ever. References
  // are calls and not copies: copied, twenty thousand characters become gigabytes.
  const ajv = new Ajv2020({ ...OPTIONS, allErrors, validateSchema: false, code: { process } })
  const validate = ajv.compile(parse(text))
  // Such a schema would answer with a promise, which is truthy for any answer.
  if ('$async' in validate) throw new Error('$async is not supported')
  kept.set(key, validate, size)
  return validate
}

const cut = (text: string): string =>
  text.length > MAX_TEXT ? `${text.slice(0, MAX_TEXT)}…`.toWellFormed() : text

const faultOf = ({ instancePath, message }: ErrorObject): Fault => ({
  path: cut(instancePath),
  message: cut(message ?? 'does not fit the schema of the question'),
})

const port = parentPort!
const report = (what: Report): void => port.postMessage(what)

const check = (schema: string, text: string): Report => {
  const validate = compile(schema, schema.length * text.length <= ALL_FAULTS)
  report({ kind: 'checking' })
  try {
    if (validate(JSON.parse(text))) return { kind: 'checked', faults: [] }
    return { kind: 'checked', faults: (validate.errors ?? []).slice(0, MAX_FAULTS).map(faultOf) }
  } catch (error) {
    if (error instanceof RangeError) return { kind: 'too deep' }
    throw error
  } finally {
    // They point into the answer, which could be large.
    validate.errors = null
  }
}

port.on('message', ({ schema, data }: Work) => {
  let done: Report
  try {
    done = data === undefined ? { kind: 'compiled' } : check(schema, data)
    if (data === undefined) compile(schema, true)
  } catch (error) {
    done = { kind: 'bad schema', reason: cut((error as Error).message) }
  }
  report(done)
})
report({ kind: 'ready' })
