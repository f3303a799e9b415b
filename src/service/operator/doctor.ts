/** The doctor, as a node runs it: it asks the others by the bus that they share, NATS too. */
import { type Diagnosis, diagnose } from '../../store/doctor/doctor.ts'
import { wakeOf } from '../../store/wake/topics.ts'
import type { Parts } from '../parts.ts'

export const createDoctor = ({
  databaseUrl,
  wakes,
}: Pick<Parts, 'wakes'> & { databaseUrl: string }): (() => Promise<Diagnosis>) => {
  let running: Promise<Diagnosis> | null = null
  return () => {
    running ??= diagnose({ databaseUrl, ask: (topic) => wakes.wake([wakeOf(topic)]) }).finally(
      () => {
        running = null
      },
    )
    return running
  }
}
