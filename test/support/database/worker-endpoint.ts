/** An endpoint that may claim, put into the database directly. */

import { addEndpoint, newToken } from '../../../src/store/admin/endpoints.ts'
import type { Session } from '../../../src/store/postgres/database.ts'

export const addWorker = async (session: Session, queues: string[]): Promise<string> =>
  (
    await addEndpoint(session, newToken(), {
      name: 'worker',
      queues,
      verbs: ['work'],
      defaultLeaseSeconds: 300,
      interruptTtlSeconds: null,
      effects: null,
      sendPerMinute: null,
      concurrency: null,
      highestPriority: null,
      lowestPriority: null,
      expiresInSeconds: null,
    })
  ).id
