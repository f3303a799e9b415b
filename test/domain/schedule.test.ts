import { expect, test } from 'vitest'
import { type CATCH_UPS, madeOf } from '../../src/domain/sends/schedule.ts'

const now = new Date('2026-01-01T12:00:30Z')
const due = [5, 4, 3, 2, 1, 0].map(
  (minutes) => new Date(Date.parse('2026-01-01T12:00:00Z') - minutes * 60_000),
)

test.each<[(typeof CATCH_UPS)[number], number, number]>([
  ['all', 200, 6],
  ['all', 6, 6],
  ['all', 2, 2],
  ['all', 1, 1],
  ['one', 200, 1],
  ['skip', 200, 1],
])(
  'of six that are due, %s with a limit of %d makes the newest %d',
  (catchUp, catchUpLimit, made) => {
    expect(madeOf({ catchUp, catchUpLimit }, due, now)).toEqual(due.slice(-made))
  },
)

test('a tick is missed once it is more than a minute late', () => {
  const skip = { catchUp: 'skip', catchUpLimit: 1 } as const
  const [tick] = due.slice(-1)
  const after = (ms: number) => new Date(tick!.getTime() + ms)
  expect(madeOf(skip, [tick!], after(60_000))).toEqual([tick])
  expect(madeOf(skip, [tick!], after(60_001))).toEqual([])
  expect(madeOf({ ...skip, catchUp: 'one' }, [tick!], after(86_400_000))).toEqual([tick])
  expect(madeOf({ ...skip, catchUp: 'all' }, [], now)).toEqual([])
})
