/**
 * Runs a case: every variant once unmeasured, then rounds in which the variants take turns
 * (A B A B), so that what else the machine does hits all of them alike. Reports medians, and each
 * ratio formed within a round, which says more than the quotient of two medians.
 */
import type { Lab } from './lab.ts'
import { median, shown, spread } from './stats.ts'

/** What one run of a variant measured, under names such as `perSecond` or `p50Ms`. */
export type Sample = Record<string, number>

export interface Variant {
  name: string
  /** `seconds`: how long to measure; a variant with a fixed amount of work scales it so. */
  run(seconds: number): Promise<Sample>
}

interface Ratio {
  of: string
  to: string
  metric: string
}

export interface Setup {
  variants: Variant[]
  ratios: Ratio[]
}

export interface Case {
  name: string
  title: string
  open(lab: Lab): Promise<Setup>
}

export interface Pace {
  rounds: number
  seconds: number
  warmSeconds: number
}

export interface Outcome {
  name: string
  title: string
  samples: Record<string, Sample[]>
  ratios: (Ratio & { rounds: number[] })[]
}

export const runCase = async (
  { name, title, open }: Case,
  lab: Lab,
  { rounds, seconds, warmSeconds }: Pace,
  say: (line: string) => void,
): Promise<Outcome> => {
  const { variants, ratios } = await open(lab)
  if (warmSeconds > 0) for (const variant of variants) await variant.run(warmSeconds)
  const samples: Record<string, Sample[]> = Object.fromEntries(variants.map((v) => [v.name, []]))
  for (let round = 1; round <= rounds; round += 1) {
    for (const variant of variants) {
      const sample = await variant.run(seconds)
      samples[variant.name]!.push(sample)
      const told = Object.entries(sample).map(([metric, value]) => `${metric} ${shown(value)}`)
      say(`  ${round}/${rounds} ${variant.name}: ${told.join(', ')}`)
    }
  }
  const withRounds = ratios.map((ratio) => ({
    ...ratio,
    rounds: samples[ratio.of]!.map(
      (sample, round) => sample[ratio.metric]! / samples[ratio.to]![round]![ratio.metric]!,
    ),
  }))
  return { name, title, samples, ratios: withRounds }
}

const table = (head: readonly string[], rows: readonly (readonly string[])[]): string =>
  [head, head.map(() => '---'), ...rows].map((row) => `| ${row.join(' | ')} |`).join('\n')

/** Markdown: the ratios first, then what they are made of. */
export const report = ({ title, samples, ratios }: Outcome): string => {
  const metrics = [...new Set(Object.values(samples).flatMap((all) => Object.keys(all[0] ?? {})))]
  const cell = (all: readonly Sample[], metric: string): string => {
    const values = all.flatMap((sample) => sample[metric] ?? [])
    return values.length > 0 ? spread(values) : ''
  }
  return [
    `## ${title}`,
    table(
      ['ratio', 'metric', 'median', 'round by round'],
      ratios.map(({ of, to, metric, rounds }) => [
        `${of} / ${to}`,
        metric,
        shown(median(rounds)),
        rounds.map(shown).join(', '),
      ]),
    ),
    table(
      ['variant', ...metrics],
      Object.entries(samples).map(([name, all]) => [name, ...metrics.map((m) => cell(all, m))]),
    ),
  ].join('\n\n')
}
