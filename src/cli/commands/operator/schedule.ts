/** `schedule`: sends that recur by cron. */
import type { Command } from 'commander'
import { defined } from '../../../base/defined.ts'
import { localMoment, note, oneLine, print, printTable } from '../../output.ts'
import { clientCommand, showing, wholeNumber } from '../../program.ts'
import { partsText } from '../../todo.ts'

interface Schedule {
  name: string
  queue: string
  cron: string
  timeZone: string
  catchUp: string
  catchUpLimit: number
  priority: number
  paused: boolean
  nextAt: string | null
  lastTickAt: string | null
  lastTodoId: string | null
  made: number
  skipped: number
  error: string | null
}

interface ShownSchedule extends Schedule {
  message: Parameters<typeof partsText>[0]
  upcoming: string[]
}

interface Options {
  queue?: string
  cron?: string
  timeZone?: string
  catchUp?: string
  catchUpLimit?: number
  priority?: number
  context?: string
}

const messageOf = (text: string | undefined, { context }: Options) =>
  text === undefined ? undefined : defined({ parts: [{ text }], contextId: context })

export const addSchedule = (program: Command): void => {
  const schedule = program.command('schedule').description('sends that recur by cron')

  clientCommand(schedule, 'put <name> [text]', 'make a schedule, or change it')
    .option('--queue <name>', 'the queue that it sends to')
    .option('--cron <fields>', 'when: minute hour day month weekday, as "0 9 * * 1-5", or @daily')
    .option('--time-zone <name>', 'whose clock that is, as Europe/Berlin; UTC unless said')
    .option('--catch-up <policy>', 'what becomes of missed ticks: skip, one (unless said), all')
    .option('--catch-up-limit <n>', 'how many "all" makes at most', wholeNumber(1, 200))
    .option('--priority <0-2>', '0 is first, 1 the default, 2 last', wholeNumber(0, 2))
    .option('--context <id>', 'all in this conversation, by turns; else each in one of its own')
    .action(
      showing(
        (client, name: string, text: string | undefined, options: Options) => {
          const { context: _, ...members } = shared(options)
          const params = defined({ ...members, name, message: messageOf(text, options) })
          return client.call<ShownSchedule>('schedules.put', params)
        },
        (put) => {
          print(`schedule ${put.name} is there`)
          printUpcoming(put)
        },
      ),
    )

  clientCommand(schedule, 'list', 'list the schedules').action(
    showing(
      (client) => client.call<{ schedules: Schedule[] }>('schedules.list'),
      ({ schedules }) =>
        printTable(
          ['NAME', 'QUEUE', 'CRON', 'ZONE', 'NEXT', 'LAST', 'MADE', 'SKIPPED', 'ERROR'],
          schedules.map(row),
        ),
    ),
  )

  clientCommand(schedule, 'show <name>', 'show a schedule and its next ticks').action(
    showing(
      (client, name: string) => client.call<ShownSchedule>('schedules.get', { name }),
      (shown) => {
        print(`${shown.name}  ${shown.cron} (${shown.timeZone}) to ${shown.queue}`)
        const facts: [string, string][] = [
          ['state', shown.paused ? 'paused' : 'active'],
          [
            'catch-up',
            shown.catchUp === 'all' ? `all, ${shown.catchUpLimit} at most` : shown.catchUp,
          ],
          ['priority', String(shown.priority)],
          ['last tick', localMoment(shown.lastTickAt)],
          ['last task', shown.lastTodoId ?? '-'],
          ['made', String(shown.made)],
          ['skipped', String(shown.skipped)],
          ['error', shown.error === null ? '-' : oneLine(shown.error, 200)],
          ['message', oneLine(partsText(shown.message))],
        ]
        for (const [name, value] of facts) print(`  ${name.padEnd(9)}  ${value}`)
        printUpcoming(shown)
      },
    ),
  )

  const pausing = (usage: string, description: string, paused: boolean): void => {
    clientCommand(schedule, usage, description).action(
      showing(
        (client, name: string) => client.call<ShownSchedule>('schedules.pause', { name, paused }),
        (shown) => {
          print(`schedule ${shown.name} is ${shown.paused ? 'paused' : 'active'}`)
          printUpcoming(shown)
        },
      ),
    )
  }
  pausing('pause <name>', 'let no tick be made until it is resumed', true)
  pausing('resume <name>', 'go on from now; what fell due meanwhile is not caught up', false)

  clientCommand(schedule, 'remove <name>', 'remove a schedule; its tasks stay').action(
    showing(
      async (client, name: string) => {
        await client.call('schedules.remove', { name })
        return { name, removed: true }
      },
      ({ name }) => print(`schedule ${name} is removed`),
    ),
  )
}

/** The options of the command itself, without those of every command. */
const shared = ({ queue, cron, timeZone, catchUp, catchUpLimit, priority, context }: Options) =>
  defined({ queue, cron, timeZone, catchUp, catchUpLimit, priority, context })

const printUpcoming = ({ upcoming }: ShownSchedule): void => {
  if (upcoming.length > 0) note(`next: ${upcoming.map(localMoment).join(', ')}`)
}

const row = (of: Schedule): string[] => [
  of.name,
  of.queue,
  of.cron,
  of.timeZone,
  of.paused ? 'paused' : localMoment(of.nextAt),
  localMoment(of.lastTickAt),
  String(of.made),
  String(of.skipped),
  of.error === null ? '-' : oneLine(of.error),
]
