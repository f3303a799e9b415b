/** `vend`: a credential for a client, an agent or a watcher. Its token is shown this once. */
import type { Command } from 'commander'
import { defined } from '../../../base/defined.ts'
import { note, print } from '../../output.ts'
import { clientCommand, list, showing, wholeNumber } from '../../program.ts'

interface Options {
  queue: string[]
  verb: string[]
  lease?: number
  interruptTtl?: number
  expires?: number
  sendPerMinute?: number
  concurrency?: number
  effect?: string[]
  highestPriority?: number
  lowestPriority?: number
}

const TEN_YEARS = 315_360_000

export const addVend = (program: Command): void => {
  clientCommand(program, 'vend <name>', 'vend an endpoint; prints its token, this once')
    .requiredOption('--queue <names>', 'queues it is for (repeat, or with commas)', list)
    .requiredOption('--verb <verbs>', 'send, work, answer, watch (repeat, or with commas)', list)
    .option('--lease <seconds>', 'default lease of its claims', wholeNumber(60, 86_400))
    .option(
      '--interrupt-ttl <seconds>',
      'how long its questions may wait; 0 for ever',
      wholeNumber(-TEN_YEARS, TEN_YEARS),
    )
    .option('--expires <seconds>', 'good for so long', wholeNumber(1, TEN_YEARS))
    .option('--send-per-minute <n>', 'rate limit of its sends', wholeNumber(1, 1_000_000))
    .option('--concurrency <n>', 'todos it may hold at once', wholeNumber(1, 100_000))
    .option('--highest-priority <0-1>', 'its sends may name one down to it', wholeNumber(0, 1))
    .option('--lowest-priority <1-2>', 'its sends may name one up to it', wholeNumber(1, 2))
    .option(
      '--effect <names>',
      'what its tasks may do (repeat, or with commas); all unless said',
      list,
    )
    .action(
      showing(
        (client, name: string, options: Options) => {
          const params = defined({
            name,
            queues: options.queue,
            verbs: options.verb,
            defaultLeaseSeconds: options.lease,
            interruptTtlSeconds: options.interruptTtl,
            expiresInSeconds: options.expires,
            concurrency: options.concurrency,
            effects: options.effect,
            sendPerMinute: options.sendPerMinute,
            highestPriority: options.highestPriority,
            lowestPriority: options.lowestPriority,
          })
          return client.call<{ endpoint: { id: string }; token: string }>('endpoints.vend', params)
        },
        ({ endpoint, token }) => {
          note(`endpoint ${endpoint.id}; its token, shown this once:`)
          print(token)
        },
      ),
    )
}
