/**
 * Looks at an installation by way of its database, and says of each thing that can be wrong whether it
 * is, and what to do. It changes nothing. A check that fails itself does not keep the others from running.
 */
import type pg from 'pg'
import { type Finding, unknown } from './finding.ts'
import { type Asked, askNodes, checkClock, checkNotify } from './nodes.ts'
import { createReader, openClient, type Reader } from './reader.ts'
import { checkClaimHead, checkDatabase, checkDisk, checkRights, checkSchema } from './server.ts'
import { checkEndpoints, checkQueues, checkStuck } from './work.ts'

export type { Finding } from './finding.ts'

export interface Diagnosis {
  /** Nothing is wrong. */
  ok: boolean
  checks: Finding[]
}

const diagnosisOf = (checks: Finding[]): Diagnosis => ({
  ok: checks.every(({ status }) => status !== 'wrong'),
  checks,
})

const guarded = async (check: string, look: () => Promise<Finding>): Promise<Finding> => {
  try {
    return await look()
  } catch (error) {
    const text = error instanceof Error ? error.message : String(error)
    const advice = ['mend what the checks above tell of, and look again']
    return { check, status: 'wrong', found: `it cannot be looked at: ${text}`, advice }
  }
}

const examine = async (
  [sender, listener]: readonly [pg.Client, pg.Client],
  reader: Reader,
  { databaseUrl, ask }: Patient,
): Promise<Diagnosis> => {
  const nobody: Asked = { echoed: false, said: [], listening: 0, skewHere: 0 }
  let asked = nobody
  // Before the others: what is sent while they ask would be undone with their transactions.
  const notify = await guarded('notify', async () => {
    asked = await askNodes(listener, sender, reader, ask)
    return checkNotify(asked)
  })
  const checks = [
    await guarded('database', () => checkDatabase(reader)),
    await guarded('rights', () => checkRights(reader)),
    await guarded('schema', () => checkSchema(reader, databaseUrl)),
    notify,
    checkClock(asked),
    await guarded('disk', () => checkDisk(reader, sender.host)),
  ]
  const hasTables = checks.find(({ check }) => check === 'schema')?.status === 'ok'
  const work = {
    claims: () => checkClaimHead(reader),
    queues: () => checkQueues(reader),
    endpoints: () => checkEndpoints(reader),
    sweeps: () => checkStuck(reader, Math.max(asked.listening, asked.said.length)),
  }
  for (const [check, look] of Object.entries(work)) {
    const without = unknown(check, 'the schema is not that of this version')
    checks.push(hasTables ? await guarded(check, look) : without)
  }
  return diagnosisOf(checks)
}

export interface Patient {
  /** Without the pooler, if there is one. */
  databaseUrl: string
  /** How nodes are asked; by NOTIFY where it is left out. */
  ask?: ((topic: string) => unknown) | undefined
}

/** Rejects where the database cannot be reached. */
export const diagnose = async (patient: Patient): Promise<Diagnosis> => {
  const clients: pg.Client[] = []
  try {
    const sender = await openClient(patient.databaseUrl)
    clients.push(sender)
    const listener = await openClient(patient.databaseUrl)
    clients.push(listener)
    return await examine([sender, listener], createReader(sender), patient)
  } finally {
    await Promise.all(clients.map((client) => client.end().catch(() => {})))
  }
}
