/** How a message asks the agents of the benchmark for an answer in many chunks. */
import type { Message } from '../../src/domain/todo.ts'
import { newMessage } from '../statements.ts'

/** About as much as a model says at a time. */
export const CHUNK = 'and then the others were told. '

export const askForChunks = (count: number): Message => ({
  ...newMessage(),
  parts: [{ text: `chunks: ${count}` }],
})

/** By a message's JSON, whatever its version; 0 where it asks for none. */
export const chunksAskedFor = (json: string): number => Number(/chunks: (\d+)/.exec(json)?.[1] ?? 0)
