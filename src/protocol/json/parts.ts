/**
 * The A2A 1.0 JSON of parts and artifacts (spec 4.1.6, 4.1.7), as zod members that every table of
 * methods can build on. A2A 1.0 ignores unknown members and our own APIs refuse them, so only the
 * members are shared and each table picks the kind of object.
 */
import { z } from 'zod'
import type { Json, JsonObject } from '../../domain/todo.ts'
import { isObject } from './object.ts'

/** Any JSON value, including `null`: whatever reaches a schema was parsed from JSON. */
const json = z.custom<Json>((value) => value !== undefined)

export const jsonObject = z.custom<JsonObject>(isObject, 'must be an object')

export const text = z.string()

/** Text of at least one character, as ids and names are. */
export const name = text.min(1)

/** Standard or URL-safe base64, padded or not: everything that ProtoJSON reads as bytes. */
const base64 = z.string().regex(/^[A-Za-z0-9+/_-]*={0,2}$/, 'must be base64')

/** The members of a part. The object must also be refined with {@link oneContent}. */
export const partMembers = {
  text: text.exactOptional(),
  raw: base64.exactOptional(),
  url: text.exactOptional(),
  data: json.exactOptional(),
  metadata: jsonObject.exactOptional(),
  filename: text.exactOptional(),
  mediaType: text.exactOptional(),
}

const CONTENTS = ['text', 'raw', 'url', 'data'] as const

/** Presence counts, not truth: an empty text and null data are contents. */
export const oneContent = (part: object, context: z.RefinementCtx): void => {
  if (CONTENTS.filter((content) => Object.hasOwn(part, content)).length !== 1) {
    context.addIssue({ code: 'custom', message: 'must hold exactly one of text, raw, url, data' })
  }
}

/** The members of an artifact except its parts. */
export const artifactMembers = {
  artifactId: name,
  name: text.exactOptional(),
  description: text.exactOptional(),
  metadata: jsonObject.exactOptional(),
  extensions: z.array(text).exactOptional(),
}
