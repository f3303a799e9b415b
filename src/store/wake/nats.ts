/**
 * Wakes over NATS, for installations that the commit lock of NOTIFY, or one listening connection for each
 * node, would limit. The path of the URL names the subject, so that several installations may share a
 * server: `nats://host:4222/prod`.
 */
import { connect } from '@nats-io/transport-node'
import { withTimeout } from '../../base/time.ts'
import type { WakeBus } from './bus.ts'

const ANSWER_MS = 5000
const SUBJECT = 'switchboard'

export interface NatsBusOptions {
  /** `nats://` or `tls://`, with user and password or a token where the server asks for them. */
  url: string
  /** How long the server may take to answer, in ms. */
  answerMs?: number
}

const credentials = ({ username, password }: URL) => {
  const [user, pass] = [username, password].map(decodeURIComponent)
  if (user && pass) return { user, pass }
  return user ? { token: user } : {}
}

/** The path names the subject: `/prod/eu` is `switchboard.prod.eu`. */
const subjectOf = ({ pathname }: URL): string =>
  [SUBJECT, ...pathname.split('/').filter((name) => name !== '')].join('.')

export const natsBus = ({ url, answerMs = ANSWER_MS }: NatsBusOptions): WakeBus => {
  const address = new URL(url)
  const subject = subjectOf(address)
  return {
    name: 'NATS',
    connect: async (hear, lost) => {
      const connection = await connect({
        servers: address.host,
        name: 'switchboard wake',
        timeout: answerMs,
        // The connection's supervisor makes it anew, and has everybody look at everything.
        reconnect: false,
        ...credentials(address),
        ...(address.protocol === 'tls:' && { tls: {} }),
      })
      connection.subscribe(subject, {
        callback: (error, message) => {
          if (!error) hear(message.string())
        },
      })
      void connection.closed().then(lost)
      try {
        await withTimeout(answerMs, 'the NATS server', () => connection.flush())
      } catch (error) {
        void connection.close()
        throw error
      }
      return {
        send: async (payloads) => {
          for (const payload of payloads) connection.publish(subject, payload)
        },
        check: () => withTimeout(answerMs, 'the NATS server', () => connection.flush()),
        close: () =>
          withTimeout(answerMs, 'closing', async () => {
            await connection.flush()
            await connection.close()
          }),
      }
    },
  }
}
