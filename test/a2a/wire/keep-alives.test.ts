/**
 * What a silent stream is kept alive with, as the readers in the field see it.
 * Field cases: keep-alives are no events.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Readable } from 'node:stream'
import { createParser } from 'eventsource-parser'
import { afterAll, expect, test } from 'vitest'
import { startApp, startNode } from '../../support/app.ts'
import { openBrowser, openPage } from '../../support/browser.ts'
import { a2aClient, agentClient } from '../../support/clients/actors.ts'
import { saying } from '../../support/steps.ts'
import { until } from '../../support/until.ts'

const app = await startApp({ pollMs: 60_000, pingMs: 20 })
const { client, agent } = await app.queue('desk', { contexts: 'parallel' })
const v1 = a2aClient(app.url, 'desk', client.token)
const worker = agentClient(app.url, agent.token)
const browser = await openBrowser()

/** Every character at which some reader ends a line. */
const LINES = 'a\u0085b\u2028c\u2029d\u000be\u000cf\u001cg\u001dh\u001ei\rj\nk'

interface Seen {
  id: string
  data: string
}

/** Where httpx ends lines, as Python's `splitlines` does. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what it splits at
const PYTHON_LINES = /\r\n|[\n\r\u000b\u000c\u001c\u001d\u001e\u0085\u2028\u2029]/

/** What httpx-sse makes of a stream: once an id was there, each blank line is an event. */
const asHttpxSse = (text: string): Seen[] => {
  const seen: Seen[] = []
  let event = ''
  let data: string[] = []
  let id = ''
  let retry: number | null = null
  // What follows the last end of a line is no line yet.
  for (const line of text.split(PYTHON_LINES).slice(0, -1)) {
    if (line === '') {
      if (event === '' && data.length === 0 && id === '' && retry === null) continue
      seen.push({ id, data: data.join('\n') })
      event = ''
      data = []
      retry = null
      continue
    }
    if (line.startsWith(':')) continue
    const [, name, value = ''] = /^([^:]*)(?:: ?(.*))?$/s.exec(line)!
    if (name === 'event') event = value
    if (name === 'data') data.push(value)
    if (name === 'id' && !value.includes('\0')) id = value
    if (name === 'retry' && /^\d+$/.test(value)) retry = Number(value)
  }
  return seen
}

const asEventsourceParser = (text: string): Seen[] => {
  const seen: Seen[] = []
  const parser = createParser({ onEvent: ({ id = '', data }) => seen.push({ id, data }) })
  for (const character of text) parser.feed(character)
  return seen
}

const pathOf = (id: string) => `${app.url}/a2a/desk/tasks/${id}:subscribe`
const headers = { Authorization: `Bearer ${client.token}`, 'A2A-Version': '1.0' }

/** The text of a stream as it comes, and a promise of its end. */
const reading = async (chunks: AsyncIterable<Uint8Array>) => {
  const read = { text: '' }
  const decoder = new TextDecoder()
  const whole = (async () => {
    for await (const bytes of chunks) read.text += decoder.decode(bytes, { stream: true })
    return read.text
  })()
  return { read, whole }
}

const pingsIn = (text: string) => text.match(/^: ping$/gm)?.length ?? 0

/** A task's life with silences in it, told apart by what a reader has read of them. */
const liveThrough = async (textSoFar: () => string) => {
  const claimed = await worker.claim()
  const silence = async () => {
    const before = pingsIn(textSoFar())
    await until(() => pingsIn(textSoFar()) >= before + 3, { what: 'three comments' })
  }
  await silence()
  await worker.call('todos.say', { ...claimed.held, message: saying(LINES) })
  await silence()
  const artifact = { artifactId: 'a', parts: [{ text: LINES }] }
  await worker.call('todos.artifact', { ...claimed.held, artifact })
  await silence()
  await worker.call('todos.complete', { ...claimed.held, message: saying('done') })
}

