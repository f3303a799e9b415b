/**
 * What a message says, whoever wrote its JSON. Libraries differ in whether they write a member that
 * holds its default (`"mediaType": ""`, an empty list or object) or leave it out; both say the same.
 */
import type { Message, Part } from './todo.ts'

/** Absent and empty are the same, as everywhere in A2A. */
export const nonEmpty = <T extends object>(value: T | undefined): T | undefined =>
  value && Object.keys(value).length > 0 ? value : undefined

/** What a part contains is a value of its own, however empty. */
const partContent = ({ metadata, filename, mediaType, ...content }: Part) => ({
  ...content,
  metadata: nonEmpty(metadata),
  filename: filename || undefined,
  mediaType: mediaType || undefined,
})

/** Without ids: where it goes, and how it is called, is no part of what it says. */
export const messageContent = ({
  parts,
  metadata,
  extensions,
  referenceTaskIds,
}: Pick<Message, 'parts' | 'metadata' | 'extensions' | 'referenceTaskIds'>) => ({
  parts: parts.map(partContent),
  metadata: nonEmpty(metadata),
  extensions: nonEmpty(extensions),
  referenceTaskIds: nonEmpty(referenceTaskIds),
})
