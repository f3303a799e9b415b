/** The agents: processes that are killed, frozen and replaced, and all that they have told. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { setTimeout as pause } from 'node:timers/promises'
import { killed, ROOT } from '../support/process/child.ts'
import type { Step } from '../support/tale.ts'

export interface Crew {
  steps: Step[]
  begin(url: string, tokens: readonly string[]): Promise<void>
  /** How many have begun in all. */
  begun(): number
  kill(who: number, backMs: number): void
  end(who: number, backMs: number): void
  /** The next that is at work, until another has taken over from it, but no longer than this. */
  freeze(ms: number): void
  /** All are there and none is frozen. */
  complete(): boolean
  close(): Promise<void>
}

interface Member {
  child: ChildProcess
  loaded: Promise<unknown>
  /** What it has claimed. */
  claimed: Set<string>
  /** Of one that is frozen. */
  thaw: (() => void) | null
}

/** One agent for each clock, which is wrong by so much. They are loaded; `begin` sets them to work. */
export const loadCrew = (skewsMs: readonly number[]): Crew => {
  const steps: Step[] = []
  const all = new Set<ChildProcess>()
  const members: (Member | null)[] = skewsMs.map(() => null)
  /** One loaded for each place: loading takes longer than dying. */
  const spares: Member[] = []
  let begun = 0
  /** Somebody is to be frozen. */
  let freezeMs = 0
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
    const member: Member = {
      child,
      loaded: once(lines, 'line'),
      claimed: new Set<string>(),
      thaw: null,
    }
    lines.on('line', (line) => {
      if (line !== 'loaded') hear(member, JSON.parse(line) as Step)
    })
    return member
  }

  const freeze = (member: Member, ms: number): void => {
    member.child.kill('SIGSTOP')
    const thaw = (): void => {
      clearTimeout(timer)
      member.thaw = null
      member.child.kill('SIGCONT')
    }
    const timer = setTimeout(thaw, ms)
    member.thaw = thaw
  }

  /** Whose todo another has just taken over comes back at that very moment, to write under its fence. */
  const hear = (teller: Member, step: Step): void => {
    steps.push(step)
    const amidst = step.what === 'did' && step.name?.startsWith('say-')
    if (freezeMs > 0 && amidst && !teller.thaw && members.includes(teller)) {
      freeze(teller, freezeMs)
      freezeMs = 0
    }
    if (step.what !== 'claimed') return
    teller.claimed.add(step.id)
    for (const other of members) {
      if (other !== teller && other?.claimed.has(step.id)) other.thaw?.()
    }
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
    if (!member || member.thaw) return
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
    freeze: (ms) => {
      freezeMs = ms
    },
    complete: () => members.every((member) => member !== null && !member.thaw),
    close: async () => {
      closing = true
      await Promise.all([...all].map(killed))
    },
  }
}
