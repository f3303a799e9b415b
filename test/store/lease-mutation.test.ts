/**
 * Every lease goes through lease_free: with its body replaced by `select true` nothing is held
 * any more, and the rules below must break. A rule that still held would not be a lease rule.
 */
import { expect, test } from 'vitest'
import { EVERYTHING } from '../../src/domain/scope.ts'
import { readClaimed } from '../../src/store/claim.ts'
import { transitionOne, tryTransition } from '../../src/store/transition.ts'
import { openStore } from '../support/store.ts'
import { addWorker } from '../support/worker-endpoint.ts'

const { database, add } = await openStore(2)
const worker = await addWorker(database, ['q'])

const claim = () =>
  readClaimed(database, ['q'], 1, { endpoint: worker, leaseSeconds: 300, claimant: 'x' })

/** The holder of a running lease may write; nobody may take its todo. */
const leaseIsKept = async (): Promise<boolean> => {
  const id = await add()
  const [taken] = await claim()
  const held = { endpoint: worker, fence: taken!.view.todo.fence }
  const beat = await tryTransition(database, 'heartbeat', id, held)
  await transitionOne(database, 'cancel', id, {}, EVERYTHING)
  return beat !== null
}

test('the lease rules hold with the predicate and break without it', async () => {
  const [original] = await database.query<{ source: string }>(
    `select pg_get_functiondef('lease_free'::regproc) as source`,
    [],
  )
  expect(await leaseIsKept()).toBe(true)
  await database.query(
    `create or replace function lease_free(owner uuid, expires_at timestamptz) returns boolean
      language sql stable parallel safe return true`,
    [],
  )
  expect(await leaseIsKept()).toBe(false)
  await database.query(original!.source, [])
  expect(await leaseIsKept()).toBe(true)
})
