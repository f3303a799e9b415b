#!/usr/bin/env node
/**
 * The command line: puts the commands together and turns how they end into exit codes. What a
 * command does is in commands/, one file for each.
 */
import { VERSION } from '../base/version.ts'
import { addAnswer } from './commands/answer.ts'
import { addAnswerLink } from './commands/answer-link.ts'
import { addCancel } from './commands/cancel.ts'
import { addDeliveries } from './commands/deliveries.ts'
import { addDev } from './commands/dev.ts'
import { addList } from './commands/list.ts'
import { addMigrate } from './commands/migrate.ts'
import { addQueue } from './commands/queue.ts'
import { addRetry } from './commands/retry.ts'
import { addRevoke } from './commands/revoke.ts'
import { addSend } from './commands/send.ts'
import { addServe } from './commands/serve.ts'
import { addSessions } from './commands/sessions.ts'
import { addSettings } from './commands/settings.ts'
import { addShow } from './commands/show.ts'
import { addVend } from './commands/vend.ts'
import { addWatch } from './commands/watch.ts'
import { addWhy } from './commands/why.ts'
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
