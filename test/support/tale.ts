/**
 * How an agent process of the tests tells what it does: a line of JSON before and after each step,
 * with the fence it works under. A pipe keeps what a killed process has written.
 */
import type { Context } from '../../src/agent-kit/context.ts'

/** What an agent process tells of itself. */
export interface Step {
  /**
   * `tries` comes before a call, `did` after the server said that it is done. `got` is a message,
   * `answered` the one that answered the question of this fence.
   */
  what: 'claimed' | 'tries' | 'did' | 'got' | 'answered' | 'threw'
  id: string
  fence: string
  /** Of the message or artifact that the step writes, or that it was given. */
  name?: string
  error?: string
}

export const tell = (step: Step): boolean => process.stdout.write(`${JSON.stringify(step)}\n`)

/** A message that is known by its text. */
export const words = (name: string) => ({ messageId: name, parts: [{ text: name }] })

/** The teller of one attempt. */
export const taleOf = ({ todo: { id, fence } }: Pick<Context, 'todo'>) => {
  const tellOf = (step: Omit<Step, 'id' | 'fence'>): boolean => tell({ ...step, id, fence })
  return {
    tell: tellOf,
    does: async (name: string, act: () => Promise<unknown>): Promise<void> => {
      tellOf({ what: 'tries', name })
      await act()
      tellOf({ what: 'did', name })
    },
    threw: (error: unknown): void => {
      const { name, message } = error as Error
      tellOf({ what: 'threw', error: `${name}: ${message}` })
    },
  }
}
