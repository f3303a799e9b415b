// The wakes alone, over each bus.
// Field case: listener cut off.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createSupervisor } from '../../src/background/supervisor.ts'
import { WORKERS } from '../../src/background/worker-failures.ts'
import { createLog } from '../../src/base/log.ts'
import { createMetrics } from '../../src/base/metrics.ts'
import type { WakeBus } from '../../src/store/wake/bus.ts'
import { postgresBus } from '../../src/store/wake/listen-notify.ts'
import { natsBus } from '../../src/store/wake/nats.ts'
import { createWakes, type Wakes } from '../../src/store/wake/wake.ts'
import { cloneDatabase, withClient } from '../support/database/database.ts'
import { killed } from '../support/process/child.ts'
import { findProgram, freePort, startProgram } from '../support/process/program.ts'
import { runs } from '../support/tier.ts'
import { until } from '../support/until.ts'

const clone = await cloneDatabase()
afterAll(() => clone.drop())

/** A bus, and a way to cut all of its lines off at once. */
interface Carrier {
  name: string
  bus(): WakeBus
  cut(): Promise<void>
}

const carriers: Carrier[] = [
  {
    name: 'LISTEN/NOTIFY',
    bus: () => postgresBus({ connectionString: clone.url }),
    cut: () =>
      withClient(clone.url, async (client) => {
        await client.query(
          `select pg_terminate_backend(pid) from pg_stat_activity
          where application_name = 'switchboard wake' and datname = current_database()`,
        )
      }),
  },
]

const nats = findProgram('nats-server')
const natsPort = await freePort()
if (nats !== null) {
  const port = natsPort
  const start = () => startProgram(nats, ['-a', '127.0.0.1', '-p', String(port)], port)
  let server = await start()
  carriers.push({
    name: 'NATS',
    bus: () => natsBus({ url: `nats://127.0.0.1:${port}/test` }),
    cut: async () => {
      await killed(server)
      server = await start()
    },
  })
}

const log = createLog('silent')
let reconnects = 0

/** As in a node: under a supervisor, which makes a lost connection anew. */
const start = async (bus: WakeBus): Promise<Wakes> => {
  const wake = createWakes({
    bus,
    log,
    onReconnect: () => {
      reconnects += 1
    },
  })
  await wake.start()
  const supervisor = createSupervisor(
    [{ name: 'listener', policy: WORKERS.listener.policy, run: (signal) => wake.run(signal) }],
    { log, metrics: createMetrics() },
  )
  supervisor.start()
  const stop = async () => {
    await supervisor.stop(5000)
    await wake.stop()
  }
  return { ...wake, stop }
}

const heard = (wakes: Wakes, topic: string): number[] => {
  const counts: number[] = []
  wakes.on(topic, (count) => counts.push(count))
  return counts
}

const total = (counts: number[]): number => counts.reduce((sum, count) => sum + count, 0)

describe.each(carriers)('$name', ({ bus, cut }) => {
  let here: Wakes
  let there: Wakes
  beforeAll(async () => {
    here = await start(bus())
    there = await start(bus())
    return async () => {
      await here.stop()
      await there.stop()
    }
  })

  test('a ring is heard at once in its own process, and soon in the others, but not twice', async () => {
    const [own, other] = [heard(here, 'queue:a'), heard(there, 'queue:a')]
    here.wake([{ topic: 'queue:a', count: 2 }])
    expect(own).toEqual([2])
    await until(() => other.length > 0, { what: 'the other process hears' })
    expect(other).toEqual([2])
    expect(own).toEqual([2])
  })

  test('rings of one moment are sent together, with their counts added up', async () => {
    const other = heard(there, 'queue:burst')
    for (let n = 0; n < 500; n += 1) here.wake([{ topic: 'queue:burst', count: 1 }])
    await until(() => total(other) === 500, { what: 'all 500 rings' })
    expect(other.length).toBeLessThan(10)
  })

  test('more topics than fit into one payload all arrive', async () => {
    const ids = Array.from({ length: 600 }, (_, n) => `todo:${String(n).padStart(36, '0')}`)
    const arrived = new Set<string>()
    const off = there.onPrefix('todo:', (id) => arrived.add(`todo:${id}`))
    here.wake(ids.map((topic) => ({ topic, count: 1 })))
    await until(() => arrived.size === ids.length, { what: 'every topic' })
    off()
  })

  test('a listening connection that is cut off is made anew, again and again, and everybody looks again', async () => {
    const rounds = runs(2, 10)
    let lost = 0
    const off = there.onLost(() => {
      lost += 1
    })
    for (let round = 1; round <= rounds; round += 1) {
      const before = reconnects
      await cut()
      await until(() => reconnects >= before + 2 && here.connected() && there.connected(), {
        what: `both are back, round ${round}`,
      })
      const other = heard(there, `queue:round${round}`)
      here.wake([{ topic: `queue:round${round}`, count: 1 }])
      await until(() => total(other) >= 1, { what: `a ring after round ${round}` })
    }
    off()
    expect(lost).toBeGreaterThanOrEqual(rounds)
  })
})

