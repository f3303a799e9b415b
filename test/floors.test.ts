/** The shape of the source: who may import whom, where a library lives, what is spelled once. */
import fs from 'node:fs'
import path from 'node:path'
import { expect, test } from 'vitest'
import { STATE_NAMES } from '../src/domain/lifecycle.ts'

const SRC = path.resolve('src')

const filesIn = (folder: string): string[] =>
  fs.readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const file = path.join(folder, entry.name)
    if (entry.isDirectory()) return filesIn(file)
    return entry.name.endsWith('.ts') ? [file] : []
  })

const foldersIn = (folder: string): string[] => [
  folder,
  ...fs
    .readdirSync(folder, { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .flatMap((entry) => foldersIn(path.join(folder, entry.name))),
]

interface Source {
  name: string
  floor: string
  text: string
  imports: { target: string; typeOnly: boolean }[]
}

/** A file directly in src is a floor of its own, and so is each of `embedded`'s. */
const floorOf = (name: string): string =>
  name.includes('/') ? name.slice(0, name.indexOf('/')) : name.replace(/\.ts$/, '')

const sources: Source[] = filesIn(SRC).map((file) => {
  const name = path.relative(SRC, file)
  const text = fs.readFileSync(file, 'utf8')
  const imports = [...text.matchAll(/^(?:import|export)\s+(type\s)?[^;]*?from\s+'([^']+)'/gms)].map(
    ([, type, from]) => ({
      typeOnly: type !== undefined,
      target: from!.startsWith('.')
        ? path.relative(SRC, path.resolve(path.dirname(file), from!))
        : from!,
    }),
  )
  return { name, floor: floorOf(name), text, imports }
})

/** Floor → floors it may import. */
const MAY: Record<string, readonly string[]> = {
  domain: [],
  base: ['domain'],
  config: [],
  embedded: ['embedded'],
  store: ['domain', 'base', 'migrations'],
  service: ['domain', 'base', 'store'],
  protocol: ['domain', 'base'],
  rpc: ['domain', 'base', 'protocol'],
  http: ['domain', 'base', 'protocol', 'rpc'],
  background: ['domain', 'base', 'service'],
  webhook: ['domain'],
  'agent-kit': ['base'],
  app: [
    'base',
    'config',
    'domain',
    'store',
    'service',
    'protocol',
    'rpc',
    'http',
    'background',
    'webhook',
  ],
  cli: [
    'base',
    'config',
    'domain',
    'app',
    'embedded',
    'agent-kit',
    'store/doctor/doctor.ts',
    'store/postgres/migrate.ts',
    'store/postgres/probe.ts',
  ],
  index: ['app', 'agent-kit', 'config', 'base', 'domain', 'service', 'store', 'embedded'],
}

/** Floors that are written against the services' interfaces and are handed the services themselves. */
const MAY_IMPORT_TYPES: Record<string, readonly string[]> = {
  protocol: ['service'],
  http: ['service'],
}

/** Folders within a floor, lowest first; a folder may import itself and what is in rows below it. */
const INNER: Record<string, readonly (readonly string[])[]> = {
  store: [['postgres'], ['wake'], ['todos'], ['move/kin'], ['move'], ['push', 'admin'], ['doctor']],
  // `wire` is what every version is written in: rows, their params and paths, errors.
  protocol: [['json'], ['wire'], ['a2a'], ['v1', 'agent', 'operator'], ['v03'], ['v01'], ['.']],
  service: [
    ['.'],
    ['watch', 'push', 'schemas'],
    ['tasks'],
    ['schedules'],
    ['claims', 'sweeps', 'board'],
    ['operator'],
  ],
  http: [['bounds'], ['request'], ['stream'], ['bindings'], ['board'], ['.']],
}

const MAX_FILES = 13

const isPackage = (target: string): boolean => !target.endsWith('.ts')

test('imports go down the floors only', () => {
  const wrong = sources.flatMap(({ name, floor, imports }) =>
    imports
      .filter(({ target }) => !isPackage(target))
      .filter(({ target, typeOnly }) => {
        const to = target.startsWith('../migrations') ? 'migrations' : floorOf(target)
        if (typeOnly && MAY_IMPORT_TYPES[floor]?.includes(to)) return false
        return to !== floor && !MAY[floor]?.some((may) => may === to || may === target)
      })
      .map(({ target }) => `${name} → ${target}`),
  )
  expect(wrong).toEqual([])
})

test('inside a floor, folders import only what is in a row below them', () => {
  const wrong = sources.flatMap(({ name, floor, imports }) => {
    const order = INNER[floor]
    if (!order) return []
    const rankOf = (file: string): number => {
      const folder = path.dirname(path.relative(floor, file))
      const rank = order.findIndex((row) => row.includes(folder))
      return rank < 0 ? Number.NaN : rank
    }
    return imports
      .filter(({ target }) => floorOf(target) === floor)
      .filter(({ target }) => path.dirname(target) !== path.dirname(name))
      .filter(({ target }) => !(rankOf(target) < rankOf(name)))
      .map(({ target }) => `${name} → ${target}`)
  })
  expect(wrong).toEqual([])
})

test(`a folder of the source holds at most ${MAX_FILES} files`, () => {
  const crowded = foldersIn(SRC)
    .map((folder) => ({
      folder: path.relative(SRC, folder),
      files: fs.readdirSync(folder, { withFileTypes: true }).filter((entry) => entry.isFile()),
    }))
    .filter(({ files }) => files.length > MAX_FILES)
  expect(crowded.map(({ folder, files }) => `${folder}: ${files.length}`)).toEqual([])
})

test('the architecture page says in a sentence what each folder is for', () => {
  const page = fs.readFileSync('docs/architecture.md', 'utf8')
  const rooms = page.slice(page.indexOf('## The rooms'), page.indexOf('## Words'))
  const described = [...rooms.matchAll(/`([\w/.-]+)`/g)].map(([, folder]) => folder!)
  const untold = foldersIn(SRC)
    .map((folder) => path.relative(SRC, folder))
    .filter((folder) => fs.readdirSync(path.join(SRC, folder)).some((name) => name.includes('.')))
    .filter((folder) => folder !== '')
    .filter((folder) => {
      // In the row of its parent or of a sibling it is named by its last parts.
      const parts = folder.split('/')
      return !parts.some((_, n) => described.includes(parts.slice(n).join('/')))
    })
  expect(untold).toEqual([])
})

test('no two files import each other, however far around', () => {
  const graph = new Map(
    sources.map(({ name, imports }) => [
      name,
      imports.filter(({ typeOnly }) => !typeOnly).map(({ target }) => target),
    ]),
  )
  const done = new Set<string>()
  const cycles: string[] = []
  const visit = (name: string, trail: readonly string[]): void => {
    if (trail.includes(name)) cycles.push([...trail.slice(trail.indexOf(name)), name].join(' → '))
    if (done.has(name) || trail.includes(name)) return
    for (const target of graph.get(name) ?? []) visit(target, [...trail, name])
    done.add(name)
  }
  for (const name of graph.keys()) visit(name, [])
  expect(cycles).toEqual([])
})

test('each library has its home', () => {
  const homes: Record<string, RegExp> = {
    knex: /^store\//,
    pg: /^(store\/|embedded)/,
    zod: /^(protocol|rpc)\/|^config\.ts$/,
    'json-rpc-2.0': /^(rpc\/dispatch|agent-kit\/connection\/batched-calls)\.ts$/,
    express: /^(http\/|app\.ts$)/,
    helmet: /^http\//,
    cookie: /^http\/board\/login\.ts$/,
    canonicalize: /^base\/canonical-json\.ts$/,
    'eventsource-parser': /^(agent-kit|cli)\//,
    jose: /^protocol\/a2a\/card-signature\.ts$/,
    'prom-client': /^base\/metrics\.ts$/,
    '@nats-io/transport-node': /^store\/wake\/nats\.ts$/,
    pino: /^base\/log\.ts$/,
    commander: /^cli\//,
    undici: /^webhook\/post\.ts$/,
    'ipaddr.js': /^(webhook\/guard|http\/request\/dead-peers)\.ts$/,
    'rate-limiter-flexible': /^store\/admin\/rate-limits\.ts$/,
    croner: /^service\/schedules\/cron\.ts$/,
    'ajv/dist/2020.js': /^service\/schemas\/worker\.ts$/,
  }
  const wrong = sources.flatMap(({ name, imports }) =>
    imports
      .filter(({ target }) => isPackage(target) && !target.startsWith('node:'))
      .filter(({ target }) => !homes[target]?.test(name))
      .map(({ target }) => `${name} → ${target}`),
  )
  expect(wrong).toEqual([])
})

const spelledBy = (pattern: RegExp): string[] =>
  sources.filter(({ text }) => pattern.test(text)).map(({ name }) => name)

test('rows are locked for work, and leases compared, in the claim primitive only', () => {
  expect(spelledBy(/for update/i)).toEqual(['store/move/pick.ts'])
  expect(spelledBy(/lease_free\(/)).toEqual(['store/move/conditions.ts'])
  expect(spelledBy(/lease_until\(/)).toEqual(['store/move/columns.ts', 'store/move/conditions.ts'])
  expect(spelledBy(/lease_expires_at\s*[<>]/)).toEqual([])
  expect(spelledBy(/lease_probe_at\s*[<>]/)).toEqual([
    'store/move/columns.ts',
    'store/move/conditions.ts',
  ])
})

test('a todo is changed by the one statement and made by one other', () => {
  expect(spelledBy(/update todos\b/i)).toEqual(['store/move/effects.ts', 'store/move/statement.ts'])
  expect(spelledBy(/insert into todos\b/i)).toEqual(['store/move/add.ts'])
})

test('nothing but the lifecycle lists the states', () => {
  const several = sources.filter(({ name, text }) => {
    if (name === 'domain/lifecycle.ts') return false
    const named = STATE_NAMES.filter((state) => text.includes(`'${state}'`))
    return named.length >= STATE_NAMES.length
  })
  // A protocol's own names are a Record<State, …>: a new state does not compile without one.
  const tables = several.filter(({ text }) => !/Record<State,/.test(text))
  expect(tables.map(({ name }) => name)).toEqual([])
})

test('the database is spoken to in the store only', () => {
  const sql =
    /\b(select|insert into|delete from)\b[^'`]*\b(todos|events|attempts|messages|queues|endpoints|push_configs|deliveries)\b/
  const wrong = sources.filter(({ name, text }) => !name.startsWith('store/') && sql.test(text))
  expect(wrong.map(({ name }) => name)).toEqual([])
})

test('the environment is read by the config, the command line and the examples only', () => {
  const wrong = spelledBy(/process\.env/).filter(
    (name) => name !== 'config.ts' && !name.startsWith('cli/'),
  )
  expect(wrong).toEqual([])
})

test('a stored time is never compared with the clock of this process', () => {
  const wrong = spelledBy(/Date\.now\(\)/).filter(
    // An id's time is for its place in an index, and is not read again. The doctor compares the clocks.
    (name) => !/^(cli\/|agent-kit\/|embedded|base\/uuid|store\/doctor\/nodes)/.test(name),
  )
  expect(wrong).toEqual([])
})

/** Files in which something may be cited, with their text as one line: comments are wrapped. */
const citing = ['src', 'test', 'bench', 'docs', 'examples'].flatMap((folder) =>
  fs
    .readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .map((name) => path.join(folder, name))
    // What benchmarks leave behind is not of the repository.
    .filter((name) => /\.(ts|js|css|sh|md)$/.test(name) && !name.startsWith('bench/results/'))
    .map((name) => {
      const text = fs.readFileSync(name, 'utf8')
      return { name, text: text.replaceAll(/\n\s*(?:\/\/|\*|#)?\s*/g, ' ') }
    }),
)

test('nothing cites a document that is not in the repository', () => {
  const elsewhere =
    /\b(?:(?:system|layout|renovation)\.md|(?<!docs\/)api\.md|ADR-\d+|SPEC-\d+|digest(?:'s sections?)? \d|F0\d\d)\b/g
  const wrong = citing.flatMap(({ name, text }) =>
    [...text.matchAll(elsewhere)]
      // Pages name each other without their folder.
      .filter(([cited]) => !(cited.startsWith('api') && /^docs\/[^/]+$/.test(name)))
      .map(([cited]) => `${name}: ${cited}`),
  )
  expect(wrong).toEqual([])
})

test('the pages, headings and sections that are cited are there', () => {
  const wrong = citing.flatMap(({ name, text }) =>
    [...text.matchAll(/\b(docs\/[\w/-]+\.md)(?:, (?:"([^"]+)"|section (\d+)))?/g)]
      .filter(([, page, heading, section]) => {
        if (!fs.existsSync(page!)) return true
        const headings = fs.readFileSync(page!, 'utf8').matchAll(/^#+ (.*)$/gm)
        const found = [...headings].map(([, title]) => title!)
        if (heading !== undefined) return !found.includes(heading)
        return section !== undefined && !found.some((title) => title.startsWith(`${section}. `))
      })
      .map(([cited]) => `${name}: ${cited}`),
  )
  expect(wrong).toEqual([])
})
