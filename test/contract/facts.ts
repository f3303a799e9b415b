/**
 * What an answer says, freed of the dialect that said it: one task read in two dialects must give
 * the same facts. Reads the spellings of 1.0, of 0.3 and of 0.3's proto JSON.
 */
import type { Answer } from '../support/clients/actors.ts'

export interface TaskFacts {
  id: string
  contextId: string
  state: string
  at: string
  said: string[] | null
  history: { messageId: string; role: string; texts: string[] }[]
  artifacts: { artifactId: string; parts: unknown[] }[]
}

/** A frame of a stream: a whole task, a status or a piece of an artifact. */
export type FrameFacts =
  | { task: TaskFacts }
  | { state: string; at: string; said: string[] | null; final: boolean | undefined }
  | { artifactId: string; parts: unknown[] }

export interface ErrorFacts {
  reason: string
  status: number
}

const STATE = /^TASK_STATE_/

/** `TASK_STATE_INPUT_REQUIRED`, `TASK_STATE_CANCELLED` and `input-required` by one name each. */
const stateOf = (state: string): string =>
  state.replace(STATE, '').toLowerCase().replaceAll('_', '-').replace('cancelled', 'canceled')

const roleOf = (role: string): string => role.replace(/^ROLE_/, '').toLowerCase()

const partsOf = (message: Answer): Answer[] => message.parts ?? message.content

/** Content alone: what a dialect cannot carry beside it is no fact of the task. */
const partFacts = (part: Answer): unknown => {
  if ('text' in part) return { text: part.text }
  if ('raw' in part) return { bytes: part.raw }
  if ('url' in part) return { uri: part.url }
  if (part.file) {
    const bytes = part.file.bytes ?? part.file.fileWithBytes
    return bytes === undefined ? { uri: part.file.uri ?? part.file.fileWithUri } : { bytes }
  }
  // Proto JSON puts the object under one more `data`.
  const { data } = part
  const keys = data && typeof data === 'object' ? Object.keys(data) : []
  return { data: !part.kind && keys.length === 1 && keys[0] === 'data' ? data.data : data }
}

const textsOf = (message: Answer): string[] => partsOf(message).map(({ text }) => text)

const artifactFacts = (artifact: Answer) => ({
  artifactId: artifact.artifactId,
  parts: artifact.parts.map(partFacts),
})

export const taskFacts = (task: Answer): TaskFacts => ({
  id: task.id,
  contextId: task.contextId,
  state: stateOf(task.status.state),
  at: task.status.timestamp,
  said: task.status.message ? textsOf(task.status.message) : null,
  history: (task.history ?? []).map((message: Answer) => ({
    messageId: message.messageId,
    role: roleOf(message.role),
    texts: textsOf(message),
  })),
  artifacts: (task.artifacts ?? []).map(artifactFacts),
})

const updateFacts = (update: Answer): FrameFacts =>
  update.artifact
    ? artifactFacts(update.artifact)
    : {
        state: stateOf(update.status.state),
        at: update.status.timestamp,
        said: update.status.message ? textsOf(update.status.message) : null,
        final: update.final,
      }

/** Of a StreamResponse, or of a bare object with its `kind`. */
export const frameFacts = (result: Answer): FrameFacts => {
  const { task, statusUpdate, artifactUpdate } = result
  if (task) return { task: taskFacts(task) }
  if (statusUpdate || artifactUpdate) return updateFacts(statusUpdate ?? artifactUpdate)
  return result.kind === 'task' ? { task: taskFacts(result) } : updateFacts(result)
}
