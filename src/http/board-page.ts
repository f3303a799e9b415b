/**
 * The board's page and its files, served as they lie in src/http/board: static, the same for
 * everybody, without a datum in them. The policy lets the page load its own files, talk to its own
 * server and be framed by nobody; there is no inline script or style to make an exception for.
 */
import { existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type RequestHandler, Router } from 'express'

const FOLDER = join('src', 'http', 'board')

const FILES = {
  'board.css': 'text/css; charset=utf-8',
  'board.js': 'text/javascript; charset=utf-8',
  'lanes.js': 'text/javascript; charset=utf-8',
  'stream.js': 'text/javascript; charset=utf-8',
}

const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "connect-src 'self'",
  "img-src 'self' data:",
  "base-uri 'none'",
  "frame-ancestors 'none'",
  "form-action 'self'",
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

/** The compiled code lies deeper than the source: the folder is looked for from here upwards. */
const findFolder = (from: string): string => {
  const folder = join(from, FOLDER)
  if (existsSync(join(folder, 'index.html'))) return folder
  if (dirname(from) === from) throw new Error(`the board's files are missing: no ${FOLDER}`)
  return findFolder(dirname(from))
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
  const folder = findFolder(dirname(fileURLToPath(import.meta.url)))
  const read = (name: string): string => readFileSync(join(folder, name), 'utf8')

  // Strict, since the page's links are relative: they would lead astray from /board/.
  const router = Router({ strict: true })
  router.get('/board', file(read('index.html'), 'text/html; charset=utf-8'))
  router.get('/board/', (_req, res) => res.redirect(308, '../board'))
  for (const [name, type] of Object.entries(FILES)) {
    router.get(`/board/${name}`, file(read(name), type))
  }
  return router
}
