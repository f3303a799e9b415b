/**
 * The messages a holder owes an answer to: what has arrived, what the handler was given, and up
 * to where that may be acknowledged. A message counts as given once the handler has taken it or
 * its listener has returned; nothing is acknowledged before, and nothing but with `complete`.
 */
import { sleep } from '../base/time.ts'
import { AnswerTimeout, QuestionWithdrawn } from './errors.ts'
import type { Message, OwedMessage } from './wire.ts'

/** The longest wait of one request; a longer one takes several. */
const POLL_MS = 30_000
/** For an answer that has come and waits for its turn in line: no new message will end the poll. */
const TURN_POLL_MS = 2000

/** `owed` is the same message with what its client said beside it. */
export type Listener = (message: Message, owed: OwedMessage) => void | Promise<void>

/** `todos.messages`: what came after `after`, waiting up to `waitMs` for something. */
export type FetchMessages = (
  after: number,
  waitMs: number,
  signal: AbortSignal,
) => Promise<{ state: string; messages: OwedMessage[] }>

export interface Inbox {
  /** Takes in what a claim, a poll or a refusal has brought; what is known already is skipped. */
  add(messages: readonly OwedMessage[]): void
  /** Something may have come: looks, or hurries the current wait. */
  nudge(): void
  /** Asks the server, and returns all that was not given yet. */
  take(): Promise<Message[]>
  /** From now on every message goes to this listener, one at a time and in order. */
  listen(listener: Listener): void
  readonly hasListener: boolean
  /** Waits until the listener has had everything. Rejects with what the listener threw. */
  allHandled(): Promise<void>
  /** What has arrived so far is in the todo that the handler is given. */
  begin(): void
  /**
   * Counts what came with the todo as given; with `unseen` everything that has arrived. False where
   * something is left that nobody was given.
   */
  giveUp(unseen: boolean): boolean
  /** Everything up to here was given; undefined where nothing was. */
  readonly through: number | undefined
  /**
   * The answer to a question asked at `since` (server's clock): the first message from then on,
   * once the todo is claimed again. Rejects with AnswerTimeout after `timeoutMs`.
   */
  answer(since: string, timeoutMs: number | undefined): Promise<Message>
  /** No answer is waited for any more: what waits for one rejects with QuestionWithdrawn. */
  withdraw(): void
}

/**
 * The message that the server took for the answer. By the clock alone it could be a message that came
 * while the question was on its way. With a server that does not say so only the clock is left.
 */
const answerIn = (pending: readonly OwedMessage[], since: string): OwedMessage | undefined => {
  const sinceMs = Date.parse(since)
  const later = pending.filter((owed) => Date.parse(owed.receivedAt) >= sinceMs)
  return later.find((owed) => owed.answers !== undefined) ?? later[0]
}

/** What `run` brings; null where the controller cut it short. Rejects with the reason of `signal`. */
const until = async <Result>(
  signal: AbortSignal,
  controller: AbortController,
  run: (either: AbortSignal) => Promise<Result>,
): Promise<Result | null> => {
  const stop = () => controller.abort(signal.reason)
  signal.addEventListener('abort', stop, { once: true })
  try {
    return await run(controller.signal)
  } catch (error) {
    signal.throwIfAborted()
    if (controller.signal.aborted) return null
    throw error
  } finally {
    signal.removeEventListener('abort', stop)
  }
}

export const openInbox = (
  initial: readonly OwedMessage[],
  fetchMessages: FetchMessages,
  signal: AbortSignal,
): Inbox => {
  let pending: OwedMessage[] = []
  let seen = 0
  /** Up to here the messages are in the todo that the handler was given. */
  let withTodo = 0
  /** The message the listener is busy with. */
  let busyWith: OwedMessage | null = null
  let listener: Listener | null = null
  let handling: Promise<void> = Promise.resolve()
  /** While a question is open nothing goes to the listener: it could be the answer. */
  let asking = false
  let withdrawn = false
  /** Ends the current poll, so that the next one looks at once. */
  let hurry = () => {}
  let hurried = false
  let looking = false

  const add = (messages: readonly OwedMessage[]): void => {
    const fresh = messages.filter(({ seq }) => seq > seen).sort((a, b) => a.seq - b.seq)
    pending.push(...fresh)
    seen = fresh.at(-1)?.seq ?? seen
  }

  const handOn = (): void => {
    if (listener === null || pending.length === 0 || asking) return
    handling = handling.then(async () => {
      while (listener !== null && !asking) {
        const next = pending.shift()
        if (next === undefined) return
        busyWith = next
        await listener(next.message, next)
        busyWith = null
      }
    })
    // Whoever calls `allHandled` gets the rejection; until then it must not end the process.
    handling.catch(() => {})
  }

  const look = async (): Promise<void> => {
    const { messages } = await fetchMessages(seen, 0, signal)
    add(messages)
    handOn()
  }

  const poll = async (waitMs: number): Promise<string | null> => {
    const controller = new AbortController()
    hurry = () => controller.abort()
    const polled = await until(signal, controller, (either) => fetchMessages(seen, waitMs, either))
    if (polled) add(polled.messages)
    return polled?.state ?? null
  }

  const answer = async (since: string, timeoutMs: number | undefined): Promise<Message> => {
    const deadline = performance.now() + (timeoutMs ?? Number.POSITIVE_INFINITY)
    asking = true
    withdrawn = false
    try {
      for (;;) {
        if (withdrawn) throw new QuestionWithdrawn()
        const left = deadline - performance.now()
        if (left <= 0) throw new AnswerTimeout(timeoutMs ?? 0)
        const longest = answerIn(pending, since) === undefined ? POLL_MS : TURN_POLL_MS
        const waitMs = hurried ? 0 : Math.ceil(Math.min(longest, left))
        hurried = false
        const started = performance.now()
        const state = await poll(waitMs)
        if (withdrawn) continue
        const found = state === 'claimed' ? takeAnswer(since) : null
        if (found !== null) return found
        // A poll that a signal cut short, or that a message ended early: do not spin on them.
        if (performance.now() - started < 100) await sleep(100, signal)
      }
    } finally {
      asking = false
      handOn()
    }
  }

  const takeAnswer = (since: string): Message | null => {
    const found = answerIn(pending, since) ?? pending.at(-1)
    if (found === undefined) return null
    pending = pending.filter((owed) => owed !== found)
    return found.message
  }

  add(initial)

  return {
    begin() {
      withTodo = seen
    },
    add(messages) {
      add(messages)
      handOn()
    },
    nudge() {
      if (asking) {
        hurried = true
        hurry()
        return
      }
      if (looking) return
      looking = true
      // Only a hint: what it missed comes with the next one, or with the refusal of `complete`.
      look()
        .catch(() => {})
        .finally(() => {
          looking = false
        })
    },
    withdraw() {
      withdrawn = true
      hurry()
    },
    async take() {
      await look()
      return pending.splice(0).map((owed) => owed.message)
    },
    listen(next) {
      listener = next
      handOn()
    },
    get hasListener() {
      return listener !== null
    },
    async allHandled() {
      handOn()
      await handling
    },
    giveUp(unseen) {
      pending = unseen ? [] : pending.filter(({ seq }) => seq > withTodo)
      return pending.length === 0
    },
    get through() {
      const open = busyWith ?? pending[0]
      const last = open === undefined ? seen : open.seq - 1
      return last > 0 ? last : undefined
    },
    answer,
  }
}
