/** What the tests of the doctor share: an examination, and what it has to say of one thing. */
import { expect } from 'vitest'
import { type Diagnosis, diagnose } from '../../src/store/doctor/doctor.ts'

export const finding = ({ checks }: Diagnosis, check: string) =>
  checks.find((found) => found.check === check)!

export const expectWrong = async (url: string, check: string, found: RegExp, advice: RegExp) => {
  const diagnosis = await diagnose({ databaseUrl: url })
  expect(finding(diagnosis, check)).toMatchObject({
    status: 'wrong',
    found: expect.stringMatching(found),
    advice: expect.arrayContaining([expect.stringMatching(advice)]),
  })
  expect(diagnosis.ok).toBe(false)
}
export const expectOk = async (url: string, check: string) =>
  expect(finding(await diagnose({ databaseUrl: url }), check)).toMatchObject({ status: 'ok' })
