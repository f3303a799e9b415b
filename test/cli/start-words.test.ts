/**
 * What the environment means for others is said at the start, a line each.
 * Field cases: variables of Kubernetes; listening everywhere.
 */
import { expect, test } from 'vitest'
import { startApp } from '../support/app.ts'
import { serveProcessWith } from '../support/process/serve-process.ts'

test('variables that are ignored, cards without an address, and closed metrics are told once each', async () => {
  const app = await startApp()
  const { log, url } = await serveProcessWith(
    {
      HOST: '0.0.0.0',
      SWITCHBOARD_SERVICE_HOST: '10.0.0.1',
      SWITCHBOARD_PORT: 'tcp://10.0.0.1:4100',
    },
    app.databaseUrl,
  )
  const lines = log.filter((line) => line.startsWith('{')).map((line) => JSON.parse(line))
  const said = (text: string) => lines.filter(({ msg }) => msg.includes(text))
  expect(said('variables that Kubernetes sets')).toMatchObject([
    { level: 'info', ignored: ['SWITCHBOARD_SERVICE_HOST', 'SWITCHBOARD_PORT'] },
  ])
  expect(said('SWITCHBOARD_PUBLIC_URL is not set')).toMatchObject([{ level: 'warn' }])
  expect(said('/metrics is answered 403')).toMatchObject([{ level: 'warn', host: '0.0.0.0' }])
  const { port } = new URL(url)
  expect((await fetch(`http://127.0.0.1:${port}/metrics`)).status).toBe(403)
})
