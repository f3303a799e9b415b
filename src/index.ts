/**
 * The package's API (docs/api.md): a server to start or to mount, and agents that work for one.
 * The only file that re-exports.
 */
export { type Agent, type AgentOptions, createAgent } from './agent-kit/agent.ts'
export type { Handler, UnreadPolicy } from './agent-kit/attempt.ts'
export type {
  ArtifactChunk,
  AskOptions,
  Context,
  EventOptions,
  JoinOptions,
  NewChild,
  Outcome,
} from './agent-kit/context.ts'
export {
  AgentApiError,
  AnswerTimeout,
  AttemptAborted,
  AttemptEnded,
  BudgetExhausted,
  ConnectionError,
  DocumentError,
  EffectDenied,
  NonRetryable,
  QuestionWithdrawn,
} from './agent-kit/errors.ts'
export type { AgentLog } from './agent-kit/log.ts'
export type { ToolOptions } from './agent-kit/timeouts.ts'
export {
  type Amounts,
  type Artifact,
  type Child,
  type ClaimedTodo,
  type Message,
  type OwedMessage,
  type Part,
  type PriorAttempt,
  type RequestFacts,
  type Sayable,
  textOf,
} from './agent-kit/wire.ts'
export type { SwitchboardOptions } from './app/options.ts'
export { createSwitchboard, type Facts, type Switchboard } from './app.ts'
export { ExactNumber } from './base/exact-json.ts'
export { type Config, ConfigError, readConfig } from './config.ts'
export type { Hook } from './service/watch/hooks.ts'
export { MigrationsMissing, migrate } from './store/postgres/migrate.ts'
