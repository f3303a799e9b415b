/**
 * Clients that keep talking whatever is killed under them: each sends its tasks into one
 * conversation after the other, follows them, answers what is asked, and asks again where no answer
 * came. They write down what they were told, and what they read.
 */
import { randomUUID } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import type { Receipt } from '../../../src/domain/todo.ts'
import type { Told } from '../checker.ts'
import {
  type Answer,
  a2aClient,
  type Frame,
  resumeAfter,
  type Stream,
  textMessage,
} from '../clients/actors.ts'
import { randomOf } from '../seeded.ts'

interface Accepted {
  id: string
  contextId: string
  /** As its client saw it in the end. */
  final: Answer
  /** Null where it was not followed by a stream. */
  frames: Frame[] | null
}

export interface Load {
  /** Each conversation's in the order in which they were sent. */
  accepted: Accepted[]
  told: Told[]
  /** How often a stream was taken up again. */
  resumed(): number
  /** Resolves once all tasks have ended, for their clients too. */
  done: Promise<void>
}

interface LoadOptions {
  url: string
  queue: string
  token: string
  seed: number
  conversations: number
  /** How many tasks each. */
  each: number
}

const ENDED = ['COMPLETED', 'FAILED', 'CANCELED', 'REJECTED'].map((state) => `TASK_STATE_${state}`)
const ASKS = 'TASK_STATE_INPUT_REQUIRED'
const RECEIPT = 'urn:switchboard:receipt'

/** The server could not say what became of the call: it is asked again, at leisure. */
const isAway = (answer: Answer): boolean => answer.error?.code === -32603
const leisure = () => pause(100)

