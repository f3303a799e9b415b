/** How the chunks of an artifact are put together: by the server, and by an agent that reads them page by page. */

type Members = { [name: string]: unknown }

interface Chunked {
  artifactId: string
  name?: string
  description?: string
  parts: unknown[]
  metadata?: Members
  extensions?: string[]
}

export interface ChunkOf<Artifact> {
  append: boolean
  artifact: Artifact
}

/** Set as an own member, whatever its name: `__proto__` is one like any other in JSON. */
const setMember = (object: Members, name: string, value: unknown): void => {
  Object.defineProperty(object, name, {
    value,
    enumerable: true,
    configurable: true,
    writable: true,
  })
}

/**
 * A chunk joins what came before: parts follow parts, extensions are added, and what else it says
 * replaces what was said before, member by member in the metadata. What it leaves out stays. Readers
 * of a stream put chunks together by the same rule.
 */
const join = (whole: Chunked, chunk: Chunked): void => {
  const { name, description, parts, metadata, extensions } = chunk
  for (const part of parts) whole.parts.push(part)
  if (name !== undefined) whole.name = name
  if (description !== undefined) whole.description = description
  if (metadata) {
    whole.metadata ??= {}
    for (const [key, value] of Object.entries(metadata)) setMember(whole.metadata, key, value)
  }
  if (extensions) {
    whole.extensions ??= []
    for (const uri of extensions) whole.extensions.push(uri)
  }
}

/** In the metadata of an artifact that its agent has dropped: readers take it away. */
export const DISCARDED_MEMBER = 'urn:switchboard:discarded'

/**
 * Chunks in the order they came: a chunk that does not append begins the artifact anew. One that was
 * dropped is left out.
 */
export const assemble = <Artifact extends Chunked>(
  chunks: readonly ChunkOf<Artifact>[],
): Artifact[] => {
  const all = new Map<string, Artifact>()
  const joined = new Set<Artifact>()
  for (const { append, artifact } of chunks) {
    const before = append ? all.get(artifact.artifactId) : undefined
    if (before) {
      join(before, artifact)
      joined.add(before)
    } else all.set(artifact.artifactId, artifact)
  }
  for (const whole of joined) {
    if (whole.extensions) whole.extensions = [...new Set(whole.extensions)]
  }
  return [...all.values()].filter(({ metadata }) => metadata?.[DISCARDED_MEMBER] !== true)
}
