/**
 * The board's page and its files, served as they lie in src/http/board, and the few files of the
 * libraries it is made with, served from node_modules: static, the same for everybody, without a
 * datum in them. There is no build: all that is done to a file is to say where a library lies,
 * which a browser would not know. The policy lets the page load its own files, talk to its own
 * server and be framed by nobody; there is no inline script or style to make an exception for.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { basename, dirname, extname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type RequestHandler, Router } from 'express'

const FOLDER = join('src', 'http', 'board', 'assets')

const TYPES: Record<string, string> = {
  '.css': 'text/css; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
}

/** What a file may import by name, and the file of a library that is meant. */
const LIBRARIES: Record<string, string> = {
  'lit/html.js': 'lit-html/lit-html.js',
  'lit/directives/guard.js': 'lit-html/directives/guard.js',
  'lit/directives/keyed.js': 'lit-html/directives/keyed.js',
  'lit/directives/live.js': 'lit-html/directives/live.js',
  'lit/directives/ref.js': 'lit-html/directives/ref.js',
  'lit/directives/repeat.js': 'lit-html/directives/repeat.js',
  uplot: 'uplot/dist/uPlot.esm.js',
}

/** All that is served of libraries. */
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
  // Markup is made by lit's templates and by nothing else.
  "require-trusted-types-for 'script'",
  'trusted-types lit-html',
].join('; ')

/** What a browser is told of everything under /board. */
const HEADERS = {
  'Content-Security-Policy': POLICY,
  'X-Content-Type-Options': 'nosniff',
  'X-Frame-Options': 'DENY',
  'Referrer-Policy': 'no-referrer',
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Resource-Policy': 'same-origin',
}

/** The nearest folder from `from` upwards in which `file` is. */
const folderWith = (file: string, from: string): string => {
  if (existsSync(join(from, file))) return from
  if (dirname(from) === from) throw new Error(`the board's files are missing: no ${file}`)
  return folderWith(file, dirname(from))
}

const here = dirname(fileURLToPath(import.meta.url))

/** lit's templates are a package of their own, which lit brings along. */
const packageFolders = (): Record<string, string> => {
  const require = createRequire(import.meta.url)
  const lit = require.resolve('lit')
  const litHtml = createRequire(lit).resolve('lit-html')
  return {
    'lit-html': folderWith('lit-html.js', dirname(dirname(litHtml))),
    uplot: folderWith('package.json', dirname(require.resolve('uplot'))),
  }
}

/** A browser knows addresses, not names. */
const withAddresses = (script: string): string =>
  script.replace(/(\bfrom\s*|\bimport\s*)'([^'./][^']*)'/g, (whole, word, name) => {
    const file = Object.hasOwn(LIBRARIES, name) ? LIBRARIES[name] : undefined
    if (file === undefined) throw new Error(`the board may not import ${whole}`)
    return `${word}'./vendor/${file}'`
  })

/** Path → type and content. */
const readAll = (): Map<string, { type: string; content: string }> => {
  // The compiled code lies deeper than the source.
  const folder = join(folderWith(join(FOLDER, 'index.html'), here), FOLDER)
  const files = new Map<string, { type: string; content: string }>()
  for (const file of ['scripts', 'styles'].flatMap((kind) =>
    readdirSync(join(folder, kind)).map((name) => join(folder, kind, name)),
  )) {
    const type = TYPES[extname(file)]
    if (type === undefined) continue
    const content = readFileSync(file, 'utf8')
    files.set(`/board/${basename(file)}`, {
      type,
      content: extname(file) === '.js' ? withAddresses(content) : content,
    })
  }
  const page = readFileSync(join(folder, 'index.html'), 'utf8')
  files.set('/board', { type: 'text/html; charset=utf-8', content: page })

  const packages = packageFolders()
  for (const name of VENDORED) {
    const [library = '', ...rest] = name.split('/')
    const content = readFileSync(join(packages[library]!, ...rest), 'utf8')
    files.set(`/board/vendor/${name}`, { type: TYPES[extname(name)]!, content })
  }
  return files
}

/** Kept in memory, asked for anew each time: after an upgrade no browser shows an old board. */
const file = (content: string, type: string): RequestHandler => {
  return (_req, res) => {
    res.set({ 'Content-Type': type, 'Cache-Control': 'no-cache' }).send(content)
  }
}

export const boardHeaders: RequestHandler = (_req, res, next) => {
  res.set(HEADERS)
  next()
}

export const createBoardPage = (): Router => {
  // Strict, since the page's links are relative: they would lead astray from /board/.
  const router = Router({ strict: true })
  for (const [path, { type, content }] of readAll()) router.get(path, file(content, type))
  router.get('/board/', (_req, res) => res.redirect(308, '../board'))
  return router
}
