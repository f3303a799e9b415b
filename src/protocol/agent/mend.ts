/**
 * Texts that say how an attempt ended. They come from whatever went wrong in an agent, so a NUL or half a
 * surrogate pair in them is replaced, where elsewhere it is refused: the end has to be recorded.
 */
import { isObject } from '../json/object.ts'
import type { Call, Row } from '../wire/method.ts'
import { keepable } from '../wire/params.ts'

const NO_CODE = 'error'

const mendMembers = (value: unknown, names: readonly string[]): unknown => {
  if (!isObject(value)) return value
  const mended: Record<string, unknown> = { ...value }
  for (const name of names) {
    const text = mended[name]
    if (typeof text === 'string') mended[name] = keepable(text)
  }
  return mended
}

const mendEnd = (params: unknown): unknown => {
  const mended = mendMembers(params, ['summary'])
  if (!isObject(mended) || !isObject(mended.error)) return mended
  const error = mendMembers(mended.error, ['code', 'message']) as Record<string, unknown>
  return { ...mended, error: { ...error, code: error.code === '' ? NO_CODE : error.code } }
}

/** The row of a verb that ends an attempt, which takes its error and summary whatever is in them. */
export const ending = <R extends Row<Call>>(row: R): R => ({ ...row, mend: mendEnd })
