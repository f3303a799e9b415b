/**
 * Peers that die without a word, as when a machine loses its power or a cable is pulled: no packet of
 * them comes any more, not even one that says so. The node and its peers have a network of their own
 * here, which goes away.
 * Field case: peers that die without a word.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as pause } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { startApp } from '../support/app.ts'
import { a2aClient, agentClient, textMessage } from '../support/clients/actors.ts'
import { endWithFile } from '../support/process/child.ts'
import { spawnServe } from '../support/process/serve-child.ts'
import { canCutNetwork } from '../support/system.ts'
import { until } from '../support/until.ts'

/** What is open for nobody is closed by then. */
const RELEASED_MS = 30_000
/** Past the system's first probes, so that those which follow are put off by a stream's comment. */
const QUIET_MS = 6000

/** Opens each of its requests and reads on; says `open` once all streams have begun. */
const PEER = `
const calls = JSON.parse(process.argv[1])
const begun = calls.map(async ({ url, streams, ...init }) => {
  const answer = fetch(url, init).then((response) => (response.body.pipeTo(new WritableStream()), response))
  answer.catch(() => {})
  if (streams && (await answer).status !== 200) throw new Error(url)
})
Promise.all(begun).then(() => console.log('open'))`

/** So many calls of one endpoint may be in progress: whoever may make another holds none for the dead. */
const MOST_CALLS = 2

test.runIf(canCutNetwork)(
  'streams, quiet or busy, and whatever waits for peers that are gone is released within 30 s',
  async () => {
    const app = await startApp()
    const { client, agent } = await app.queue('desk', { contexts: 'parallel' })
    const idle = await app.queue('idle', { contexts: 'parallel' })
    const patient = await app.queue('patient', { contexts: 'parallel' })
    await app.queue('empty')
    const both = await app.vend(['work'], ['patient', 'empty'])
    const serving = spawnServe({
      databaseUrl: app.databaseUrl,
      env: { SWITCHBOARD_MAX_CALLS_PER_ENDPOINT: String(MOST_CALLS) },
      within: ['unshare', '--net', 'sh', '-c', 'ip link set lo up && exec "$@"', 'sh'],
    })
    endWithFile(serving.child)
    const url = await serving.listening
    /** In the network of the node. */
    const inside = (...words: string[]) => {
      const net = `--net=/proc/${serving.child.pid}/ns/net`
      const child = spawn('nsenter', [net, ...words], { stdio: ['ignore', 'pipe', 'inherit'] })
      endWithFile(child)
      let said = ''
      child.stdout.on('data', (chunk: Buffer) => {
        said += chunk
      })
      return { said: () => said, ended: once(child, 'exit') }
    }
    const open = async (): Promise<Record<string, number>> => {
      const program = `fetch('${url}/metrics').then((r) => r.text()).then(console.log)`
      const { said, ended } = inside(process.execPath, '-e', program)
      await ended
      const gauges = /^(switchboard_(?:streams_open\{.*\}|waiting_claims)) (\d+)$/gm
      return Object.fromEntries([...said().matchAll(gauges)].map(([, k, n]) => [k, Number(n)]))
    }
    const count = async () => Object.values(await open()).reduce((all, n) => all + n, 0)

    const rpc = (path: string, token: string, method: string, params: object) => ({
      url: `${url}${path}`,
      method: 'POST',
      headers: {
        'Content-Type': 'application/json',
        'A2A-Version': '1.0',
        Authorization: `Bearer ${token}`,
      },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
    })
    const batch = ({ body, ...call }: ReturnType<typeof rpc>) => ({ ...call, body: `[${body}]` })
    const busy = await a2aClient(app.url, 'desk', client.token).submit('busy')
    const worker = agentClient(app.url, agent.token)
    const { held } = await worker.claim()
    const send = { message: textMessage('quiet') }
    const counted = [
      { ...rpc('/a2a/idle', idle.client.token, 'SendStreamingMessage', send), streams: true },
      { ...rpc('/a2a/desk', client.token, 'SubscribeToTask', { id: busy.id }), streams: true },
      rpc('/agent', agent.token, 'todos.claim', { waitMs: 60_000 }),
      batch(rpc('/agent', both.token, 'todos.claim', { queues: ['empty'], waitMs: 60_000 })),
    ]
    // Nothing counts blocking sends and waits for messages but the calls that an endpoint may make.
    await a2aClient(app.url, 'patient', patient.client.token).submit('held')
    const kept = await agentClient(app.url, both.token).claim({ queues: ['patient'] })
    const blocking = () =>
      rpc('/a2a/patient', patient.client.token, 'SendMessage', { message: textMessage('waits') })
    const calls = [
      ...counted,
      rpc('/agent', both.token, 'todos.messages', { ...kept.held, waitMs: 60_000 }),
      blocking(),
      blocking(),
    ]
    const answers = () =>
      Promise.all(
        [
          rpc('/a2a/patient', patient.client.token, 'ListTasks', {}),
          rpc('/agent', both.token, 'todos.list', {}),
        ].map(async ({ url, ...init }) => {
          const ask = `fetch(${JSON.stringify(url)}, ${JSON.stringify(init)})`
          const program = `${ask}.then(({ status }) => console.log(status))`
          const { said, ended } = inside(process.execPath, '-e', program)
          await ended
          return Number(said())
        }),
      )
    const peer = inside(process.execPath, '-e', PEER, JSON.stringify(calls))
    await until(() => peer.said().includes('open'))
    await until(async () => (await count()) === counted.length, {
      what: 'all of it is open',
    })
    await until(async () => (await answers()).every((status) => status === 429), {
      what: 'each endpoint has as many calls in progress as it may',
    })

    let working = true
    const work = (async () => {
      while (working) {
        await worker.call('todos.artifact', {
          ...held,
          artifact: { artifactId: 'a', parts: [{ text: 'x' }] },
        })
        await pause(500)
      }
    })()
    await pause(QUIET_MS)
    expect(await count()).toBe(counted.length)
    await inside('ip', 'link', 'set', 'lo', 'down').ended
    await pause(RELEASED_MS)
    working = false
    await work
    // What is still open would go on: its peers are there again.
    await inside('ip', 'link', 'set', 'lo', 'up').ended
    expect(Object.entries(await open()).filter(([, n]) => n > 0)).toEqual([])
    expect(await answers()).toEqual([200, 200])
  },
)
