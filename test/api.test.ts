/** docs/api.md against the declarations of the package's entry: it names every export, and its examples run. */
import { execFile } from 'node:child_process'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { afterAll, expect, test } from 'vitest'
import { startApp } from './support/app.ts'

const run = promisify(execFile)
const app = await startApp()
const { agent } = await app.queue('desk')

interface Section {
  names: string[]
  text: string
  example: string
}

const sections: Section[] = fs
  .readFileSync('docs/api.md', 'utf8')
  .split(/^(?=##)/m)
  .filter((text) => text.startsWith('### '))
  .map((text) => ({
    names: [...text.split('\n', 1)[0]!.matchAll(/`(\w+)`/g)].map(([, name]) => name!),
    text,
    example: /^```ts\n(.*?)^```$/ms.exec(text)?.[1] ?? '',
  }))

/** A project of the examples, in which `switchboard` is this source. */
const project = fs.realpathSync(fs.mkdtempSync(path.join(os.tmpdir(), 'switchboard-api-')))
afterAll(() => fs.rmSync(project, { recursive: true }))
const examples = sections.map(({ example }, index) => {
  const file = path.join(project, `example-${index}.ts`)
  fs.writeFileSync(file, `${example}\nexport {}\n`)
  return file
})
const main = path.join(project, 'main.ts')
fs.writeFileSync(main, examples.map((file) => `await import('${file}')\n`).join(''))
fs.writeFileSync(path.join(project, 'package.json'), '{"type":"module"}')
fs.writeFileSync(
  path.join(project, 'tsconfig.json'),
  JSON.stringify({
    extends: path.resolve('tsconfig.json'),
    compilerOptions: {
      paths: { switchboard: [path.resolve('src/index.ts')] },
      typeRoots: [path.resolve('node_modules/@types')],
      rootDir: '/',
      outDir: path.join(project, 'out'),
      emitDeclarationOnly: true,
      sourceMap: false,
    },
    files: [path.resolve('src/index.ts'), ...examples],
    include: [],
  }),
)

const typeCheck = run('npx', ['tsc', '-p', project])
typeCheck.catch(() => {})
const declarations = async (name: string): Promise<string> => {
  await typeCheck
  return fs.readFileSync(path.join(project, 'out', path.resolve('src', name)), 'utf8')
}

/** The package's exports by name, each with the file that declares it. */
const readExports = async (): Promise<Map<string, string>> => {
  const entry = await declarations('index.d.ts')
  const lists = entry.matchAll(/export (?:type )?\{([^}]*)\} from '([^']+)'/g)
  return new Map(
    [...lists].flatMap(([, list, from]) =>
      list!
        .split(',')
        .map((name): [string, string] => [name.replace(/\btype\b/, '').trim(), from!])
        .filter(([name]) => name !== ''),
    ),
  )
}

test('the examples type-check against the declarations', async () => {
  const { stdout } = await typeCheck.catch((error: { stdout: string }) => error)
  expect(stdout).toBe('')
}, 120_000)

test('every export is described, and nothing else is', async () => {
  const exported = await readExports()
  expect(exported.size).toBeGreaterThan(30)
  expect(sections.flatMap(({ names }) => names).sort()).toEqual([...exported.keys()].sort())
}, 120_000)

test('every member of an interface or a class that is exported is named in its section', async () => {
  const missing: string[] = []
  for (const [name, from] of await readExports()) {
    const text = await declarations(from.replace(/\.[jt]s$/, '.d.ts'))
    const shape = new RegExp(`^export (interface|declare class) ${name}\\b.*?\\{(.*?)^\\}`, 'ms')
    const [, kind, body = ''] = shape.exec(text) ?? []
    // Every error has a name, and the package makes it.
    const own = kind === 'interface' ? [] : ['name', 'constructor']
    const members = [...body.matchAll(/^ {4}(?:readonly )?(?:get )?(\w+)\??[(:<]/gm)]
      .map(([, member]) => member!)
      .filter((member) => !own.includes(member))
    const section = sections.find(({ names }) => names.includes(name))?.text ?? ''
    const named = (member: string): boolean => new RegExp(`\`${member}\\b`).test(section)
    missing.push(...members.filter((member) => !named(member)).map((member) => `${name}.${member}`))
  }
  expect(missing).toEqual([])
}, 120_000)

test('each section has an example that imports what the section is about', () => {
  const missing = sections.flatMap(({ names, example }) => {
    const imported = /import (?:type )?\{([^}]*)\} from 'switchboard'/.exec(example)?.[1] ?? ''
    return names.filter((name) => !new RegExp(`\\b${name}\\b`).test(imported))
  })
  expect(missing).toEqual([])
})

test('the examples run', async () => {
  const { stdout } = await run(process.execPath, ['--import', 'tsx', main], {
    env: {
      PATH: process.env.PATH,
      TSX_TSCONFIG_PATH: path.join(project, 'tsconfig.json'),
      DATABASE_URL: app.databaseUrl,
      SWITCHBOARD_URL: app.url,
      SWITCHBOARD_TOKEN: agent.token,
      LOG_LEVEL: 'silent',
    },
  })
  expect(stdout).toMatch(/listening on http:\/\/127\.0\.0\.1:\d+ .*\/board\/login\?code=/)
  expect(stdout).toContain('PORT must be a number from 0 to 65535')
  expect(stdout).toContain('Booked.\nSee you.')
}, 120_000)
