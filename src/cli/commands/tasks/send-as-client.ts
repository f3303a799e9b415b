/**
 * A send with a client's own token. It goes the way of any client, over A2A, and shows what a client may
 * see: the task, its question or its end.
 */
import type { Artifact, Message } from '../../../agent-kit/wire.ts'
import { defined } from '../../../base/defined.ts'
import { sleep } from '../../../base/time.ts'
import type { State } from '../../../domain/lifecycle.ts'
import type { Amounts } from '../../../domain/spend.ts'
import type { Client } from '../../client.ts'
import { EXIT } from '../../exit.ts'
import { note, oneLine, plain, print, printJson, style } from '../../output.ts'
import { partsText } from '../../todo.ts'

interface Task {
  id: string
  status: { state: string; message?: Message }
  artifacts?: Artifact[]
}

/** How a task stands once nothing further happens by itself, as the other commands say it. */
const SETTLED: Readonly<Record<string, State>> = {
  TASK_STATE_COMPLETED: 'done',
  TASK_STATE_FAILED: 'failed',
  TASK_STATE_CANCELED: 'canceled',
  TASK_STATE_REJECTED: 'rejected',
  TASK_STATE_INPUT_REQUIRED: 'input-required',
  TASK_STATE_AUTH_REQUIRED: 'auth-required',
}

const LOOK_AGAIN_MS = 1000

interface ClientSend {
  queue: string
  text: string
  wait: boolean
  context?: string | undefined
  /** The task that it answers, or says more about. */
  task?: string | undefined
  options: SendOptions
}

/** As the operator API has them; a client names them in the metadata of its send. */
interface SendOptions {
  priority?: number | undefined
  budget?: Amounts | undefined
  author?: string | undefined
  notBefore?: string | undefined
  delaySeconds?: number | undefined
}

const metadataOf = ({ priority, budget, author, notBefore, delaySeconds }: SendOptions) =>
  defined({
    'urn:switchboard:priority': priority,
    'urn:switchboard:budget': budget,
    'urn:switchboard:author': author,
    'urn:switchboard:not-before': notBefore,
    'urn:switchboard:delay-seconds': delaySeconds,
  })

/** Sends; with `wait` it then waits until the task ends or asks, prints that, and sets the exit code. */
export const sendAsClient = async (
  { client, json }: { client: Client; json: boolean },
  { queue, text, wait, context, task: taskId, options }: ClientSend,
): Promise<void> => {
  const call = client.a2a(queue)
  const message = defined({
    messageId: crypto.randomUUID(),
    role: 'ROLE_USER',
    parts: [{ text }],
    contextId: context,
    taskId,
  })
  const configuration = { returnImmediately: true }
  const params = { message, configuration, metadata: metadataOf(options) }
  let { task } = await call<{ task: Task }>('SendMessage', params)
  if (!wait) return json ? printJson(task) : print(task.id)
  if (!json) print(`task ${task.id}`)
  while (SETTLED[task.status.state] === undefined) {
    await sleep(LOOK_AGAIN_MS)
    task = await call<Task>('GetTask', { id: task.id })
  }
  const state = SETTLED[task.status.state]!
  if (json) printJson(task)
  else printTask(task, state, queue)
  process.exitCode = state === 'done' || isQuestion(state) ? EXIT.ok : EXIT.failed
}

const isQuestion = (state: State): boolean =>
  state === 'input-required' || state === 'auth-required'

const printTask = ({ id, status, artifacts = [] }: Task, state: State, queue: string): void => {
  const ended = state === 'done' ? 'green' : 'red'
  const color = isQuestion(state) ? 'yellow' : ended
  const words = status.message === undefined ? '' : plain(partsText(status.message))
  print(`${style(color, state)}${words === '' ? '' : `: ${words}`}`)
  if (isQuestion(state)) note(`Answer it: switchboard send ${queue} '...' --task ${id}`)
  for (const artifact of artifacts) {
    print(`\n${style('bold', oneLine(artifact.name ?? artifact.artifactId))}`)
    print(plain(partsText(artifact)))
  }
}
