/**
 * The agent card as an operator writes it (`queues.put`). What A2A requires may be left out, or be
 * empty, and is then filled in by the server; addresses are ones that a reader may follow. Members
 * beyond these are kept as they came: a card may say more than this server reads.
 */
import { z } from 'zod'
import { isDeclarable } from '../a2a/extensions.ts'
import { jsonObject, name, text } from '../json/parts.ts'

const MAX_ITEMS = 100

const label = name.max(200)
const prose = text.max(10_000)
const list = <T extends z.ZodType>(item: T) => z.array(item).max(MAX_ITEMS)

/** Readers make links of these: nothing but the web, so that no link runs a script. */
const webUrl = z
  .string()
  .max(2000)
  .refine(
    (text) => URL.canParse(text) && /^https?:$/.test(new URL(text).protocol),
    'must be a URL with http:// or https://',
  )

const mediaType = z
  .string()
  .max(200)
  .regex(/^[^\s/;,]+\/[^\s/;,]+(?:\s*;[^,]*)?$/, 'must be a media type such as text/plain')

const modes = list(mediaType)

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

/** Written into a header between commas, and compared letter by letter. */
const extensionUri = z
  .string()
  .max(2000)
  .regex(/^[A-Za-z][A-Za-z0-9+.-]*:[\x21-\x2b\x2d-\x7e]+$/, 'must be a URI without commas')
  .refine(isDeclarable, 'is no extension of this server')

const extension = z.strictObject({
  uri: extensionUri,
  description: prose.exactOptional(),
  required: z.boolean().exactOptional(),
  params: jsonObject.exactOptional(),
})

const extensions = list(extension).superRefine(unique('uri', 'is there twice'))

/** Of the public card and of what replaces it for who is authenticated. */
const members = {
  name: label.exactOptional(),
  description: prose.exactOptional(),
  version: text.max(200).exactOptional(),
  skills: skills.exactOptional(),
  defaultInputModes: modes.exactOptional(),
  defaultOutputModes: modes.exactOptional(),
  provider: z.strictObject({ organization: label, url: webUrl }).exactOptional(),
  documentationUrl: webUrl.exactOptional(),
  iconUrl: webUrl.exactOptional(),
}

export const card = z.looseObject({
  ...members,
  capabilities: z
    .strictObject({
      streaming: z.boolean().exactOptional(),
      pushNotifications: z.boolean().exactOptional(),
      extendedAgentCard: z.boolean().exactOptional(),
      extensions: extensions.exactOptional(),
    })
    .exactOptional(),
  extended: z.looseObject(members).exactOptional(),
})
