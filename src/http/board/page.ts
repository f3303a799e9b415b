/**
 * The board's page and its files, served as they lie in src/http/board/assets, and the few files of
 * the libraries it is made with, served from node_modules. They are static, the same for everybody,
 * and hold no data. There is no build: the only change to a file is where its libraries lie, which
 * a browser would not know. The policy lets the page load its own files, talk to its own server and
 * be framed by nobody; there is no inline script or style to make an exception for.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, extname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type RequestHandler, Router } from 'express'

const FOLDER = join('src', 'http', 'board', 'assets')

const TYPES: Record<string, string> = {
  '.html': 'text/html; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
}

/** The names that a file may import, and the library's file that each stands for. */
const LIBRARIES: Record<string, string> = {
  'eventsource-parser': 'eventsource-parser/dist/index.js',
  'lit/html.js': 'lit-html/lit-html.js',
  'lit/directives/guard.js': 'lit-html/directives/guard.js',
  'lit/directives/keyed.js': 'lit-html/directives/keyed.js',
  'lit/directives/live.js': 'lit-html/directives/live.js',
  'lit/directives/ref.js': 'lit-html/directives/ref.js',
  'lit/directives/repeat.js': 'lit-html/directives/repeat.js',
  uplot: 'uplot/dist/uPlot.esm.js',
}

/** All files of libraries that are served. */
const VENDORED = [
  ...Object.values(LIBRARIES),
  'lit-html/async-directive.js',
  'lit-html/directive.js',
  'lit-html/directive-helpers.js',
  'uplot/dist/uPlot.min.css',
]

const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "connect-src 'self'",
  "img-src 'self' data:",
  "base-uri 'none'",
  "frame-ancestors 'none'",
  "form-action 'self'",
  // Only lit's templates may make markup, and only the feed may name a script: its own worker.
  "require-trusted-types-for 'script'",
  'trusted-types lit-html switchboard',
].join('; ')

/** The headers of everything under /board. */
const HEADERS = {
  'Content-Security-Policy': POLICY,
  'X-Content-Type-Options': 'nosniff',
  'X-Frame-Options': 'DENY',
  'Referrer-Policy': 'no-referrer',
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Resource-Policy': 'same-origin',
}

/** The nearest folder from `from` upwards that holds `file`. */
const folderWith = (file: string, from: string): string => {
  if (existsSync(join(from, file))) return from
  if (dirname(from) === from) throw new Error(`the board's files are missing: no ${file}`)
  return folderWith(file, dirname(from))
}

const here = dirname(fileURLToPath(import.meta.url))

/** lit's templates are a package of their own, a dependency of lit. */
const packageFolders = (): Record<string, string> => {
  const require = createRequire(import.meta.url)
  const lit = require.resolve('lit')
  const litHtml = createRequire(lit).resolve('lit-html')
  return {
    'eventsource-parser': folderWith(
      'package.json',
      dirname(require.resolve('eventsource-parser')),
    ),
    'lit-html': folderWith('lit-html.js', dirname(dirname(litHtml))),
    uplot: folderWith('package.json', dirname(require.resolve('uplot'))),
  }
}

/**
 * The script with its imports by name turned into addresses, which is all that browsers know. `up` leads
 * from the script's folder to that of the board.
 */
const withAddresses = (script: string, up = './'): string =>
  script.replace(/(\bfrom\s*|\bimport\s*)'([^'./][^']*)'/g, (whole, word, name) => {
    const file = Object.hasOwn(LIBRARIES, name) ? LIBRARIES[name] : undefined
    if (file === undefined) throw new Error(`the board may not import ${whole}`)
    return `${word}'${up}vendor/${file}'`
  })

/** Path → type and content. */
const readAll = (): Map<string, { type: string; content: string }> => {
  // The compiled code lies deeper than the source.
  const folder = join(folderWith(join(FOLDER, 'index.html'), here), FOLDER)
  const files = new Map<string, { type: string; content: string }>()
  const add = (address: string, file: string, change = (text: string) => text): void => {
    const type = TYPES[extname(file)]
    if (type) files.set(address, { type, content: change(readFileSync(file, 'utf8')) })
  }
  add('/board', join(folder, 'index.html'))
  for (const name of readdirSync(join(folder, 'styles'))) {
    add(`/board/${name}`, join(folder, 'styles', name))
  }
  for (const name of readdirSync(join(folder, 'scripts'))) {
    add(`/board/${name}`, join(folder, 'scripts', name), (text) => withAddresses(text))
  }
  for (const name of readdirSync(join(folder, 'scripts', 'feed'))) {
    const file = join(folder, 'scripts', 'feed', name)
    add(`/board/feed/${name}`, file, (text) => withAddresses(text, '../'))
  }
  const packages = packageFolders()
  for (const name of VENDORED) {
    const [library = '', ...rest] = name.split('/')
    add(`/board/vendor/${name}`, join(packages[library]!, ...rest))
  }
  return files
}

export const boardHeaders: RequestHandler = (_req, res, next) => {
  res.set(HEADERS)
  next()
}

export const createBoardPage = (): Router => {
  // Strict, since the page's links are relative and would lead elsewhere from /board/.
  const router = Router({ strict: true })
  for (const [path, { type, content }] of readAll()) {
    // Revalidated each time, so that no browser shows an old board after an upgrade.
    const headers = { 'Content-Type': type, 'Cache-Control': 'no-cache' }
    router.get(path, (_req, res) => void res.set(headers).send(content))
  }
  router.get('/board/', (_req, res) => res.redirect(308, '../board'))
  return router
}
