/**
 * The peer: the A2A SDK's own server, with an executor that answers as our agent does, over its
 * in-memory store or its PostgreSQL one.
 */
import { spawnSync } from 'node:child_process'
import { createServer, type Server } from 'node:http'
import { createRequire } from 'node:module'
import type { AddressInfo } from 'node:net'
import path from 'node:path'
import { type AgentCard, type Message, Role, TaskState } from '@a2a-js/sdk'
import {
  AgentEvent,
  type AgentExecutor,
  DefaultRequestHandler,
  InMemoryTaskStore,
  type TaskStore,
} from '@a2a-js/sdk/server'
import { DatabaseTaskStore } from '@a2a-js/sdk/server/database'
import { jsonRpcHandler, UserBuilder } from '@a2a-js/sdk/server/express'
import express from 'express'
import { Kysely, PostgresDialect } from 'kysely'
import pg from 'pg'
import { answerParent } from '../child.ts'
import { CHUNK, chunksAskedFor } from './chunks.ts'
import { cpu, memory } from './usage.ts'

const POOL = 16

const card = (url: string): AgentCard => ({
  name: 'peer',
  description: 'answers at once',
  version: '1',
  supportedInterfaces: [{ url, protocolBinding: 'JSONRPC', protocolVersion: '1.0', tenant: '' }],
  capabilities: { streaming: true, pushNotifications: false, extensions: [] },
  defaultInputModes: ['text/plain'],
  defaultOutputModes: ['text/plain'],
  provider: undefined,
  securitySchemes: {},
  securityRequirements: [],
  skills: [],
  signatures: [],
})

const said = (taskId: string, contextId: string): Message => ({
  messageId: `answer-${taskId}`,
  contextId,
  taskId,
  role: Role.ROLE_AGENT,
  parts: [
    {
      content: { $case: 'text', value: 'Booked; the others know.' },
      metadata: undefined,
      filename: '',
      mediaType: '',
    },
  ],
  metadata: undefined,
  extensions: [],
  referenceTaskIds: [],
})

const chunk = (task: { taskId: string; contextId: string }, index: number, count: number) => ({
  ...task,
  artifact: {
    artifactId: 'text',
    name: '',
    description: '',
    parts: [
      {
        content: { $case: 'text' as const, value: CHUNK },
        metadata: undefined,
        filename: '',
        mediaType: '',
      },
    ],
    metadata: undefined,
    extensions: [],
  },
  append: index > 0,
  lastChunk: index === count - 1,
  metadata: undefined,
})

/** The steps of a task of ours: submitted, claimed, done. */
const executor: AgentExecutor = {
  execute: async ({ taskId, contextId, userMessage }, bus) => {
    const status = (state: TaskState, message?: Message) => ({
      state,
      message,
      timestamp: new Date().toISOString(),
    })
    const task = {
      id: taskId,
      contextId,
      status: status(TaskState.TASK_STATE_SUBMITTED),
      artifacts: [],
      history: [userMessage],
      metadata: undefined,
    }
    bus.publish(AgentEvent.task(task))
    const tell = (state: TaskState, message?: Message): void => {
      const update = { taskId, contextId, status: status(state, message), metadata: undefined }
      bus.publish(AgentEvent.statusUpdate(update))
    }
    tell(TaskState.TASK_STATE_WORKING)
    const count = chunksAskedFor(JSON.stringify(userMessage))
    for (let sent = 0; sent < count; sent += 1) {
      bus.publish(AgentEvent.artifactUpdate(chunk({ taskId, contextId }, sent, count)))
    }
    tell(TaskState.TASK_STATE_COMPLETED, said(taskId, contextId))
    bus.finished()
  },
  cancelTask: async () => {},
}

let server: Server | null = null
let pool: pg.Pool | null = null

const databaseStore = (databaseUrl: string): TaskStore => {
  // Its schema is made by its own command, which lies beside its main file.
  const main = createRequire(import.meta.url).resolve('@a2a-js/sdk')
  const words = [path.join(path.dirname(main), 'cli/a2a_db.js'), 'upgrade', '--url', databaseUrl]
  const { status, stderr } = spawnSync(process.execPath, words, { encoding: 'utf8' })
  if (status !== 0) throw new Error(stderr)
  pool = new pg.Pool({ connectionString: databaseUrl, max: POOL })
  return new DatabaseTaskStore(new Kysely({ dialect: new PostgresDialect({ pool }) }))
}

/** `databaseUrl` null: its in-memory store. */
const start = async ({ databaseUrl }: { databaseUrl: string | null }) => {
  const store = databaseUrl === null ? new InMemoryTaskStore() : databaseStore(databaseUrl)
  const app = express()
  server = createServer(app)
  await new Promise<void>((resolve) => {
    server!.listen(0, '127.0.0.1', resolve)
  })
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  app.use(
    '/',
    jsonRpcHandler({
      requestHandler: new DefaultRequestHandler(card(url), store, executor),
      userBuilder: UserBuilder.noAuthentication,
    }),
  )
  return { url }
}

answerParent({ start, cpu, memory }, async () => {
  server?.closeAllConnections()
  server?.close()
  await pool?.end()
})
