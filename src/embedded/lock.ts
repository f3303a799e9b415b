/**
 * A lock file. Its holder is written in it, and the lock ends with its holder, however that one
 * died.
 *
 * Replacing a dead holder's file is the delicate part: of two processes that find it dead, the
 * slower must not remove what the quicker has put in its stead. So the right to remove it is itself
 * a lock, named after the dead holder, whose identity never comes back.
 */
import fs from 'node:fs'
import { bornAt, errorCode, isGone, unless } from './process.ts'

export type Lock = { acquired: true; release(): void } | { acquired: false; pid: number }

const ME = { pid: process.pid, born: bornAt(process.pid) ?? '' }
const textOf = (holder: typeof ME): string => `${holder.pid}\n${holder.born}\n`

/** A hard link is like O_EXCL with the content in it already: nobody reads a half-written lock. */
const create = (file: string): boolean => {
  const draft = `${file}.draft-${process.pid}`
  fs.writeFileSync(draft, textOf(ME))
  try {
    return unless('EEXIST', () => fs.linkSync(draft, file))
  } finally {
    fs.rmSync(draft, { force: true })
  }
}

const read = (file: string): string | null => {
  try {
    return fs.readFileSync(file, 'utf8')
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return null
    throw error
  }
}

/** The holder's pid while it lives. A text cut short by a power failure names nobody. */
const livingHolder = (text: string): number | null => {
  const [, digits, born] = /^(\d+)\n(.*)\n$/.exec(text) ?? []
  const pid = Number(digits)
  if (digits === undefined || isGone(pid)) return null
  const now = bornAt(pid)
  return now === null || born === '' || born === now ? pid : null
}

export const tryLock = (file: string): Lock => {
  for (;;) {
    if (create(file)) return { acquired: true, release: () => remove(file, textOf(ME)) }
    const text = read(file)
    if (text === null) continue
    const pid = livingHolder(text)
    if (pid !== null) return { acquired: false, pid }

    const right = tryLock(`${file}.${text.replace(/\W+/g, '-')}`)
    if (!right.acquired) return right
    remove(file, text)
    right.release()
  }
}

const remove = (file: string, text: string): void => {
  if (read(file) === text) fs.rmSync(file, { force: true })
}
