/**
 * The objects of A2A 1.0 as its rows answer with them, for the dialects that put them into their
 * own words. translate.ts makes them; the compiler sees to it that what it makes fits.
 */
import type { Artifact, JsonObject, Message } from '../../domain/todo.ts'
import type { TaskState } from './schema.ts'

export interface TaskStatus {
  state: TaskState
  message?: Message
  timestamp: string
}

export interface Task {
  id: string
  contextId: string
  status: TaskStatus
  artifacts?: readonly Artifact[]
  history?: readonly Message[]
  metadata?: JsonObject
}

export type SendMessageResponse = { task: Task } | { message: Message }

/** The two ids that everything of a task carries. */
export interface TaskIds {
  taskId: string
  contextId: string
}

interface TaskStatusUpdateEvent extends TaskIds {
  status: TaskStatus
}

interface TaskArtifactUpdateEvent extends TaskIds {
  artifact: Artifact
  append?: boolean
  lastChunk?: boolean
}

export type StreamResponse =
  | { task: Task }
  | { statusUpdate: TaskStatusUpdateEvent }
  | { artifactUpdate: TaskArtifactUpdateEvent }

/** Flat, as the push methods take it and answer with it. */
export interface PushConfig {
  id?: string | undefined
  taskId?: string | undefined
  url: string
  token?: string | undefined
  authentication?: { scheme: string; credentials?: string | undefined } | undefined
}
