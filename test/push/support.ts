/** An app whose webhooks may lead to this machine, and the usual task with a webhook. */
import type { PushOptions } from '../../src/app/options.ts'
import { ADMIN_TOKEN, type App, type AppOptions, startApp, testConfig } from '../support/app.ts'
import { a2aClient, agentClient } from '../support/clients/actors.ts'

export const LOCAL = testConfig({ webhookAllowHttp: true, webhookAllow: ['127.0.0.0/8'] })

/** Tries follow one another within a test's patience. */
export const FAST: PushOptions = {
  timeoutMs: 1000,
  backoff: { initialSeconds: 0.05, factor: 2, maxSeconds: 2, jitter: 0.25 },
  maxAttempts: 4,
}

export const startPushApp = (options: AppOptions = {}): Promise<App> =>
  startApp({ config: LOCAL, push: FAST, pollMs: 500, ...options })

export const peopleOf = async (app: App, queue: string) => {
  const { client, agent } = await app.queue(queue, { contexts: 'parallel' })
  const a2a = a2aClient(app.url, queue, client.token)
  const worker = agentClient(app.url, agent.token)
  return {
    client,
    a2a,
    worker,
    /** A task with one webhook, made by its send. */
    sendWith: async (config: Record<string, unknown>, text = 'work') => {
      const { result, error } = await a2a.send(
        text,
        {},
        { returnImmediately: true, taskPushNotificationConfig: config },
      )
      if (error) throw Object.assign(new Error(JSON.stringify(error)), { error })
      return result.task as { id: string; contextId: string }
    },
    create: async (config: Record<string, unknown>) => {
      const { result, error } = await a2a.call('CreateTaskPushNotificationConfig', config)
      if (error) throw Object.assign(new Error(JSON.stringify(error)), { error })
      return result
    },
  }
}

/** A call of the operator API; rejects with the error of its answer. */
export const operatorOf = (app: { url: string }) => {
  return async (method: string, params: unknown = {}, token = ADMIN_TOKEN) => {
    const response = await fetch(`${app.url}/operator`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', Authorization: `Bearer ${token}` },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
    })
    const { result, error } = (await response.json()) as { result?: never; error?: object }
    if (error) throw Object.assign(new Error(JSON.stringify(error)), { error })
    // biome-ignore lint/suspicious/noExplicitAny: answers are looked into member by member
    return result as any
  }
}
