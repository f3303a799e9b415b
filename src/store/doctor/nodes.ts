/**
 * Whether NOTIFY arrives, and what the nodes say of themselves: the doctor asks by a wake, and each node
 * that hears it answers by a NOTIFY with its clock beside that of the database. So a node whose wakes
 * are lost, or whose clock is wrong, shows wherever the doctor is run.
 */
import { randomBytes } from 'node:crypto'
import os from 'node:os'
import type pg from 'pg'
import { sleep } from '../../base/time.ts'
import { VERSION } from '../../base/version.ts'
import type { Database } from '../postgres/database.ts'
import { topics } from '../wake/topics.ts'
import type { Wakes } from '../wake/wake.ts'
import { type Fault, type Finding, judged, unknown } from './finding.ts'
import type { Reader } from './reader.ts'

const CHANNEL = 'switchboard_doctor_'
const IS_CHANNEL = /^switchboard_doctor_[0-9a-f]{16}$/

/** What a node says; both clocks in milliseconds, read at one moment. */
interface Said {
  node: string
  version: string
  clock: number
  database: number
}

const SAY = `select pg_notify($1, json_build_object('node', $2::text, 'version', $3::text,
  'clock', $4::float8, 'database', extract(epoch from clock_timestamp()) * 1000)::text)`

/** Lets a node answer. Returns a function that ends it. */
export const answerDoctor = (
  database: Pick<Database, 'query'>,
  wakes: Pick<Wakes, 'onPrefix'>,
): (() => void) =>
  wakes.onPrefix(topics.doctor.prefix, (channel) => {
    if (!IS_CHANNEL.test(channel)) return
    const node = `${os.hostname()}:${process.pid}`
    // A node that cannot answer is what the doctor is to find.
    void database.query(SAY, [channel, node, VERSION, Date.now()]).catch(() => {})
  })

/** How long a NOTIFY may take, in ms. */
const HEARD_MS = 3000
/** The least by which a clock is off that is told of, in ms. */
const SKEW_MS = 5000

const LISTENING = `select count(*)::int as count from pg_stat_activity
  where application_name = 'switchboard wake' and datname = current_database()`

/** The payload of a wake, as a node that nobody knows would send it. */
const askBy = (sender: pg.Client) => (topic: string) =>
  sender.query(`select pg_notify('switchboard', $1)`, [`doctor\n${topic} 1`])

export interface Asked {
  /** Whether a NOTIFY of our own came back. */
  echoed: boolean
  said: Said[]
  /** How many nodes listen, as the database sees it. */
  listening: number
  /** How far the clock of this machine is from that of the database, in ms. */
  skewHere: number
}

const skewHere = async (sender: pg.Client): Promise<number> => {
  const before = Date.now()
  const { rows } = await sender.query<{ ms: number }>(
    'select (extract(epoch from clock_timestamp()) * 1000)::float8 as ms',
  )
  return (before + Date.now()) / 2 - rows[0]!.ms
}

/** Asks the nodes, and waits until all that listen have answered, or for as long as a NOTIFY may take. */
export const askNodes = async (
  listener: pg.Client,
  sender: pg.Client,
  { read }: Reader,
  ask: (topic: string) => unknown = askBy(sender),
): Promise<Asked> => {
  const channel = CHANNEL + randomBytes(8).toString('hex')
  const [row] = await read<{ count: number }>(LISTENING)
  const asked: Asked = {
    echoed: false,
    said: [],
    listening: row?.count ?? 0,
    skewHere: await skewHere(sender),
  }
  listener.on('notification', ({ payload = '' }) => {
    if (payload === 'echo') asked.echoed = true
    else asked.said.push(JSON.parse(payload))
  })
  await listener.query(`listen ${channel}`)
  await sender.query(`select pg_notify($1, 'echo')`, [channel])
  await ask(topics.doctor(channel))
  const until = performance.now() + HEARD_MS
  const isMissing = () => !asked.echoed || asked.said.length < asked.listening
  while (isMissing() && performance.now() < until) await sleep(20)
  return asked
}

export const checkNotify = ({ echoed, said, listening }: Asked): Finding => {
  const faults: Fault[] = []
  if (!echoed) {
    const found = `a NOTIFY did not arrive within ${HEARD_MS / 1000} s`
    const advice =
      'give nodes a way past the pooler (DATABASE_DIRECT_URL), or SWITCHBOARD_NATS_URL: until then they find by polling what others did'
    faults.push({ found, advice })
  }
  if (echoed && said.length < listening) {
    const found = `${listening - said.length} of ${listening} nodes that listen did not answer`
    const advice =
      'look at /readyz and the log of each node; those of an older version do not answer'
    faults.push({ found, advice })
  }
  return judged('notify', faults, `NOTIFY arrives; nodes that answered: ${said.length}`)
}

export const checkClock = ({ said, skewHere: here }: Asked): Finding => {
  const fine = `no clock is off by ${SKEW_MS / 1000} s`
  const off = said.map(({ node, clock, database }) => ({ node, ms: clock - database }))
  if (off.length === 0 && Math.abs(here) >= SKEW_MS) {
    const seconds = Math.round(here / 1000)
    return unknown('clock', `no node answered; this machine's clock is off by ${seconds} s`)
  }
  const faults = off
    .filter(({ ms }) => Math.abs(ms) >= SKEW_MS)
    .map(({ node, ms }): Fault => {
      const [by, than] = [Math.abs(Math.round(ms / 1000)), ms > 0 ? 'ahead of' : 'behind']
      const found = `the clock of ${node} is ${by} s ${than} that of the database`
      return { found, advice: 'let both machines keep their time by NTP' }
    })
  return judged('clock', faults, fine)
}
