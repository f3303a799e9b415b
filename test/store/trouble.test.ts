/** What the errors of statements make of readiness, and when it is over; by a clock that the test turns. */
import pg from 'pg'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { createTrouble } from '../../src/store/postgres/trouble.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

const said = (code: string): Error =>
  Object.assign(new pg.DatabaseError('of the test', 1, 'error'), { code })

const FULL = 'the disk of the database is full'
const BUSY = 'statements wait too long in the database'

test('a full disk is named by one statement, until that one gets through', () => {
  const trouble = createTrouble()
  trouble.failed('send', said('53100'))
  expect(trouble.reason()).toBe(FULL)
  // Reading goes on while a disk is full.
  trouble.succeeded('read')
  expect(trouble.reason()).toBe(FULL)
  trouble.succeeded('send')
  expect(trouble.reason()).toBeNull()
})

test('waits are named by two statements, and are over once either gets through', () => {
  const trouble = createTrouble()
  for (let n = 0; n < 5; n += 1) trouble.failed('send', said('55P03'))
  expect(trouble.reason()).toBeNull()
  trouble.failed('claim', said('57014'))
  expect(trouble.reason()).toBe(BUSY)
  trouble.succeeded('claim')
  expect(trouble.reason()).toBeNull()
})

test('what was seen is believed for a while only, since nobody may ask a node that is not ready', () => {
  const trouble = createTrouble()
  trouble.failed('send', said('53100'))
  vi.advanceTimersByTime(14_000)
  expect(trouble.reason()).toBe(FULL)
  vi.advanceTimersByTime(2000)
  expect(trouble.reason()).toBeNull()
})

test('what readiness meets by itself, and faults of ours, are not counted', () => {
  const trouble = createTrouble()
  for (const code of ['25006', '57P01', '53300', '22012']) {
    for (const statement of ['a', 'b', 'c']) trouble.failed(statement, said(code))
  }
  expect(trouble.reason()).toBeNull()
})
