// How often the rights of those who wait are checked, by a clock that the test turns.
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import type { Caller } from '../../src/domain/endpoint.ts'
import { Refusal } from '../../src/domain/errors.ts'
import { createReauthorizer } from '../../src/http/stream/reauthorize.ts'
import { WireRefusal } from '../../src/protocol/wire/errors.ts'
import { anEndpoint } from './live-feed.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

const caller: Caller = { kind: 'endpoint', endpoint: anEndpoint({ id: 'mine' }) }

const waiting = (authenticate: () => Promise<Caller>, who: Caller = caller) => {
  const revoked = vi.fn()
  return {
    revoked,
    waiting: { caller: who, authenticate, isAllowed: () => true, revoke: revoked },
  }
}
const refused = async (): Promise<Caller> => {
  throw new WireRefusal('unauthenticated')
}

test('without a wake a right is checked within 30 s, the age of its copy included', async () => {
  const gone = waiting(refused)
  createReauthorizer().watch(gone.waiting)
  await vi.advanceTimersByTimeAsync(20_000)
  expect(gone.revoked).not.toHaveBeenCalled()
  await vi.advanceTimersByTimeAsync(8000)
  expect(gone.revoked).toHaveBeenCalledOnce()
  await vi.advanceTimersByTimeAsync(60_000)
  expect(gone.revoked).toHaveBeenCalledOnce()
})

test('who waits no more is not checked, and no timer is left', async () => {
  const gone = waiting(refused)
  createReauthorizer().watch(gone.waiting)()
  await vi.advanceTimersByTimeAsync(60_000)
  expect(gone.revoked).not.toHaveBeenCalled()
  expect(vi.getTimerCount()).toBe(0)
})

test('a change of one endpoint has nobody else checked', async () => {
  let change: (endpointId?: string) => void = () => {}
  const { watch } = createReauthorizer({
    onChange: (listener) => {
      change = listener
    },
  })
  const other: Caller = { kind: 'endpoint', endpoint: anEndpoint({ id: 'other' }) }
  const [mine, theirs] = [waiting(refused), waiting(refused, other)]
  for (const each of [mine, theirs]) watch(each.waiting)
  change('mine')
  await vi.advanceTimersByTimeAsync(0)
  expect(mine.revoked).toHaveBeenCalledOnce()
  expect(theirs.revoked).not.toHaveBeenCalled()
  change()
  await vi.advanceTimersByTimeAsync(0)
  expect(theirs.revoked).toHaveBeenCalledOnce()
})

test('a database that is away takes nobody’s right, and is asked again soon', async () => {
  let away = true
  const onError = vi.fn()
  let change = (): void => {}
  const kept = waiting(async () => {
    if (away) throw new Refusal('unavailable')
    return refused()
  })
  createReauthorizer({
    onError,
    onChange: (listener) => {
      change = listener
    },
  }).watch(kept.waiting)
  change()
  await vi.advanceTimersByTimeAsync(0)
  expect(onError).toHaveBeenCalledOnce()
  expect(kept.revoked).not.toHaveBeenCalled()
  away = false
  await vi.advanceTimersByTimeAsync(6000)
  expect(kept.revoked).toHaveBeenCalledOnce()
})

test('a change that comes while a right is checked has it checked once more', async () => {
  let change = (): void => {}
  let isGood = true
  let answer: (caller: Caller) => void = () => {}
  const changing = waiting(() =>
    isGood ? new Promise((resolve) => (answer = resolve)) : refused(),
  )
  createReauthorizer({
    onChange: (listener) => {
      change = listener
    },
  }).watch(changing.waiting)
  change()
  isGood = false
  change()
  answer(caller)
  await vi.advanceTimersByTimeAsync(0)
  expect(changing.revoked).toHaveBeenCalledOnce()
})