describe('a process that hears of no other', () => {
  const topicOf = (n: number) => `queue:n${n}`

  /** What is sent over the bus, whoever sends it. */
  const overhear = async (): Promise<{ sent: string[]; close(): Promise<void> }> => {
    const sent: string[] = []
    const bus = postgresBus({ connectionString: clone.url })
    const line = await bus.connect(
      (payload) => sent.push(payload),
      () => {},
    )
    return { sent, close: line.close }
  }

  /** Rings once; whether that was sent by the time the next sign of life was. */
  let rung = 0
  const isSent = async (wakes: Wakes, sent: string[]): Promise<boolean> => {
    const before = sent.length
    rung += 1
    const topic = topicOf(rung)
    wakes.wake([{ topic, count: 1 }])
    const isSign = (payload: string) => !payload.includes('\n')
    await until(() => sent.slice(before).filter(isSign).length >= 2, { what: 'signs of life' })
    return sent.some((payload) => payload.includes(topic))
  }

  test('keeps its rings to itself; who comes is told to look at everything, and hears from then on', async () => {
    const { sent, close } = await overhear()
    const make = () =>
      createWakes({ bus: postgresBus({ connectionString: clone.url }), log, keepAliveMs: 100 })
    const here = make()
    await here.start()
    const ended = new AbortController()
    const running = here.run(ended.signal)
    const own = heard(here, topicOf(rung + 1))
    await until(async () => !(await isSent(here, sent)), { what: 'rings are kept' })
    expect(own.length).toBe(1)

    const there = make()
    let looks = 0
    there.onLost(() => {
      looks += 1
    })
    await there.start()
    await until(() => looks > 0, { what: 'who came looks at everything' })
    const other = heard(there, topicOf(1000))
    here.wake([{ topic: topicOf(1000), count: 1 }])
    await until(() => other.length > 0, { what: 'who came hears' })

    await there.stop()
    await until(async () => !(await isSent(here, sent)), { what: 'rings are kept again' })
    ended.abort()
    await running
    await here.stop()
    await close()
  })
})

test('a connection that does not take what is sent is given up, and everybody looks at everything', async () => {
  const real = postgresBus({ connectionString: clone.url })
  let failing = 0
  const failed: string[] = []
  const here = await start({
    name: 'one that fails',
    connect: async (hear, lost) => {
      const connection = await real.connect(hear, lost)
      return {
        ...connection,
        // As a statement that is not answered in time: the connection itself goes on.
        send: async (payloads) => {
          if (failing <= 0) return connection.send(payloads)
          failing -= 1
          failed.push(...payloads)
          throw new Error('Query read timeout')
        },
      }
    },
  })
  const there = await start(real)
  let looks = 0
  there.onLost(() => {
    looks += 1
  })
  const other = heard(there, 'queue:lost')
  here.wake([{ topic: 'queue:lost', count: 1 }])
  await until(() => other.length > 0, { what: 'the other process hears' })
  const before = looks
  failing = 1
  here.wake([{ topic: 'queue:lost', count: 1 }])
  await until(() => failed.length > 0 && looks > before, { what: 'the other process looks' })
  for (const wakes of [here, there]) await wakes.stop()
})

test.skipIf(nats === null)(
  'installations that share a NATS server are told apart by the path of its URL',
  async () => {
    const [, carrier] = carriers
    const own = await start(carrier!.bus())
    const foreign = await start(natsBus({ url: `nats://127.0.0.1:${natsPort}/other` }))
    const twin = await start(carrier!.bus())
    const [strange, familiar] = [heard(foreign, 'queue:a'), heard(twin, 'queue:a')]
    own.wake([{ topic: 'queue:a', count: 1 }])
    await until(() => familiar.length > 0, { what: 'the twin hears' })
    foreign.wake([{ topic: 'queue:b', count: 1 }])
    expect(strange).toEqual([])
    for (const wakes of [own, foreign, twin]) await wakes.stop()
  },
)

test.skipIf(nats === null)('a NATS server that is not there fails the start, soon', async () => {
  const wake = createWakes({ bus: natsBus({ url: 'nats://127.0.0.1:1/x', answerMs: 500 }), log })
  await expect(wake.start()).rejects.toThrow()
  await wake.stop()
})
