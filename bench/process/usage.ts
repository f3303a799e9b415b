/** What a process of the benchmark has used of the machine so far. */

export interface Cpu {
  cpuMs: number
  atMs: number
}

export interface Memory {
  rssMb: number
  heapMb: number
}

export const cpu = (): Cpu => {
  const { user, system } = process.cpuUsage()
  return { cpuMs: (user + system) / 1000, atMs: performance.now() }
}

/** After a collection, where the process may ask for one. */
export const memory = (): Memory => {
  globalThis.gc?.()
  const { rss, heapUsed } = process.memoryUsage()
  return { rssMb: rss / 1e6, heapMb: heapUsed / 1e6 }
}
