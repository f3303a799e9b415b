/**
 * The agent card as an operator writes it (`queues.put`): any published one, of whatever version.
 * Members that A2A requires may be missing or empty; the server fills them in. URLs must be safe for
 * a reader to follow. Other members are kept as they came, and are named in warnings.
 */
import { z } from 'zod'
import type { JsonObject } from '../../domain/todo.ts'
import { isDeclarable } from '../a2a/extensions.ts'
import { isMediaRange, topLevelRange } from '../a2a/modes.ts'
import { isObject } from '../json/object.ts'
import { jsonObject, name, text } from '../json/parts.ts'
import { pathText } from '../wire/params.ts'
import { membersNotRead, type Remark, tidyCard } from './card-members.ts'

const MAX_ITEMS = 100

const label = name.max(200)
const prose = text.max(10_000)
const list = <T extends z.ZodType>(item: T) => z.array(item).max(MAX_ITEMS)

/**
 * Readers turn these into links, so only web addresses are allowed: no link may run a script. An
 * empty one is none, as in the proto.
 */
const webUrl = z
  .string()
  .max(2000)
  .refine(
    (text) => text === '' || (URL.canParse(text) && /^https?:$/.test(new URL(text).protocol)),
    'must be a URL with http:// or https://',
  )

/** In the specification a mode is any text; {@link warningsOf} says what becomes of an odd one. */
const modes = list(name.max(200))

const skill = z.looseObject({
  id: label,
  name: text.max(200).exactOptional(),
  description: prose.exactOptional(),
  tags: list(label).exactOptional(),
  examples: list(prose).exactOptional(),
  inputModes: modes.exactOptional(),
  outputModes: modes.exactOptional(),
})

/** No two items may have the same `member`. */
const unique =
  (member: 'id' | 'uri', message: string) =>
  (items: readonly Record<string, unknown>[], context: z.RefinementCtx): void => {
    const all = items.map((item) => item[member])
    all.forEach((value, index) => {
      if (all.indexOf(value) < index) {
        context.addIssue({ code: 'custom', path: [index, member], message })
      }
    })
  }

const skills = list(skill).superRefine(unique('id', 'names another skill, too'))

/** These are listed in a header, separated by commas, and compared character by character. */
const extensionUri = z
  .string()
  .max(2000)
  .regex(/^[A-Za-z][A-Za-z0-9+.-]*:[\x21-\x2b\x2d-\x7e]+$/, 'must be a URI without commas')
  .refine(isDeclarable, 'is no extension of this server')

const extension = z.looseObject({
  uri: extensionUri,
  description: prose.exactOptional(),
  required: z.boolean().exactOptional(),
  params: jsonObject.exactOptional(),
})

const extensions = list(extension).superRefine(unique('uri', 'is there twice'))

/** Members of the public card, and of what replaces it for authenticated callers. */
const members = {
  name: label.exactOptional(),
  description: prose.exactOptional(),
  version: text.max(200).exactOptional(),
  skills: skills.exactOptional(),
  defaultInputModes: modes.exactOptional(),
  defaultOutputModes: modes.exactOptional(),
  /** In 0.1 it had no URL; {@link warningsOf} says that half of one is not published. */
  provider: z
    .looseObject({
      organization: text.max(200).exactOptional(),
      url: webUrl.exactOptional(),
    })
    .exactOptional(),
  documentationUrl: webUrl.exactOptional(),
  iconUrl: webUrl.exactOptional(),
}

const written = z.looseObject({
  ...members,
  capabilities: z
    .looseObject({
      streaming: z.boolean().exactOptional(),
      pushNotifications: z.boolean().exactOptional(),
      extendedAgentCard: z.boolean().exactOptional(),
      extensions: extensions.exactOptional(),
    })
    .exactOptional(),
  extended: z.looseObject(members).exactOptional(),
})

export const card = z.preprocess(tidyCard, written)

/* ---------------------------------------------------------------- warnings */

const NO_MEDIA_TYPE = 'is no media type'

const modeWarning = (mode: string, limits: boolean): string | null => {
  if (isMediaRange(mode)) return null
  const range = topLevelRange(mode)
  if (range !== null) return limits ? `${NO_MEDIA_TYPE}: read as ${range}` : NO_MEDIA_TYPE
  return limits ? `${NO_MEDIA_TYPE}: any media type is accepted` : NO_MEDIA_TYPE
}

const modeWarnings = (holder: JsonObject, path: Remark['path']): Remark[] =>
  ['defaultInputModes', 'inputModes', 'defaultOutputModes', 'outputModes'].flatMap((member) => {
    const modes = holder[member]
    if (!Array.isArray(modes)) return []
    return modes.flatMap((mode, index): Remark[] => {
      const description = modeWarning(String(mode), /input/i.test(member))
      return description === null ? [] : [{ path: [...path, member, index], description }]
    })
  })

const providerWarnings = ({ provider }: JsonObject, path: Remark['path']): Remark[] => {
  if (!isObject(provider)) return []
  const missing = ['organization', 'url'].filter((member) => !provider[member])
  // The proto writes a provider that was never set as two empty texts.
  if (missing.length !== 1) return []
  const description = `is not published: it has no ${missing[0]}`
  return [{ path: [...path, 'provider'], description }]
}

const contentWarnings = (face: JsonObject, path: Remark['path']): Remark[] => {
  const skills = Array.isArray(face.skills) ? face.skills : []
  return [
    ...modeWarnings(face, path),
    ...providerWarnings(face, path),
    ...skills.flatMap((skill, index) =>
      isObject(skill) ? modeWarnings(skill, [...path, 'skills', index]) : [],
    ),
  ]
}

/** All of a card that is not published as written, or means something else than it says. */
export const warningsOf = (card: JsonObject): { field: string; description: string }[] =>
  [
    ...membersNotRead(card),
    ...contentWarnings(card, []),
    ...(isObject(card.extended) ? contentWarnings(card.extended, ['extended']) : []),
  ].map(({ path, description }) => ({ field: pathText(['card', ...path]), description }))
