/** The peers: pg-boss and graphile-worker, each doing what a queue is for, in a process of its own. */
import {
  Logger,
  makeWorkerUtils,
  type Runner,
  run,
  runMigrations,
  type WorkerUtils,
} from 'graphile-worker'
import PgBoss from 'pg-boss'
import { answerParent } from '../child.ts'
import { newMessage, QUEUE } from '../statements.ts'
import { percentile } from '../stats.ts'

const POOL = 16

export type Peer = 'pg-boss' | 'graphile'

interface Way {
  url: string
  peer: Peer
}

const quiet = new Logger(() => () => {})

let boss: PgBoss | null = null
let utils: WorkerUtils | null = null

const theBoss = async (url: string): Promise<PgBoss> => {
  if (!boss) {
    boss = new PgBoss({ connectionString: url, max: POOL, supervise: false, schedule: false })
    await boss.start()
    await boss.createQueue(QUEUE)
  }
  return boss
}

const theUtils = async (url: string): Promise<WorkerUtils> => {
  if (!utils) {
    await runMigrations({ connectionString: url, logger: quiet })
    utils = await makeWorkerUtils({ connectionString: url, maxPoolSize: POOL, logger: quiet })
  }
  return utils
}

/** One job put in, durably. */
const adder = async ({ url, peer }: Way): Promise<() => Promise<unknown>> => {
  if (peer === 'pg-boss') {
    const to = await theBoss(url)
    return () => to.send(QUEUE, newMessage())
  }
  const to = await theUtils(url)
  return () => to.addJob(QUEUE, newMessage())
}

const add = async (params: Way & { clients: number; seconds: number }) => {
  const step = await adder(params)
  const times: number[] = []
  const started = performance.now()
  const until = started + params.seconds * 1000
  const loop = async (): Promise<void> => {
    for (let before = performance.now(); before < until; ) {
      await step()
      const now = performance.now()
      times.push(now - before)
      before = now
    }
  }
  await Promise.all(Array.from({ length: params.clients }, loop))
  return {
    perSecond: (1000 * times.length) / (performance.now() - started),
    p50Ms: percentile(times, 0.5),
    p99Ms: percentile(times, 0.99),
  }
}

const stock = async ({ url, peer, count }: Way & { count: number }): Promise<void> => {
  if (peer === 'pg-boss') {
    const to = await theBoss(url)
    await to.purgeQueue(QUEUE)
    for (let left = count; left > 0; left -= 500) {
      const jobs = Array.from({ length: Math.min(500, left) }, () => ({
        name: QUEUE,
        data: newMessage(),
      }))
      await to.insert(jobs)
    }
    return
  }
  const to = await theUtils(url)
  for (let left = count; left > 0; left -= 500) {
    const jobs = Array.from({ length: Math.min(500, left) }, () => ({
      identifier: QUEUE,
      payload: newMessage(),
    }))
    await to.addJobs(jobs)
  }
}

/** graphile-worker runs its own loop: as many jobs at once as there are workers. */
const drainGraphile = async (url: string, count: number, workers: number): Promise<number> => {
  let left = count
  const started = performance.now()
  let runner: Runner | null = null
  await new Promise<void>((resolve, reject) => {
    run({
      connectionString: url,
      concurrency: workers,
      maxPoolSize: POOL,
      noHandleSignals: true,
      pollInterval: 100,
      logger: quiet,
      taskList: {
        [QUEUE]: () => {
          left -= 1
          if (left === 0) resolve()
        },
      },
    }).then((running) => {
      runner = running
    }, reject)
  })
  const took = performance.now() - started
  await (runner as Runner | null)?.stop()
  return took
}

const drainBoss = async (
  url: string,
  count: number,
  workers: number,
  batch: number,
): Promise<number> => {
  const from = await theBoss(url)
  let left = count
  const started = performance.now()
  const work = async (): Promise<void> => {
    while (left > 0) {
      const jobs = await from.fetch(QUEUE, { batchSize: batch })
      if (jobs.length === 0) return
      await from.complete(
        QUEUE,
        jobs.map(({ id }) => id),
      )
      left -= jobs.length
    }
  }
  await Promise.all(Array.from({ length: workers }, work))
  return performance.now() - started
}

const drain = async (params: Way & { count: number; workers: number; batch: number }) => {
  const { url, peer, count, workers, batch } = params
  const took =
    peer === 'pg-boss'
      ? await drainBoss(url, count, workers, batch)
      : await drainGraphile(url, count, workers)
  return { perSecond: (1000 * count) / took }
}

/** From the call that puts a job in to the start of its work, with nothing else to do. */
const latency = async ({ url, rounds }: { url: string; rounds: number }) => {
  const to = await theUtils(url)
  const times: number[] = []
  let begun: (at: number) => void = () => {}
  const runner = await run({
    connectionString: url,
    concurrency: 1,
    noHandleSignals: true,
    logger: quiet,
    taskList: { [QUEUE]: () => begun(performance.now()) },
  })
  for (let round = 0; round < rounds; round += 1) {
    const start = new Promise<number>((resolve) => {
      begun = resolve
    })
    const at = performance.now()
    await to.addJob(QUEUE, newMessage())
    times.push((await start) - at)
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
  await runner.stop()
  return { p50Ms: percentile(times, 0.5), p99Ms: percentile(times, 0.99) }
}

answerParent({ add, stock, drain, latency }, async () => {
  await boss?.stop({ graceful: false })
  await utils?.release()
})
