/**
 * An agent that talks: it books a table, asking for the day and then for the number of guests,
 * and hands over a confirmation and a calendar entry, piece by piece. "switchboard dev" runs it.
 *
 * It keeps no state of its own: the answers are in the task's history, so after a crash the next
 * claim goes on with the question that is still open.
 *
 * Run it (the token is that of an endpoint with the verb "work"):
 *   SWITCHBOARD_TOKEN=... npx tsx examples/concierge.ts
 */
import { setTimeout as pause } from 'node:timers/promises'
import { type Context, createAgent, type Message, textOf } from '../src/index.ts'

const MAX_GUESTS = 20
const DAY_MS = 86_400_000
const DAYS = ['sunday', 'monday', 'tuesday', 'wednesday', 'thursday', 'friday', 'saturday']

const agent = createAgent(
  {
    url: process.env.SWITCHBOARD_URL ?? 'http://127.0.0.1:4100',
    token: process.env.SWITCHBOARD_TOKEN ?? '',
    // A guest who never answers keeps a slot until the wait is over, so there are many slots.
    concurrency: 32,
    // Short, so that the next process soon takes over if this one dies while a guest thinks.
    leaseSeconds: 15,
  },
  async (ctx) => {
    const day = await ask(ctx, 'day', 'For which day would you like the table?', readDay)
    const guests = await ask(ctx, 'guests', 'For how many guests?', readGuests)

    await ctx.progress('writing the confirmation', 50)
    await stream(ctx, 'confirmation.txt', 'text/plain', confirmation(day, guests))
    await stream(ctx, 'booking.ics', 'text/calendar', calendarEntry(ctx.todo.id, day, guests))
    return {
      message: `Your table is booked for ${guestsText(guests)} on ${day}.`,
      summary: `booked ${day}, ${guests}`,
    }
  },
)

/** Asks until the answer can be read; does not repeat what an earlier attempt was answered. */
async function ask<Value>(
  ctx: Context,
  topic: string,
  question: string,
  read: (text: string) => Value | null,
): Promise<Value> {
  let answer = answered(ctx.todo.history, topic)
  let prompt = question
  for (;;) {
    const value = answer === undefined ? null : read(textOf(answer))
    if (value !== null) return value
    if (answer !== undefined) prompt = `Sorry, I could not read that. ${question}`
    answer = await ctx.requireInput({ parts: [{ text: prompt }], metadata: { topic } })
  }
}

/** The message that followed the newest question about `topic`, if there was one. */
function answered(history: Message[], topic: string): Message | undefined {
  const asked = history.findLastIndex(({ metadata }) => metadata?.topic === topic)
  return asked < 0 ? undefined : history.slice(asked).find(({ role }) => role === 'ROLE_USER')
}

/** `2030-05-17`, `today`, `tomorrow` or the name of a weekday, as `2030-05-17`. */
function readDay(text: string): string | null {
  const said = text.trim().toLowerCase()
  const now = new Date()
  const inDays = (days: number) =>
    new Date(now.getTime() + days * DAY_MS).toISOString().slice(0, 10)
  if (said.includes('today') || said.includes('tonight')) return inDays(0)
  if (said.includes('tomorrow')) return inDays(1)
  const weekday = DAYS.findIndex((name) => said.includes(name))
  if (weekday >= 0) return inDays((weekday - now.getUTCDay() + 7) % 7 || 7)
  const date = /\d{4}-\d{2}-\d{2}/.exec(said)?.[0]
  return date !== undefined && !Number.isNaN(Date.parse(date)) ? date : null
}

function readGuests(text: string): number | null {
  const number = Number(/-?\d+(\.\d+)?/.exec(text)?.[0] ?? Number.NaN)
  return Number.isInteger(number) && number >= 1 && number <= MAX_GUESTS ? number : null
}

/** Sends a text line by line: the first chunk makes the artifact, the others are appended. */
async function stream(
  ctx: Context,
  name: string,
  mediaType: string,
  lines: string[],
): Promise<void> {
  let artifactId: string | undefined
  for (const [index, line] of lines.entries()) {
    artifactId = await ctx.artifact({
      ...(artifactId === undefined ? {} : { artifactId }),
      name,
      parts: [{ text: line, mediaType }],
      append: index > 0,
      lastChunk: index === lines.length - 1,
    })
    // As slow as somebody who types, for those who watch the stream.
    await pause(100, undefined, { signal: ctx.signal })
  }
}

const guestsText = (guests: number) => (guests === 1 ? '1 guest' : `${guests} guests`)

const confirmation = (day: string, guests: number): string[] => [
  'Dear guest,',
  `your table for ${guestsText(guests)} is booked for ${day}, 19:00.`,
  'We look forward to seeing you.',
]

const calendarEntry = (id: string, day: string, guests: number): string[] => [
  'BEGIN:VCALENDAR\nVERSION:2.0\nPRODID:-//switchboard//concierge//EN\nBEGIN:VEVENT',
  `UID:${id}@concierge.example\nDTSTART:${day.replaceAll('-', '')}T190000`,
  `SUMMARY:Table for ${guestsText(guests)}`,
  'END:VEVENT\nEND:VCALENDAR',
]

agent.start()
process.stdout.write('concierge is ready\n')

for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, () => {
    void agent.stop().then(() => process.exit())
  })
}
// Started by "switchboard dev", this process does not outlive it, however that ended.
process.once('disconnect', () => process.exit())
