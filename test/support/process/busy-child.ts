/**
 * An agent in a process of its own, whose handler does what its message says: `compute <ms>` without a
 * pause, `wait <ms>` with pauses, `return`. Tells in lines of JSON what it begins, and all that the kit
 * logs. It ends on the word `stop`, or by itself where its input ends.
 *
 *   node --import tsx test/support/process/busy-child.ts <url> <token> <options> [kit]
 */
import { createInterface } from 'node:readline'
import { pathToFileURL } from 'node:url'
import type { Context } from '../../../src/agent-kit/context.ts'

const [, , url = '', token = '', options = '{}', kit] = process.argv
// Another kit than that of the sources: one that lacks files.
const { createAgent }: typeof import('../../../src/agent-kit/agent.ts') =
  kit === undefined
    ? await import('../../../src/agent-kit/agent.ts')
    : await import(pathToFileURL(kit).href)

const tell = (line: object): void => void process.stdout.write(`${JSON.stringify(line)}\n`)
const log = (level: string) => (facts: object, text: string) => tell({ level, text, facts })

const compute = (ms: number): void => {
  for (const until = performance.now() + ms; performance.now() < until; );
}

async function work({ todo, progress }: Context): Promise<string> {
  const [what, ms] = (todo.message.parts[0]?.text ?? '').split(' ')
  if (what === 'compute') await progress('computing')
  // From here on, one that computes hears nothing until it is done.
  tell({ began: what, id: todo.id })
  if (what === 'compute') compute(Number(ms))
  for (
    const until = performance.now() + Number(ms);
    what === 'wait' && performance.now() < until;
  ) {
    await progress('waiting')
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
  return `done: ${what}`
}

const levels = { debug: log('debug'), info: log('info'), warn: log('warn'), error: log('error') }
const agent = createAgent({ url, token, log: levels, ...JSON.parse(options) }, work)
agent.start()

createInterface({ input: process.stdin }).on('close', () => {
  void agent.stop({ graceMs: 0 }).then(() => tell({ stopped: true }))
})
