// `switchboard dev` after a kill -9, and after one of its PostgreSQL.
import fs from 'node:fs'
import path from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { banner, endDev, folder, leftovers, paste, startDev } from '../cli/dev.ts'
import { until } from '../support/until.ts'

afterAll(endDev)

test('a kill -9 of dev leaves nothing running, and costs neither the tasks nor the tokens', async () => {
  const dataDir = path.join(folder, 'killed-itself')
  const first = startDev(dataDir)
  const text = await banner(first)
  const client = /Client token\s+(\S+)/.exec(text)![1]!
  const send = text
    .split('\n')
    .find((line) => /^ {2}cd /.test(line))!
    .trim()
  expect((await paste(send)).stdout).toContain('input-required')
  expect((await paste(send)).stdout).toContain('input-required')

  first.child.kill('SIGKILL')
  await first.exited
  await until(() => leftovers(dataDir).length === 0, { what: 'nothing left after kill -9' })

  const again = startDev(dataDir)
  expect(/Client token\s+(\S+)/.exec(await banner(again))![1]).toBe(client)
  const listed = await paste(send.replace(/ send .*$/, ' list --json'))
  expect(JSON.parse(listed.stdout).todos).toHaveLength(2)
  again.child.kill('SIGINT')
  expect((await again.exited)[0]).toBe(0)
  await until(() => leftovers(dataDir).length === 0, { what: 'nothing left after Ctrl-C' })
})

test('a PostgreSQL that is killed ends dev, which says so', async () => {
  const dataDir = path.join(folder, 'killed')
  const dev = startDev(dataDir)
  await banner(dev)
  const [cluster] = fs.readdirSync(dataDir).filter((name) => /^pg\d+$/.test(name))
  const [pid] = fs.readFileSync(path.join(dataDir, cluster!, 'postmaster.pid'), 'utf8').split('\n')
  process.kill(Number(pid), 'SIGKILL')
  expect((await dev.exited)[0]).toBe(1)
  expect(dev.errors()).toMatch(/^switchboard: The PostgreSQL in .*killed was killed: start again/m)
  await until(() => leftovers(dataDir).length === 0, { what: 'nothing left' })
})
