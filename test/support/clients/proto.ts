/**
 * Reads the facts out of a .proto file: messages with their fields, enums, methods. Knows as much
 * of the language as A2A's own file uses. Run with a file's name it prints them as JSON; that is
 * how test/fixtures/a2a-1.0.json is made.
 */
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

export interface ProtoField {
  /** Scalar, message or enum; `map<string, T>` is written as it stands. */
  type: string
  repeated?: true
  /** Has presence of its own (`optional`). */
  optional?: true
  /** `field_behavior = REQUIRED`. */
  required?: true
  oneof?: string
}

interface ProtoMethod {
  request: string
  response: string
  streams?: true
}

export interface ProtoFacts {
  messages: Record<string, Record<string, ProtoField>>
  enums: Record<string, string[]>
  methods: Record<string, ProtoMethod>
}

const camel = (name: string): string =>
  name.replace(/_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase())

const FIELD =
  /^(repeated |optional )?(map<\s*\w+\s*,\s*[\w.]+\s*>|[\w.]+) (\w+) = \d+\s*(\[.*\])?$/s

const readField = (statement: string, oneof?: string): [string, ProtoField] | null => {
  const match = FIELD.exec(statement)
  if (!match) return null
  const [, label, type = '', name = '', options = ''] = match
  return [
    camel(name),
    {
      type: type.replace(/\s+/g, ' ').replace('google.protobuf.', ''),
      ...(label === 'repeated ' && { repeated: true }),
      ...(label === 'optional ' && { optional: true }),
      ...(/field_behavior\)\s*=\s*REQUIRED/.test(options) && { required: true }),
      ...(oneof !== undefined && { oneof }),
    },
  ]
}

/** `head { body }` pairs at the top of `text`, and the statements that stand between them. */
const split = (text: string) => {
  const blocks: { head: string; body: string }[] = []
  const statements: string[] = []
  let depth = 0
  let start = 0
  let head = ''
  for (let at = 0; at < text.length; at += 1) {
    const letter = text[at]
    if (letter === '{' && depth++ === 0) {
      head = text.slice(start, at).trim()
      start = at + 1
    } else if (letter === '}' && --depth === 0) {
      blocks.push({ head, body: text.slice(start, at) })
      start = at + 1
    } else if (letter === ';' && depth === 0) {
      statements.push(text.slice(start, at).trim().replace(/\s+/g, ' '))
      start = at + 1
    }
  }
  return { blocks, statements }
}

const readMessage = (body: string): Record<string, ProtoField> => {
  const { blocks, statements } = split(body)
  const plain = statements.map((statement) => readField(statement))
  const chosen = blocks
    .filter(({ head }) => head.startsWith('oneof '))
    .flatMap(({ head, body }) =>
      split(body).statements.map((statement) => readField(statement, head.slice(6))),
    )
  return Object.fromEntries([...plain, ...chosen].filter((field) => field !== null))
}

const RPC = /^rpc (\w+)\s*\(([\w.]+)\)\s*returns\s*\((stream )?([\w.]+)\)/

const readMethods = (body: string): Record<string, ProtoMethod> =>
  Object.fromEntries(
    split(body).blocks.flatMap(({ head }) => {
      const match = RPC.exec(head)
      if (!match) return []
      const [, name = '', request = '', streams, response = ''] = match
      const method = { request, response: response.replace('google.protobuf.', '') }
      return [[name, { ...method, ...(streams && { streams: true as const }) }]]
    }),
  )

export const readProto = (text: string): ProtoFacts => {
  const facts: ProtoFacts = { messages: {}, enums: {}, methods: {} }
  for (const { head, body } of split(text.replace(/\/\/.*$/gm, '')).blocks) {
    const [kind = '', name = ''] = head.split(/\s+/)
    if (kind === 'message') facts.messages[name] = readMessage(body)
    if (kind === 'service') facts.methods = readMethods(body)
    if (kind === 'enum') {
      facts.enums[name] = split(body).statements.map((value) => value.split(' ')[0] ?? '')
    }
  }
  return facts
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const facts = readProto(readFileSync(process.argv[2] ?? '', 'utf8'))
  process.stdout.write(`${JSON.stringify(facts, null, 2)}\n`)
}
