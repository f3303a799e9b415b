/** That the table of MUSTs is whole, and that each test it names is there and runs. */
import { existsSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import type { Must, Proof } from './must.ts'
import { HOW_MANY, MUSTS } from './musts.ts'

const TESTS = new URL('../', import.meta.url)
const DOCS = new URL('../../docs/conformance.md', import.meta.url)

const numberOf = ({ id }: Must): number => Number.parseInt(id, 10)
const isReason = (proof: Must['proof']): proof is { why: string } => 'why' in proof
const whys = MUSTS.flatMap(({ id, says, proof }) =>
  isReason(proof) ? [{ id, says, why: proof.why }] : [],
)
const proofs = MUSTS.flatMap(({ id, proof }) =>
  isReason(proof)
    ? []
    : Object.entries(proof as Proof).map(([file, titles]) => ({ id, file, titles })),
)

const LITERAL = String.raw`(['"\x60])((?:\\.|(?!\1).)*)\1\s*,`
/** `test('…',`, also as `test.each(…)('…',`, and the cases of the contract. */
const TITLE = new RegExp(String.raw`(?:\b(?:test|contract)\(|\)\()\s*${LITERAL}`, 'g')

const SKIPPED = /\btest\.(?:skip|todo|skipIf|runIf|fails)\b[^'"`]*\(\s*(['"`]).*?\1/g

/** The titles of the tests that a file runs; not those that it skips, or runs on a condition. */
const titlesIn = (file: string): string[] => {
  const text = readFileSync(new URL(file, TESTS), 'utf8')
  if (/\bdescribe\.(?:skip|todo|skipIf|runIf)\b/.test(text)) return []
  const titles = text.replace(SKIPPED, '').matchAll(TITLE)
  return [...titles].map(([, , title = '']) => title.replace(/\\(.)/g, '$1'))
}

test('every number is there, in order, and each of its letters once', () => {
  expect([...new Set(MUSTS.map(numberOf))]).toEqual(
    Array.from({ length: HOW_MANY }, (_, index) => index + 1),
  )
  for (let number = 1; number <= HOW_MANY; number += 1) {
    const rows = MUSTS.filter((row) => numberOf(row) === number)
    const letters = rows.length === 1 ? [''] : rows.map((_, index) => 'abcdef'[index])
    expect(rows.map(({ id }) => id)).toEqual(letters.map((letter) => `${number}${letter}`))
  }
})

test('each says what it demands and where', () => {
  for (const { id, section, says } of MUSTS) {
    expect([id, says]).toEqual([id, expect.stringMatching(/^.{10,100}$/)])
    expect([id, section]).toEqual([id, expect.stringMatching(/^(0\.3 |HEAD )?(\d|P$)/)])
  }
})

test.each(proofs)('$id is proved by tests of $file', ({ file, titles }) => {
  expect(existsSync(new URL(file, TESTS))).toBe(true)
  const found = titlesIn(file)
  expect(titles.length).toBeGreaterThan(0)
  // Exactly one of each: a title that two tests share names neither.
  for (const title of titles) expect(found.filter((each) => each === title)).toEqual([title])
})

test('the few that have no test say why, here and in the docs', () => {
  expect(whys.map(({ id }) => id)).toEqual(['8', '77', '83b', '86', '93b'])
  const docs = readFileSync(DOCS, 'utf8')
  for (const { id, says, why } of whys) {
    expect(why.length).toBeGreaterThan(20)
    expect(docs).toContain(`\n| ${id} | ${says} | ${why} |\n`)
  }
})

test('the check itself sees what is wrong', () => {
  const found = titlesIn('protocol/v1/official.test.ts')
  expect(found).toContain('enums have the official values, in order')
  expect(found).not.toContain('the fixture holds the facts of the proto')
  expect(found).not.toContain('enums have the official values')
})