/** The events of such a life, whoever read them: with data in each, unchanged, and one id each. */
const expectLife = (seen: Seen[]) => {
  const results = seen.map(({ data }) => JSON.parse(data))
  expect(results.length).toBeGreaterThanOrEqual(4)
  expect(new Set(seen.map(({ id }) => id)).size).toBe(seen.length)
  const texts = results.map((result) => JSON.stringify(result))
  expect(texts.filter((text) => text.includes(JSON.stringify(LINES).slice(1, -1)))).toHaveLength(2)
  expect(results.at(-1).statusUpdate.status.state).toBe('TASK_STATE_COMPLETED')
}

test('comments and their neighbors make no event for httpx-sse or eventsource-parser', async () => {
  const { id } = await v1.submit('x')
  const response = await fetch(pathOf(id), { headers })
  const { read, whole } = await reading(response.body!)
  await liveThrough(() => read.text)
  const text = await whole
  expectLife(asHttpxSse(text))
  expect(asEventsourceParser(text)).toEqual(asHttpxSse(text))
})

test('a delay that a stopping server sends is none either', async () => {
  const node = await startNode(app.databaseUrl, { pollMs: 60_000, pingMs: 20 })
  const { id } = await a2aClient(node.url, 'desk', client.token).submit('y')
  const response = await fetch(`${node.url}/a2a/desk/tasks/${id}:subscribe`, { headers })
  const { read, whole } = await reading(response.body!)
  await until(() => pingsIn(read.text) >= 2)
  await node.stop()
  const text = await whole
  expect(text).toMatch(/^retry: \d+$/m)
  expect(asHttpxSse(text)).toHaveLength(1)
  const retries: number[] = []
  createParser({ onRetry: (ms) => retries.push(ms) }).feed(text)
  expect(retries).toHaveLength(1)
  await v1.call('CancelTask', { id })
})

test('curl shows each line as it comes', async () => {
  const { id } = await v1.submit('z')
  const fields = Object.entries(headers).flatMap(([name, value]) => ['-H', `${name}: ${value}`])
  const curl = spawn('curl', ['-sSN', ...fields, pathOf(id)])
  const { read, whole } = await reading(curl.stdout)
  await liveThrough(() => read.text)
  expectLife(asHttpxSse(await whole))
  const [code] = curl.exitCode === null ? await once(curl, 'exit') : [curl.exitCode]
  expect(code).toBe(0)
})

test("Chromium's EventSource reads the same", async () => {
  const { id } = await v1.submit('w')
  // An EventSource sends no header of its own, so a proxy adds them; it serves the page as well.
  const texts: string[] = []
  const proxy = createServer(async (req, res) => {
    if (req.url !== '/events') {
      res.setHeader('Content-Type', 'text/html').end('<!doctype html><title>reader</title>')
      return
    }
    const response = await fetch(pathOf(id), { headers })
    res.writeHead(response.status, { 'Content-Type': response.headers.get('content-type')! })
    const body = Readable.fromWeb(response.body! as import('node:stream/web').ReadableStream)
    body.on('data', (bytes: Buffer) => texts.push(bytes.toString()))
    body.pipe(res)
  })
  proxy.listen(0, '127.0.0.1')
  await once(proxy, 'listening')
  afterAll(() => proxy.closeAllConnections())
  const { port } = proxy.address() as AddressInfo
  const context = await browser.newContext()
  const { page } = await openPage(context)
  await page.goto(`http://127.0.0.1:${port}/`)
  const seen = page.evaluate(
    () =>
      new Promise<Seen[]>((resolve) => {
        const all: Seen[] = []
        const source = new EventSource('/events')
        source.onmessage = ({ lastEventId, data }) => {
          all.push({ id: lastEventId, data })
          if (!data.includes('TASK_STATE_COMPLETED')) return
          source.close()
          resolve(all)
        }
      }),
  )
  await liveThrough(() => texts.join(''))
  expectLife(await seen)
  await context.close()
  proxy.close()
})
