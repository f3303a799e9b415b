/** Settings over the operator API: the known ones are set, read and unset; nothing else is one. */
import { expect, test } from 'vitest'
import { startApp } from '../support/app.ts'
import { operate, refusalOf } from '../support/steps.ts'

const app = await startApp()

test('a setting that was set is read until it is unset', async () => {
  const read = async () => (await operate(app, 'settings.get', {})).settings.sse_retry_ms
  expect(await read()).toBeNull()
  await operate(app, 'settings.set', { key: 'sse_retry_ms', value: '700' })
  expect(await read()).toBe('700')
  await operate(app, 'settings.unset', { key: 'sse_retry_ms' })
  expect(await read()).toBeNull()
})

test('a value that does not fit its setting is refused and changes nothing', async () => {
  for (const [key, value] of [
    ['sse_retry_ms', '-1'],
    ['interrupt_max_wait_seconds', '0'],
    ['default_queue', ''],
  ] as const) {
    expect((await refusalOf(operate(app, 'settings.set', { key, value }))).code).toBe(-32602)
    expect((await operate(app, 'settings.get', {})).settings[key]).toBeNull()
  }
})

test.each(['nope', 'constructor', 'toString', '__proto__'])('%j is no setting', async (key) => {
  for (const call of [
    operate(app, 'settings.set', { key, value: '1' }),
    operate(app, 'settings.unset', { key }),
  ]) {
    expect((await refusalOf(call)).code).toBe(-32602)
  }
  expect(await app.sql('select key from settings')).toEqual([])
})
