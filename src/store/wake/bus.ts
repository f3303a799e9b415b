/**
 * What carries wakes from one process to the others. It may lose any of them: the log in PostgreSQL
 * is the truth, and a poll finds what was missed.
 */

export interface WakeBus {
  /** In a few words, for the log. */
  readonly name: string
  /**
   * A line on which `hear` is called with every payload anybody sends, our own perhaps among them,
   * and `lost` once when it breaks by itself. Rejects where the bus cannot be reached.
   */
  connect(hear: (payload: string) => void, lost: () => void): Promise<WakeConnection>
}

export interface WakeConnection {
  /** Of at most 7000 bytes each. */
  send(payloads: readonly string[]): Promise<void>
  /** Rejects where the other side does not answer in time: a line can die without a word. */
  check(): Promise<void>
  /** Takes bounded time. */
  close(): Promise<void>
}

/** Where nothing can be carried: every process hears itself, and polls for what the others did. */
export const silentBus: WakeBus = {
  name: 'none',
  connect: async () => ({
    send: async () => {},
    check: async () => {},
    close: async () => {},
  }),
}
