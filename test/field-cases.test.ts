/** The table of docs/field-cases.md and the tests that name its cases say the same. */
import fs from 'node:fs'
import path from 'node:path'
import { expect, test } from 'vitest'

const TESTS = path.resolve('test')

/** Short name and test files of each row, relative to test/. */
const rows = [
  ...fs
    .readFileSync('docs/field-cases.md', 'utf8')
    .matchAll(/^\| ([^|]+) \| [^|]+ \| [^|]+ \| ((?:`[^`]+`(?:, )?)+) \|$/gm),
].map(([, name, files]) => ({
  name: name!,
  files: [...files!.matchAll(/`([^`]+)`/g)].map(([, file]) => file!),
}))

/** What a test file says after `Field cases:`, over however many lines of its comment. */
const namedIn = (file: string): string[] => {
  const [, list] =
    /^[ /*]*Field cases?: (.*?)\.$/ms.exec(fs.readFileSync(path.join(TESTS, file), 'utf8')) ?? []
  return list === undefined ? [] : list.replaceAll(/\n[ /*]*/g, ' ').split('; ')
}

const testFiles = fs
  .readdirSync(TESTS, { recursive: true, encoding: 'utf8' })
  .filter((file) => file.endsWith('.test.ts'))

test('each case has a name of its own', () => {
  expect(rows.length).toBeGreaterThan(80)
  const names = rows.map(({ name }) => name)
  expect(names.filter((name, index) => names.indexOf(name) !== index)).toEqual([])
})

test('each file of the table is there and names its case', () => {
  const wrong = rows.flatMap(({ name, files }) =>
    files
      .filter((file) => !testFiles.includes(file) || !namedIn(file).includes(name))
      .map((file) => `${file}: ${name}`),
  )
  expect(wrong).toEqual([])
})

test('each case that a test names is in the table, with that test', () => {
  const wrong = testFiles.flatMap((file) =>
    namedIn(file)
      .filter((named) => !rows.some(({ name, files }) => name === named && files.includes(file)))
      .map((named) => `${file}: ${named}`),
  )
  expect(wrong).toEqual([])
})
