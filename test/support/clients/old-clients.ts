/** Clients of the versions before 1.0, by hand and over the wire. */
import { randomUUID } from 'node:crypto'
import { openStream, type RequestOptions, rpc } from './actors.ts'

export const textMessage03 = (text: string, more: Record<string, unknown> = {}) => ({
  kind: 'message',
  messageId: randomUUID(),
  role: 'user',
  parts: [{ kind: 'text', text }],
  ...more,
})

const clientOf = (url: string, queue: string, token: string) => {
  const endpoint = `${url}/a2a/${queue}/`
  return {
    endpoint,
    call: (method: string, params: unknown, options: RequestOptions = {}) =>
      rpc(endpoint, method, params, { token, ...options }),
    stream: (method: string, params: unknown, options: RequestOptions = {}) =>
      openStream(endpoint, {
        method: 'POST',
        body: JSON.stringify({ jsonrpc: '2.0', id: 's', method, params }),
        token,
        ...options,
      }),
  }
}

/** A 0.3 client of one queue. It says no version, as its like do. */
export const v03Client = (url: string, queue: string, token: string) => {
  const client = clientOf(url, queue, token)
  const send = (text: string, more: Record<string, unknown> = {}, configuration = {}) =>
    client.call('message/send', { message: textMessage03(text, more), configuration })
  return {
    ...client,
    send,
    /** Returns at once, with the new task. */
    submit: async (text: string, more: Record<string, unknown> = {}) => {
      const { result, error } = await send(text, more, { blocking: false })
      if (error) throw new Error(JSON.stringify(error))
      return result
    },
    get: async (id: string) => (await client.call('tasks/get', { id })).result,
  }
}

/** A 0.1 client of one queue. It makes the ids of its tasks. */
export const v01Client = (url: string, queue: string, token: string) => {
  const client = clientOf(url, queue, token)
  const params = (id: string, text: string, more: Record<string, unknown> = {}) => ({
    id,
    message: { role: 'user', parts: [{ type: 'text', text }] },
    ...more,
  })
  return {
    ...client,
    params,
    send: (id: string, text: string, more: Record<string, unknown> = {}) =>
      client.call('tasks/send', params(id, text, more)),
    sendSubscribe: (id: string, text: string, more: Record<string, unknown> = {}) =>
      client.stream('tasks/sendSubscribe', params(id, text, more)),
  }
}
