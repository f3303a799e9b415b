/** What the board says of its cards, as the browser computes it. */
import { expect, test } from 'vitest'

interface Card {
  phase: string
  progressAt: string | null
  readMs: number
}
type IdleOf = (card: Card, nowMs: number) => { ms: number; unsure: boolean }

// Plain JavaScript for a browser; this much of it needs no page.
const path = new URL('../../src/http/board/assets/scripts/words.js', import.meta.url).href
const { idleOf } = (await import(path)) as { idleOf: IdleOf }

const MOVED = Date.parse('2026-01-02T03:04:05.006Z')
const after = (seconds: number): number => MOVED + seconds * 1000
const card = (read: number, more: Partial<Card> = {}): Card => ({
  phase: 'held',
  progressAt: new Date(MOVED).toISOString(),
  readMs: after(read),
  ...more,
})

test('a holder is idle past 30 s without progress, counted from it', () => {
  expect(idleOf(card(30), after(30))).toEqual({ ms: 0, unsure: false })
  expect(idleOf(card(31), after(31))).toEqual({ ms: 31_000, unsure: false })
  expect(idleOf(card(40), after(65))).toEqual({ ms: 65_000, unsure: false })
})

test('a silence that no list has told of is not told; after 30 s a list is wanted', () => {
  expect(idleOf(card(0), after(20))).toEqual({ ms: 0, unsure: false })
  expect(idleOf(card(0), after(31))).toEqual({ ms: 0, unsure: true })
  expect(idleOf(card(25), after(50))).toEqual({ ms: 0, unsure: false })
  expect(idleOf(card(25), after(56))).toEqual({ ms: 0, unsure: true })
  // Told once, and put right by the next list if the work has moved since.
  expect(idleOf(card(31), after(62))).toEqual({ ms: 62_000, unsure: true })
})

test('what waits, asks or has ended is not idle', () => {
  for (const phase of ['waiting', 'interrupted', 'ended']) {
    expect(idleOf(card(100, { phase }), after(100))).toEqual({ ms: 0, unsure: false })
  }
  expect(idleOf(card(100, { progressAt: null }), after(100)).ms).toBe(0)
})
