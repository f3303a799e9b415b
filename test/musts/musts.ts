/**
 * What A2A demands of a server: 106 numbered MUSTs of its specification, and the tests that prove
 * each. musts.test.ts keeps the table true: a test that is renamed or taken away is missed here.
 */
import type { Must } from './must.ts'
import { BINDINGS } from './table/bindings.ts'
import { CARD } from './table/cards.ts'
import { DATA } from './table/data.ts'
import { ERROR } from './table/errors.ts'
import { PUSH } from './table/push.ts'
import { READING } from './table/reading.ts'
import { REQUESTS } from './table/requests.ts'
import { SECURITY } from './table/security.ts'
import { SENDING } from './table/sending.ts'
import { STREAMING } from './table/streams.ts'
import { V03 } from './table/v03.ts'

export const HOW_MANY = 106

export const MUSTS: readonly Must[] = [
  ...REQUESTS,
  ...SENDING,
  ...STREAMING,
  ...READING,
  ...PUSH,
  ...ERROR,
  ...DATA,
  ...BINDINGS,
  ...SECURITY,
  ...CARD,
  ...V03,
]
