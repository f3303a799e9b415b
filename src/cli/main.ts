#!/usr/bin/env node
/**
 * The command line: puts the commands together and turns how they end into exit codes. What a
 * command does is in commands/, most with a file of their own: `tasks` sends, answers and looks at
 * tasks, `operator` manages queues, credentials, settings and webhooks, `node` runs what serves
 * them.
 */
import { VERSION } from '../base/version.ts'
import { addDev } from './commands/node/dev.ts'
import { addDoctor } from './commands/node/doctor.ts'
import { addMigrate } from './commands/node/migrate.ts'
import { addServe } from './commands/node/serve.ts'
import { addDeliveries } from './commands/operator/deliveries.ts'
import { addQueue } from './commands/operator/queue.ts'
import { addRevoke } from './commands/operator/revoke.ts'
import { addSchedule } from './commands/operator/schedule.ts'
import { addSessions } from './commands/operator/sessions.ts'
import { addSettings } from './commands/operator/settings.ts'
import { addVend } from './commands/operator/vend.ts'
import { addAnswer } from './commands/tasks/answer.ts'
import { addAnswerLink } from './commands/tasks/answer-link.ts'
import { addCancelRetryWhy } from './commands/tasks/cancel-retry-why.ts'
import { addFamily } from './commands/tasks/family.ts'
import { addList } from './commands/tasks/list.ts'
import { addSend } from './commands/tasks/send.ts'
import { addShow } from './commands/tasks/show.ts'
import { addWatch } from './commands/tasks/watch.ts'
import { failureOf } from './exit.ts'
import { endSilentlyWithoutReader, note } from './output.ts'
import { createProgram } from './program.ts'

const COMMANDS = [
  addDev,
  addServe,
  addMigrate,
  addDoctor,
  addQueue,
  addVend,
  addRevoke,
  addSchedule,
  addSettings,
  addSessions,
  addSend,
  addList,
  addShow,
  addWatch,
  addAnswer,
  addAnswerLink,
  addCancelRetryWhy,
  addFamily,
  addDeliveries,
]

endSilentlyWithoutReader()
const program = createProgram(VERSION)
for (const add of COMMANDS) add(program)
try {
  await program.parseAsync()
} catch (error) {
  const { code, text } = failureOf(error)
  if (text !== '') note(`switchboard: ${text}`)
  process.exitCode = code
}
