#!/usr/bin/env node
/**
 * The command line: puts the commands together and turns how they end into exit codes. What a
 * command does is in commands/, one file for each.
 */
import { VERSION } from '../base/version.ts'
import { addDev } from './commands/node/dev.ts'
import { addMigrate } from './commands/node/migrate.ts'
import { addServe } from './commands/node/serve.ts'
import { addAnswerLink } from './commands/operate/answer-link.ts'
import { addDeliveries } from './commands/operate/deliveries.ts'
import { addQueue } from './commands/operate/queue.ts'
import { addRevoke } from './commands/operate/revoke.ts'
import { addSessions } from './commands/operate/sessions.ts'
import { addSettings } from './commands/operate/settings.ts'
import { addVend } from './commands/operate/vend.ts'
import { addAnswer } from './commands/tasks/answer.ts'
import { addCancel } from './commands/tasks/cancel.ts'
import { addList } from './commands/tasks/list.ts'
import { addRetry } from './commands/tasks/retry.ts'
import { addSend } from './commands/tasks/send.ts'
import { addShow } from './commands/tasks/show.ts'
import { addWatch } from './commands/tasks/watch.ts'
import { addWhy } from './commands/tasks/why.ts'
import { failureOf } from './exit.ts'
import { endSilentlyWithoutReader, note } from './output.ts'
import { createProgram } from './program.ts'

const COMMANDS = [
  addDev,
  addServe,
  addMigrate,
  addQueue,
  addVend,
  addRevoke,
  addSettings,
  addSessions,
  addSend,
  addList,
  addShow,
  addWatch,
  addAnswer,
  addAnswerLink,
  addCancel,
  addRetry,
  addWhy,
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
