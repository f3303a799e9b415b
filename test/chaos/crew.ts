/** The agents: processes that are killed, frozen and replaced, and all that they have told. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { setTimeout as pause } from 'node:timers/promises'
import { killed, ROOT } from '../support/child.ts'
import type { Step } from '../support/tale.ts'

export interface Crew {
  steps: Step[]
  begin(url: string, tokens: readonly string[]): Promise<void>
  /** How many have begun in all. */
  begun(): number
  kill(who: number, backMs: number): void
  end(who: number, backMs: number): void
  freeze(who: number, ms: number): void
  /** All are there and none is frozen. */
  complete(): boolean
  close(): Promise<void>
}

interface Member {
  child: ChildProcess
  loaded: Promise<unknown>
  busy: boolean
}

/** One agent for each clock, which is wrong by so much. They are loaded; `begin` sets them to work. */
export const loadCrew = (skewsMs: readonly number[]): Crew => {
  const steps: Step[] = []
  const all = new Set<ChildProcess>()
  const members: (Member | null)[] = skewsMs.map(() => null)
  /** One loaded for each place: loading takes longer than dying. */
  const spares: Member[] = []
  let begun = 0
  let closing = false
  let to: { url: string; tokens: readonly string[] } | null = null

  const load = (place: number): Member => {
    const loads = ['--import', 'tsx', '--import', './test/chaos/skewed-clock.ts']
    const child = spawn(process.execPath, [...loads, 'test/chaos/agent.ts'], {
      cwd: ROOT,
      env: { PATH: process.env.PATH, CLOCK_SKEW_MS: String(skewsMs[place]) },
      stdio: ['pipe', 'pipe', 'inherit'],
    })
    all.add(child)
    child.once('exit', () => all.delete(child))
    child.stdin.on('error', () => {})
    const lines = createInterface({ input: child.stdout })
    lines.on('line', (line) => {
      if (line !== 'loaded') steps.push(JSON.parse(line) as Step)
    })
    return { child, loaded: once(lines, 'line'), busy: false }
  }

  const fill = async (place: number): Promise<void> => {
    const { url, tokens } = to!
    const member = spares[place]!
    await member.loaded
    members[place] = member
    begun += 1
    member.child.stdin!.write(`${url} ${tokens[place % tokens.length]}\n`)
    if (!closing) spares[place] = load(place)
  }

  const signal = (who: number, name: NodeJS.Signals, backMs: number): void => {
    const place = who % members.length
    const member = members[place]
    if (!member || member.busy) return
    members[place] = null
    member.child.kill(name)
    member.child.kill('SIGCONT')
    void pause(backMs).then(() => {
      if (!closing) return fill(place)
    })
  }

  for (const place of skewsMs.keys()) spares[place] = load(place)
  return {
    steps,
    begin: async (url, tokens) => {
      to = { url, tokens }
      await Promise.all(skewsMs.map((_, place) => fill(place)))
    },
    begun: () => begun,
    kill: (who, backMs) => signal(who, 'SIGKILL', backMs),
    end: (who, backMs) => signal(who, 'SIGTERM', backMs),
    freeze: (who, ms) => {
      const member = members[who % members.length]
      if (!member || member.busy) return
      member.busy = true
      member.child.kill('SIGSTOP')
      setTimeout(() => {
        member.child.kill('SIGCONT')
        member.busy = false
      }, ms)
    },
    complete: () => members.every((member) => member !== null && !member.busy),
    close: async () => {
      closing = true
      await Promise.all([...all].map(killed))
    },
  }
}
