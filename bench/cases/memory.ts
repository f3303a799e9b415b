/**
 * What a server still holds in memory after many finished tasks, beside the A2A SDK's own server
 * with its in-memory store: blocking sends by 64 connections, a collection, and then its resident
 * set and heap. Rounds add up; `heapBytesEach` is how much the heap grew in this one for each of
 * its tasks.
 */
import type { Child } from '../child.ts'
import type { Lab } from '../lab.ts'
import type { Memory } from '../process/usage.ts'
import type { Case, Sample, Setup, Variant } from '../runner.ts'
import { startPeer, startWithAgent } from './a2a-js.ts'

const TASKS_A_SECOND = 7000
const CONNECTIONS = 64

const variantOf = (
  name: string,
  { server, url, token }: { server: Child; url: string; token: string | null },
  load: Child,
): Variant => {
  let tasks = 0
  return {
    name,
    run: async (seconds) => {
      const count = Math.ceil(seconds * TASKS_A_SECOND)
      const before = await server.call<Memory>('memory')
      const to = { url, token, connections: CONNECTIONS, seconds, count, blocking: true }
      await load.call<Sample>('send', to)
      tasks += count
      const after = await server.call<Memory>('memory')
      const heapBytesEach = ((after.heapMb - before.heapMb) * 1e6) / count
      return { ...after, heapBytesEach, tasks }
    },
  }
}

const open = async (lab: Lab): Promise<Setup> => {
  const load = await lab.start('load')
  const ours = await startWithAgent(lab)
  const theirs = await startPeer(lab, 'memory')
  return {
    variants: [variantOf('switchboard', ours, load), variantOf('a2a-js memory', theirs, load)],
    ratios: ['rssMb', 'heapMb'].map((metric) => ({
      of: 'switchboard',
      to: 'a2a-js memory',
      metric,
    })),
  }
}

export const memory: Case = { name: 'memory', title: 'memory: after many tasks', open }
