// Field cases: cards as they are published.
/** Cards in the manner of each version of the specification, as `queues.put` takes them. */
import fs from 'node:fs'
import path from 'node:path'
import { AgentCard as SdkCard } from '@a2a-js/sdk'
import { expect, test } from 'vitest'
import { runCli } from '../cli/run.ts'
import { ADMIN_TOKEN, startApp } from '../support/app.ts'
import { a2aClient, textMessage } from '../support/clients/actors.ts'
import { operate, refusalOf } from '../support/steps.ts'

const CARDS = path.resolve('test/fixtures/cards')
const files = fs.readdirSync(CARDS)
const read = (file: string) => JSON.parse(fs.readFileSync(path.join(CARDS, file), 'utf8'))

const app = await startApp()

const put = (card: object, name = 'clerk') => operate(app, 'queues.put', { name, card })
const warned = async (card: object): Promise<string[]> =>
  (await put(card)).warnings.map(({ field }: { field: string }) => field)
const published = async (name: string, version = '1.0') =>
  (
    await fetch(`${app.url}/a2a/${name}/.well-known/agent-card.json`, {
      headers: { 'A2A-Version': version },
    })
  ).json()

/** Every member of a document by its path, except those that say nothing. */
const said = (value: unknown, at: string): string[] => {
  if (value === null || value === '') return []
  if (typeof value !== 'object') return [at]
  if (Array.isArray(value)) return value.flatMap((item, index) => said(item, `${at}[${index}]`))
  return Object.entries(value).flatMap(([name, member]) =>
    said(member, `${at}.${name.replace(/_[a-z]/g, (letter) => letter[1]!.toUpperCase())}`),
  )
}

test.each(files)('%s is taken; each of its members is published or named', async (file) => {
  const card = read(file)
  const name = file.replace(/\W|json/g, '')
  const { warnings } = await put(card, name)
  const shown = (await published(name)) as object
  expect(shown).toMatchObject({ name: card.name })
  expect(() => SdkCard.fromJSON(shown)).not.toThrow()
  expect(await published(name, '0.3')).toMatchObject({ name: card.name, protocolVersion: '0.3.0' })

  const named = warnings.map(({ field }: { field: string }) => field) as string[]
  const visible = new Set(said(shown, 'card'))
  const silent = said(card, 'card')
    .filter((member) => !visible.has(member))
    .filter(
      (member) =>
        !named.some(
          (field) =>
            member === field || member.startsWith(`${field}.`) || member.startsWith(`${field}[`),
        ),
    )
  expect(silent).toEqual([])
})

test('what is older, elsewhere or nobody’s is named with the reason, and what is read is not', async () => {
  expect(await warned(read('0.3.0-of-a-framework.json'))).toEqual([
    'card.capabilities.humanInTheLoop',
    'card.protocolVersion',
    'card.url',
    'card.preferredTransport',
    'card.framework',
    'card.endpoints',
    'card.provider',
  ])
  const { warnings } = await put({
    framework: 'loom',
    capabilities: { stateTransitionHistory: true },
  })
  expect(warnings).toEqual([
    {
      field: 'card.capabilities.stateTransitionHistory',
      description: expect.stringContaining('only 0.x had it'),
    },
    { field: 'card.framework', description: 'is not known here: kept, but not published' },
  ])
  expect(
    await warned({ name: 'Plain', defaultInputModes: ['text/plain', 'image/*', '*/*'] }),
  ).toEqual([])
  expect((await operate(app, 'queues.put', { name: 'clerk' })).warnings).toEqual([])
})

test('the extended card of 0.x is switched on by its old name', async () => {
  await put({ ...read('0.2.5.json'), extended: { description: 'More' } }, 'old')
  expect(await published('old')).toMatchObject({ capabilities: { extendedAgentCard: true } })
})

test.each<[object, string, string]>([
  [{ desciption: 'x' }, 'card.desciption', 'description'],
  [{ iconURL: 'https://a.example' }, 'card.iconURL', 'iconUrl'],
  [
    { capabilities: { pushNotification: true } },
    'card.capabilities.pushNotification',
    'pushNotifications',
  ],
  [
    { capabilities: { extensions: [{ uri: 'urn:a', requierd: true }] } },
    'card.capabilities.extensions[0].requierd',
    'required',
  ],
  [{ skills: [{ id: 's', tgas: [] }] }, 'card.skills[0].tgas', 'tags'],
  [
    { provider: { organization: 'X', url: 'https://x', organisation: 'X' } },
    'card.provider.organisation',
    'organization',
  ],
  [{ extended: { skilsl: [] } }, 'card.extended.skilsl', 'skills'],
])('a typing error is named, with what was meant, and the card is taken: %j', async (...given) => {
  const [card, field, meant] = given
  const { warnings } = await put(card)
  const description = `is not known here: kept, but not published; probably ${meant} was meant`
  expect(warnings).toEqual([{ field, description }])
})

test.each<[object, string]>([
  [{ name: 5 }, 'card.name'],
  [{ default_input_modes: 'text' }, 'card.defaultInputModes'],
  [{ iconUrl: 'javascript:alert(1)' }, 'card.iconUrl'],
])('a known member of a wrong type is refused by name: %j', async (card, field) => {
  const { data } = await refusalOf(put(card))
  expect(data.violations.map((violation: { field: string }) => violation.field)).toEqual([field])
})

test('modes that are no media types never refuse what they may mean', async () => {
  const { client } = await app.queue('modes')
  const { call } = a2aClient(app.url, 'modes', client.token)
  const code = async (defaultInputModes: string[], mediaType: string) => {
    await put({ defaultInputModes }, 'modes')
    const parts = [{ text: 'x', mediaType }]
    const { error } = await call('SendMessage', {
      message: textMessage('', { parts }),
      configuration: { returnImmediately: true },
    })
    return error?.code ?? null
  }
  expect(await code(['text'], 'text/plain')).toBeNull()
  expect(await code(['text'], 'image/png')).toBe(-32005)
  expect(await code(['Image', 'text/plain'], 'image/png')).toBeNull()
  expect(await code(['data', 'text'], 'application/json')).toBeNull()
  expect(await code(['text/plain;charset=utf-8'], 'application/json')).toBe(-32005)
})

test('the command line prints the warnings beside what it says', async () => {
  const card = path.join(CARDS, '0.1.0.json')
  const args = ['queue', 'put', 'tides', '--card', `@${card}`, '--url', app.url]
  const ended = await runCli(args, { env: { SWITCHBOARD_TOKEN: ADMIN_TOKEN } })
  expect(ended).toMatchObject({ code: 0, stdout: 'queue tides is there\n' })
  expect(ended.stderr).toContain('warning: card.authentication is not published')
  expect(ended.stderr).toContain('warning: card.provider is not published: it has no url')
})