export const startLoad = (options: LoadOptions): Load => {
  const { url, queue, token, seed, conversations, each } = options
  const a2a = a2aClient(url, queue, token)
  const accepted: Accepted[] = []
  const told: Told[] = []
  let resumed = 0

  const persistently = async (method: string, params: object): Promise<Answer> => {
    for (;;) {
      const answer = await a2a.call(method, params)
      if (!isAway(answer)) return answer
      await leisure()
    }
  }

  const get = async (id: string): Promise<Answer> => (await persistently('GetTask', { id })).result

  /** A message to a task may be repeated: it is the same one. */
  const tellTask = async (id: string, text: string, blocking: boolean): Promise<void> => {
    const message = textMessage(text, { taskId: id })
    const { messageId } = message
    const configuration = { returnImmediately: !blocking }
    const { result, error } = await persistently('SendMessage', { message, configuration })
    if (error && error.code !== -32004) throw new Error(JSON.stringify(error))
    const receipt = error ? 'finished' : (result.task.metadata[RECEIPT] as Receipt)
    told.push({ id, messageId, told: receipt })
  }

  /** A message without a task may have been taken although no answer came: then it is there. */
  const find = async (contextId: string, messageId: string): Promise<Answer | undefined> => {
    const { result } = await persistently('ListTasks', { contextId, pageSize: 100 })
    return result.tasks.find(({ history }: Answer) =>
      history.some((message: Answer) => message.messageId === messageId),
    )
  }

  const sendBlocking = async (message: Answer): Promise<Answer> => {
    for (;;) {
      const answer = await a2a.call('SendMessage', { message })
      if (answer.result) return answer.result.task
      if (!isAway(answer)) throw new Error(JSON.stringify(answer))
      const task = await find(message.contextId, message.messageId)
      if (task) return task
      await leisure()
    }
  }

  const sendStreaming = async (
    message: Answer,
  ): Promise<{ task: Answer; stream: Stream | null }> => {
    for (;;) {
      const stream = await a2a.stream('SendStreamingMessage', { message })
      const first = stream.body ? null : await stream.next()
      if (first?.json.result) return { task: first.json.result.task, stream: ahead(first, stream) }
      if (stream.body && !isAway(stream.body)) throw new Error(JSON.stringify(stream.body))
      const task = await find(message.contextId, message.messageId)
      if (task) return { task, stream: await subscribe(task.id, null) }
      await leisure()
    }
  }

  /** Null where the task has ended before anything of it was read. */
  const subscribe = async (id: string, after: string | null): Promise<Stream | null> => {
    for (;;) {
      const headers = after === null ? {} : resumeAfter(after)
      const stream = await a2a.stream('SubscribeToTask', { id }, { headers })
      if (!stream.body) return stream
      if (!isAway(stream.body)) {
        if (after === null) return null
        throw new Error(JSON.stringify(stream.body))
      }
      await leisure()
    }
  }

  /** Reads until the end; hangs up now and then, and goes on after the frame it had last. */
  const followStream = async (
    id: string,
    begun: Stream,
    random: () => number,
  ): Promise<Frame[] | null> => {
    const frames: Frame[] = []
    const answering: Promise<void>[] = []
    let stream = begun
    for (;;) {
      const frame = await stream.next()
      if (frame?.json.result) {
        frames.push(frame)
        const { task, statusUpdate } = frame.json.result
        const { state } = (task ?? statusUpdate)?.status ?? {}
        if (ENDED.includes(state)) break
        if (state === ASKS) answering.push(tellTask(id, 'answer', random() < 0.5))
        if (random() > 0.2) continue
        stream.close()
      }
      resumed += 1
      const again = await subscribe(id, frames.at(-1)?.id ?? null)
      if (!again) return null
      stream = again
    }
    stream.close()
    await Promise.all(answering)
    return frames
  }

  const followByAsking = async (id: string, random: () => number): Promise<void> => {
    const answered = new Set<string>()
    for (;;) {
      const { status } = await get(id)
      if (ENDED.includes(status.state)) return
      const question = status.message?.messageId
      if (status.state === ASKS && !answered.has(question)) {
        answered.add(question)
        await tellTask(id, 'answer', random() < 0.5)
      } else await leisure()
    }
  }

  const client = async (number: number): Promise<void> => {
    const random = randomOf(seed * 53 + number)
    const contextId = `conversation-${number}`
    const following: Promise<void>[] = []
    for (let n = 0; n < each; n += 1) {
      const text = random() < 0.4 ? 'ask' : 'work'
      const message = textMessage(text, { contextId, messageId: randomUUID() })
      const streams = random() < 0.6
      const unasked = random() < 0.4
      const own = randomOf(seed * 59 + number * 100 + n)
      const begun = streams
        ? await sendStreaming(message)
        : { task: await sendBlockingOrNot(message, n === each - 1), stream: null }
      const { id } = begun.task
      const entry: Accepted = { id, contextId, final: null, frames: null }
      accepted.push(entry)
      following.push(
        (async () => {
          const talk = unasked ? tellTask(id, 'by the way', false) : null
          if (begun.stream) entry.frames = await followStream(id, begun.stream, own)
          else await followByAsking(id, own)
          await talk
          entry.final = await get(id)
        })(),
      )
    }
    await Promise.all(following)
  }

  const sendBlockingOrNot = async (message: Answer, blocking: boolean): Promise<Answer> => {
    if (blocking) return sendBlocking(message)
    for (;;) {
      const configuration = { returnImmediately: true }
      const { result } = await a2a.call('SendMessage', { message, configuration })
      const task = result?.task ?? (await find(message.contextId, message.messageId))
      if (task) return task
      await leisure()
    }
  }

  const done = Promise.all(Array.from({ length: conversations }, (_, number) => client(number)))
  return { accepted, told, resumed: () => resumed, done: done.then(() => {}) }
}

/** A stream with a frame that was read already in front of it. */
const ahead = (first: Frame, stream: Stream): Stream => {
  let pending: Frame | null = first
  return {
    ...stream,
    next: async () => {
      const frame = pending ?? (await stream.next())
      pending = null
      return frame
    },
  }
}
