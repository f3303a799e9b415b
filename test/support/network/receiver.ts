/** A webhook's receiver: a real HTTP server on loopback that remembers what it was told. */
import { createServer, type IncomingHttpHeaders, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll } from 'vitest'
import type { Answer } from '../clients/actors.ts'
import { until } from '../until.ts'

export interface Told {
  path: string
  method: string
  headers: IncomingHttpHeaders
  text: string
  json: Answer
  /** By the clock of this process, in ms: for gaps between two of them. */
  at: number
}

/**
 * What is answered to the n-th request (from 0) of a path; `hang` never answers, `drop` ends the
 * connection without a word.
 */
export type Script = (told: Told, n: number) => Reply | Promise<Reply>
export type Reply =
  | number
  | 'hang'
  | 'drop'
  | { status: number; headers?: Record<string, string>; body?: string }

export interface Receiver {
  url: string
  port: number
  told: Told[]
  /** Of one path, in the order they came. */
  at(path: string): Told[]
  /** Once so many have come to the path. */
  came(path: string, count: number): Promise<Told[]>
  close(): Promise<void>
}

/** Its caller closes it. To a courier another address of this machine is another host. */
export const openReceiver = async (
  script: Script = () => 200,
  host = '127.0.0.1',
): Promise<Receiver> => {
  const told: Told[] = []
  const server: Server = createServer(async (req, res) => {
    const chunks: Buffer[] = []
    for await (const chunk of req) chunks.push(chunk as Buffer)
    const text = Buffer.concat(chunks).toString()
    const path = req.url ?? ''
    const n = told.filter((other) => other.path === path).length
    const entry: Told = {
      path,
      method: req.method ?? '',
      headers: req.headers,
      text,
      json: text === '' ? null : JSON.parse(text),
      at: performance.now(),
    }
    told.push(entry)
    const reply = await script(entry, n)
    if (reply === 'hang') return
    if (reply === 'drop') return void res.destroy()
    const {
      status,
      headers = {},
      body = '',
    } = typeof reply === 'number' ? { status: reply } : reply
    res.writeHead(status, headers).end(body)
  })
  await new Promise<void>((done) => server.listen(0, host, done))
  const { port } = server.address() as AddressInfo
  const close = (): Promise<void> =>
    new Promise((done) => {
      server.close(() => done())
      server.closeAllConnections()
    })
  const at = (path: string): Told[] => told.filter((entry) => entry.path === path)
  return {
    url: `http://${host}:${port}`,
    port,
    told,
    at,
    came: (path, count) =>
      until(() => (at(path).length >= count ? at(path) : null), {
        what: `${count} deliveries to ${path}`,
      }),
    close,
  }
}

/** The same for a test file, closed with it. */
export const startReceiver = async (script?: Script, host?: string): Promise<Receiver> => {
  const receiver = await openReceiver(script, host)
  afterAll(receiver.close)
  return receiver
}

/** What a state is called in a delivery of 1.0; an artifact is just that. */
export const stateOf = ({ json }: Told): string =>
  json.artifactUpdate ? 'artifact' : json.statusUpdate.status.state.replace('TASK_STATE_', '')
