/**
 * Processes of the benchmark: each has a few calls that its parent makes over the IPC channel.
 * A child ends when it is told to, by its pid, and also when its parent is gone. Measures nothing.
 */
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'

export interface Child {
  pid: number
  call<T>(name: string, params?: object): Promise<T>
  end(): Promise<void>
}

interface Answer {
  id: number
  value?: unknown
  error?: string
}

const END_MS = 10_000

export const startChild = (script: string, execArgv: readonly string[] = []): Child => {
  const child: ChildProcess = fork(script, { execArgv: [...execArgv], serialization: 'advanced' })
  const waiting = new Map<number, (answer: Answer) => void>()
  let lastId = 0
  child.on('message', (answer: Answer) => {
    waiting.get(answer.id)?.(answer)
    waiting.delete(answer.id)
  })
  child.once('exit', (code, signal) => {
    const error = `${script} ended (${signal ?? code})`
    for (const [id, answer] of waiting) answer({ id, error })
    waiting.clear()
  })
  const ended = (): boolean => child.exitCode !== null || child.signalCode !== null
  return {
    pid: child.pid ?? 0,
    call: <T>(name: string, params: object = {}) =>
      new Promise<T>((resolve, reject) => {
        if (ended()) return reject(new Error(`${script} has ended`))
        lastId += 1
        waiting.set(lastId, ({ value, error }) =>
          error === undefined ? resolve(value as T) : reject(new Error(error)),
        )
        child.send({ id: lastId, name, params })
      }),
    end: async () => {
      if (ended()) return
      const exit = once(child, 'exit')
      child.kill('SIGTERM')
      const harder = setTimeout(() => child.kill('SIGKILL'), END_MS)
      await exit
      clearTimeout(harder)
    },
  }
}

/** The child's side. `close` gives back what it holds; then the process ends by itself or is ended. */
export const answerParent = (
  calls: Record<string, (params: never) => unknown>,
  close: () => Promise<void> = async () => {},
): void => {
  const leave = (): void => void close().finally(() => process.exit(0))
  process.once('disconnect', leave)
  process.once('SIGTERM', leave)
  // Ctrl-C reaches the whole group; the parent tears down in its own order.
  process.on('SIGINT', () => {})
  process.on(
    'message',
    async ({ id, name, params }: { id: number; name: string; params: never }) => {
      try {
        process.send?.({ id, value: await calls[name]?.(params) })
      } catch (error) {
        process.send?.({ id, error: error instanceof Error ? error.stack : String(error) })
      }
    },
  )
}
