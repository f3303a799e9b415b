// A node that is killed while its janitor deletes.
import { once } from 'node:events'
import { expect, test } from 'vitest'
import { makeAged, orphans, rowsOf } from '../retention/aged.ts'
import type { App } from '../support/app.ts'
import { cloneDatabase, withClient } from '../support/database/database.ts'
import { serveProcess } from '../support/process/serve-process.ts'
import { until } from '../support/until.ts'

test('a node that is killed while it deletes leaves nothing half deleted, and the next goes on', async () => {
  const clone = await cloneDatabase()
  const on: App['sql'] = (text, values = []) =>
    withClient(clone.url, async (session) => (await session.query(text, values)).rows)
  try {
    await on(
      `insert into queues (name, card, policy) values ('q', '{"name":"q"}', '{"retentionDays":30}')`,
    )
    const old = [
      ...(await makeAged(on, { count: 6000 })),
      ...(await makeAged(on, { events: 20_000 })),
    ]
    const left = async () => (await rowsOf(on, old)).todos ?? 0
    for (let kill = 0; kill < 2; kill += 1) {
      const before = await left()
      const { child } = await serveProcess(clone.url)
      await until(async () => (await left()) < before, { what: 'it is at work' })
      child.kill('SIGKILL')
      await once(child, 'exit')
      expect(await orphans(on)).toEqual({})
    }
    await serveProcess(clone.url)
    await until(async () => Object.keys(await rowsOf(on, old)).length === 0, {
      what: 'all are deleted',
    })
    expect(await on('select from remains')).toEqual([])
  } finally {
    await clone.drop()
  }
})
