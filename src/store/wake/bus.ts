/**
 * A bus carries wakes from one process to the others. It may lose any of them: the log in PostgreSQL
 * is the truth, and a poll finds what was missed.
 */

export interface WakeBus {
  /** Its name in the log, in a few words. */
  readonly name: string
  /**
   * Opens a connection. It calls `hear` with every payload that anybody sends, perhaps our own among
   * them, and `lost` once when it breaks by itself. Rejects where the bus cannot be reached.
   */
  connect(hear: (payload: string) => void, lost: () => void): Promise<WakeConnection>
}

export interface WakeConnection {
  /** Each payload has at most 7000 bytes. */
  send(payloads: readonly string[]): Promise<void>
  /** Rejects where the other side does not answer in time: a connection can die without a word. */
  check(): Promise<void>
  /** Ends within a bounded time. */
  close(): Promise<void>
}

/** Carries nothing: every process hears only itself, and polls for what the others did. */
export const silentBus: WakeBus = {
  name: 'none',
  connect: async () => ({
    send: async () => {},
    check: async () => {},
    close: async () => {},
  }),
}
