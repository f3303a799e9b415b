/**
 * The two versions of A2A that the clients speak, in one set of words: how each asks, and what its
 * answers and the frames of its streams say.
 */
import type { Receipt } from '../../src/domain/todo.ts'
import { type Answer, type Frame, seqOf } from '../support/clients/actors.ts'

export interface Sending {
  messageId: string
  text: string
  contextId?: string
  taskId?: string
  waits: boolean
  /** A webhook that comes with it. */
  hook?: { id: string; url: string }
}

/** What a frame shows. `task` is the whole, everything else one event. */
export type Shown =
  | { seq: number; kind: 'task'; id: string; state: string }
  | { seq: number; kind: 'status'; state: string; said: string | null; final: boolean }
  | { seq: number; kind: 'chunk'; chunk: [id: string, append: boolean, text: string] }

export interface Dialect {
  version: '1.0' | '0.3'
  methods: Record<'send' | 'stream' | 'get' | 'cancel' | 'resubscribe', string>
  params(sending: Sending): object
  /** The task in a send's answer. */
  task(result: Answer): Answer
  state(task: Answer): string
  /** Of the agent's message in a status. */
  said(status: Answer): string | null
  shown(frame: Frame): Shown
  /** The code for a task that cannot be canceled, or takes no message any more. */
  ended: number
}

export const receiptOf = (task: Answer): Receipt | undefined =>
  task.metadata?.['urn:switchboard:receipt']

const chunkOf = ({ artifact, append }: Answer): [string, boolean, string] => [
  artifact.artifactId,
  append ?? false,
  artifact.parts[0].text,
]

const stateV1 = (state: string): string => state.replace('TASK_STATE_', '')
const stateV03 = (state: string): string => state.replaceAll('-', '_').toUpperCase()

const v1: Dialect = {
  version: '1.0',
  methods: {
    send: 'SendMessage',
    stream: 'SendStreamingMessage',
    get: 'GetTask',
    cancel: 'CancelTask',
    resubscribe: 'SubscribeToTask',
  },
  params: ({ text, waits, hook, ...message }) => ({
    message: { ...message, role: 'ROLE_USER', parts: [{ text }] },
    configuration: {
      returnImmediately: !waits,
      ...(hook && { taskPushNotificationConfig: hook }),
    },
  }),
  task: (result) => result.task,
  state: (task) => stateV1(task.status.state),
  said: (status) => status.message?.messageId ?? null,
  shown: ({ id, json: { result } }) => shownV1(seqOf(id), result),
  ended: -32004,
}

/** Also what a webhook of 1.0 is told. */
export const shownV1 = (seq: number, { task, statusUpdate, artifactUpdate }: Answer): Shown => {
  if (task) return { seq, kind: 'task', id: task.id, state: stateV1(task.status.state) }
  if (artifactUpdate) return { seq, kind: 'chunk', chunk: chunkOf(artifactUpdate) }
  const { status } = statusUpdate
  const said = status.message?.messageId ?? null
  return { seq, kind: 'status', state: stateV1(status.state), said, final: false }
}

const v03: Dialect = {
  version: '0.3',
  methods: {
    send: 'message/send',
    stream: 'message/stream',
    get: 'tasks/get',
    cancel: 'tasks/cancel',
    resubscribe: 'tasks/resubscribe',
  },
  params: ({ text, waits, hook, ...message }) => ({
    message: { ...message, kind: 'message', role: 'user', parts: [{ kind: 'text', text }] },
    configuration: { blocking: waits, ...(hook && { pushNotificationConfig: hook }) },
  }),
  task: (result) => result,
  state: (task) => stateV03(task.status.state),
  said: (status) => status.message?.messageId ?? null,
  shown: ({ id, json: { result } }) => {
    const seq = seqOf(id)
    const { kind, status } = result
    if (kind === 'artifact-update') return { seq, kind: 'chunk', chunk: chunkOf(result) }
    const state = stateV03(status.state)
    if (kind === 'task') return { seq, kind: 'task', id: result.id, state }
    const said = status.message?.messageId ?? null
    return { seq, kind: 'status', state, said, final: result.final }
  },
  ended: -32004,
}

export const DIALECTS = { '1.0': v1, '0.3': v03 }

export const ENDED: readonly string[] = ['COMPLETED', 'FAILED', 'CANCELED', 'REJECTED']
export const ASKS: readonly string[] = ['INPUT_REQUIRED', 'AUTH_REQUIRED']
