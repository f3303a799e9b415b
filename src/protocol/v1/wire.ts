/**
 * The objects that the rows of A2A 1.0 answer with, for the dialects that translate them further.
 * translate.ts makes them, and the compiler checks that what it makes fits.
 */
import type { Artifact, JsonObject, Message } from '../../domain/todo.ts'
import type { TaskState } from '../json/enums.ts'

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

/** The two ids that every part of a task carries. */
export interface TaskIds {
  taskId: string
  contextId: string
}

interface TaskStatusUpdateEvent extends TaskIds {
  status: TaskStatus
  metadata?: JsonObject
}

interface TaskArtifactUpdateEvent extends TaskIds {
  artifact: Artifact
  append?: boolean
  lastChunk?: boolean
  metadata?: JsonObject
}

export type StreamResponse =
  | { task: Task }
  | { statusUpdate: TaskStatusUpdateEvent }
  | { artifactUpdate: TaskArtifactUpdateEvent }

/** Flat, as the push methods read it and answer with it. */
export interface PushConfig {
  id?: string | undefined
  taskId?: string | undefined
  url: string
  token?: string | undefined
  authentication?: { scheme: string; credentials?: string | undefined } | undefined
}
